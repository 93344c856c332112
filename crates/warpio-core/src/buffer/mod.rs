//! Owned ranges of device memory, in the manner of `bytes::BytesMut` and `bytes::Bytes`.

mod allocation;
mod convert;
mod fence;
mod mutable;
mod shared;

pub(crate) use allocation::Allocation;
pub use allocation::{Attachment, MemoryBlock};
pub(crate) use fence::watch_all;
pub use mutable::DeviceBytesMut;
pub use shared::DeviceBytes;
