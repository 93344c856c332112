//! Files mapped into memory as sources.

mod options;
mod pinned;
mod source;

pub use options::{MmapOptions, Protection, Sharing};
pub use source::MmapSource;

pub(crate) use pinned::PinnedMap;
pub(crate) use source::changed;
