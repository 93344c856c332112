//! The cuFile driver of the process: opened with a bound, counted, asked what it truly does.

mod availability;
mod info;
mod open;
mod options;
mod parameters;
mod properties;
mod settings;
mod statistics;

pub use availability::{Availability, GdsPath, Reason, ReasonKind};
pub use info::{DriverInfo, Info, LibraryInfo};
pub use open::Driver;
pub(crate) use open::{DriverState, lock};
pub use options::DriverOptions;
pub use parameters::{BoolParameter, SizeParameter, TextParameter};
pub use properties::{FileSystem, PeerFlags, Properties};
pub use settings::{NotApplied, Scoped, Setting};
pub use statistics::{GpuStatistics, Histograms, OpCounter, Statistics};
