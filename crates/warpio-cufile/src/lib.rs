//! GPUDirect Storage for warpio, through NVIDIA's cuFile: bytes go between storage and GPU memory without passing
//! through the host's.
//!
//! The library is opened at run time, and nothing links to it. [`Library`] finds it; [`Driver`] opens its driver, with a
//! bound, and says honestly whether bytes go past host memory ([`Driver::availability`]); [`CuFileEngine`] carries
//! transfers out, and leaves to another engine what cuFile cannot do. [`sys`] is the library as it is.

mod buffer;
mod driver;
mod engine;
mod error;
mod guard;
mod handle;
mod janitor;
pub mod sys;
mod unavailable;

pub use driver::{
    Availability, BoolParameter, Driver, DriverInfo, DriverOptions, FileSystem, GdsPath, GpuStatistics, Histograms,
    Info, LibraryInfo, NotApplied, OpCounter, PeerFlags, Properties, Reason, ReasonKind, Scoped, Setting,
    SizeParameter, Statistics, TextParameter,
};
pub use engine::{CuFile, CuFileEngine, CuFileTarget, EngineOptions, EngineStats, Route};
pub use error::{CuFileError, Failure, decode};
pub use guard::Surroundings;
pub use janitor::wait_for_releases;
pub use sys::{Library, LibraryVersion};
pub use unavailable::Unavailable;
