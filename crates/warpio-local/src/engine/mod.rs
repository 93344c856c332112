//! The drivers that carry transfers of local files out, a folder each.

mod posix;
mod target;

pub use posix::PosixEngine;
pub use target::OpenFile;
