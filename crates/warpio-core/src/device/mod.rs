//! Memory that transfers go to and come from, and the work queues that copy it.

mod backend;
mod event;
mod host;
mod stream;
mod upload;

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

pub use backend::{DeviceBackend, DeviceId, WatchDone};
pub use event::{DeviceEvent, EventBackend};
pub use stream::{DeviceStream, ScatterRow, StreamBackend};

use crate::buffer::DeviceBytesMut;
use crate::pool::{PoolConfig, StagingPool};
use crate::{Error, ErrorKind, Result};
use host::HostDevice;

/// A place where bytes can live: host memory, or the memory of one GPU. Cheap to clone.
///
/// ```
/// use warpio_core::Device;
///
/// let device = Device::host();
/// let buffer = device.alloc(4096)?;
/// assert_eq!((buffer.len(), device.to_string().as_str()), (4096, "host"));
/// # Ok::<(), warpio_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    backend: Arc<dyn DeviceBackend>,
    staging: StagingPool,
}

impl Device {
    /// Host memory, which needs no GPU and is the default where there is none.
    pub fn host() -> Self {
        let new = || Self::host_with(PoolConfig::default());
        // A model starts from nothing, so under loom nothing outlives it.
        #[cfg(feature = "loom")]
        return new();
        #[cfg(not(feature = "loom"))]
        {
            static HOST: std::sync::OnceLock<Device> = std::sync::OnceLock::new();
            HOST.get_or_init(new).clone()
        }
    }

    /// Host memory with a staging pool of its own.
    pub fn host_with(pool: PoolConfig) -> Self {
        Self::new(Arc::new(HostDevice), pool)
    }

    /// A device made by `backend`, with a staging pool of its own.
    pub fn new(backend: Arc<dyn DeviceBackend>, pool: PoolConfig) -> Self {
        let staging = StagingPool::new(backend.clone(), pool);
        Self { backend, staging }
    }

    /// The backend, for engines and for what only one kind of device can do.
    pub fn backend(&self) -> &Arc<dyn DeviceBackend> {
        &self.backend
    }

    /// The bounded pool of staging memory that every transfer to and from this device shares.
    pub fn staging(&self) -> &StagingPool {
        &self.staging
    }

    /// Which device this is.
    pub fn id(&self) -> DeviceId {
        self.backend.id()
    }

    /// Whether the processor can read and write the device's memory directly.
    pub fn is_host_visible(&self) -> bool {
        self.backend.host_visible()
    }

    /// Allocates `len` bytes. Host memory is zeroed; the contents of GPU memory are undefined.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] when the device has not that much left.
    pub fn alloc(&self, len: usize) -> Result<DeviceBytesMut> {
        DeviceBytesMut::alloc(self, len)
    }

    /// A new work queue of this device.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceLost`] and whatever the driver reports.
    pub fn new_stream(&self) -> Result<DeviceStream> {
        self.backend.new_stream()
    }

    /// Waits, without blocking a thread, until `event` has happened.
    ///
    /// # Errors
    /// What the device reports for the work that the event follows.
    pub async fn wait(&self, event: &DeviceEvent) -> Result<()> {
        if event.is_done()? {
            return Ok(());
        }
        let (tx, rx) = tokio::sync::oneshot::channel();
        self.backend.watch(event.clone(), Box::new(move |result| drop(tx.send(result))));
        rx.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Gone)))
    }

    pub(crate) fn alloc_raw(&self, len: usize) -> Result<NonNull<u8>> {
        self.backend.alloc(len)
    }
}

impl PartialEq for Device {
    /// The same memory, whichever handle leads to it.
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}
impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.id()).finish()
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id().fmt(f)
    }
}
