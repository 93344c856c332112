//! The drivers that carry transfers of local files out, a folder each.

mod auto;
mod cached;
mod policy;
mod posix;
mod ring;
mod target;

pub use auto::AutoEngine;
pub use policy::DirectPolicy;
pub use posix::PosixEngine;
pub use ring::{Mode, RingTarget};
pub use target::OpenFile;
