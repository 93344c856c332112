//! warpio is an async-first I/O runtime on tokio that moves bytes between storage and GPU memory.
//!
//! ```
//! use warpio::{AsyncDeviceReadExt, Runtime};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("data.bin");
//! # std::fs::write(&path, vec![7; 20_000])?;
//! # let path = path.to_str().unwrap();
//! let rt = Runtime::new()?;                     // fast defaults; Runtime::builder() for the rest
//! let file = rt.open(path).await?;
//!
//! let data = file.read_all().await?;            // in GPU memory, or host memory where there is no GPU
//!
//! let mut a = rt.device().alloc(20_000)?;       // memory that I own, two reads in flight
//! let b = a.split_off(10_000);
//! let (a, b) = tokio::try_join!(file.read_exact_at(0, a), file.read_exact_at(10_000, b))?;
//! # assert_eq!((data.len(), a.len(), b.len()), (20_000, 10_000, 10_000));
//! # Ok(()) }
//! ```

mod builder;
pub mod device;
mod engine;
#[cfg(feature = "cufile")]
mod gds;
mod open_options;
#[cfg(doctest)]
mod pages;
mod runtime;
mod sink;
mod source;
mod url;

pub use builder::RuntimeBuilder;
pub use open_options::RuntimeOpenOptions;
pub use runtime::{Runtime, RuntimeStats};
pub use sink::Sink;
pub use source::Source;
pub use url::{is_remote, local_path};
pub use warpio_core::config;
pub use warpio_core::config::DeviceSpec;
pub use warpio_core::{
    AsyncDeviceRead, AsyncDeviceReadExt, AsyncDeviceWrite, AsyncDeviceWriteExt, Chunk, Chunks, Completer, Description,
    Device, DeviceBytes, DeviceBytesMut, DeviceEvent, DeviceStream, Error, ErrorKind, Failed, Fetch, Flush, Moved,
    PathKind, Ranges, Result, Scattered, Staged, StagedWriter, Transfer, TransferReport,
};
pub use warpio_local::file::LocalFile;
pub use warpio_local::machine;
pub use warpio_local::mmap::{MmapOptions, MmapSource};
pub use warpio_local::open::{OpenMode, OpenOptions};

/// The core, for whoever writes a source, an engine or a device.
pub use warpio_core as core;
/// CUDA devices and streams.
#[cfg(feature = "cuda")]
pub use warpio_cuda as cuda;
/// GPUDirect Storage.
#[cfg(feature = "cufile")]
pub use warpio_cufile as cufile;
/// Local files, and what the machine allows.
pub use warpio_local as local;
/// Remote stores.
#[cfg(feature = "remote")]
pub use warpio_remote as remote;
