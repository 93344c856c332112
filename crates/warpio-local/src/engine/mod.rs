//! The drivers that carry transfers of local files out, a folder each.

mod direct;
mod posix;
mod ring;
mod target;
mod tokio_uring;
mod uring;

pub use posix::PosixEngine;
pub use ring::{Mode, RingOptions, RingTarget, Unavailable};
pub use target::OpenFile;
pub use tokio_uring::TokioUringEngine;
pub use uring::{UringEngine, UringFeatures};
