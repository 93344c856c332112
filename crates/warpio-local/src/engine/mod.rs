//! The drivers that carry transfers of local files out, a folder each.

mod auto;
mod cached;
mod closing;
mod direct;
mod policy;
mod posix;
mod ring;
mod target;
mod tokio_uring;
mod uring;

pub use auto::AutoEngine;
pub use policy::DirectPolicy;
pub(crate) use posix::Credits;
pub use posix::{DirectThreads, PosixEngine};
pub use ring::{Mode, RingOptions, RingTarget, Unavailable};
pub use target::OpenFile;
pub use tokio_uring::TokioUringEngine;
pub use uring::{UringEngine, UringFeatures};
