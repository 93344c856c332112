//! GPU memory that is registered with cuFile, so that DMA reaches it without a bounce buffer.

mod cache;
mod register;
mod registry;

pub(crate) use cache::{Cache, Pin};
pub(crate) use registry::Registry;
