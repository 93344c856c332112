//! The core of warpio: traits, owned device buffers, transfers, planning and bounded staging.
//!
//! Nothing here makes system calls, knows CUDA or opens connections. Engines implement [`engine::Engine`] or
//! [`Fetch`], devices implement [`DeviceBackend`], and users meet [`AsyncDeviceRead`] and [`AsyncDeviceWrite`].
#[cfg(not(target_os = "linux"))]
compile_error!("warpio runs on Linux only");

mod buffer;
pub mod config;
mod device;
pub mod engine;
mod error;
#[cfg(all(test, feature = "loom"))]
mod loom_tests;
pub mod plan;
mod pool;
mod source;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
mod text;
mod transfer;

pub use buffer::{DeviceBytes, DeviceBytesMut};
pub use device::{
    Device, DeviceBackend, DeviceEvent, DeviceId, DeviceStream, EventBackend, ScatterRow, StreamBackend, WatchDone,
};
pub use error::{Error, ErrorKind, Result, redact};
pub use pool::{PoolConfig, PoolStats, Region, Slot, StagingPool, StagingSlab};
pub use source::{
    AsyncDeviceRead, AsyncDeviceReadExt, AsyncDeviceWrite, AsyncDeviceWriteExt, BytesStream, Capabilities, Chunk,
    Chunks, ChunksBuilder, Description, Fetch, Flush, Reader, Staged, StagedWriter,
};
pub use text::{parse_decimal, percent_decode};
pub use transfer::{
    Completer, Failed, Moved, Outcome, PathBytes, PathKind, Ranges, Scattered, Transfer, TransferReport, within,
};
