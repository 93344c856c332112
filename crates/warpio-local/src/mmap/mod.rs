//! Files mapped into memory as sources.

mod source;

pub use source::{MmapOptions, MmapSource};
