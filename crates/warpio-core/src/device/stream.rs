use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{DeviceEvent, DeviceId};
use crate::Result;

/// One copy of many; kernels read it as three numbers of 64 bits.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScatterRow {
    /// Where the bytes lie, as an offset from the source.
    pub from: u64,
    /// Where they go, as an offset from the destination that may wrap around: places need not belong together.
    pub to: u64,
    /// How many they are.
    pub len: u64,
}

impl ScatterRow {
    /// The address that the bytes go to.
    pub fn destination(&self, base: NonNull<u8>) -> NonNull<u8> {
        let address = base.as_ptr().wrapping_add(self.to as usize);
        NonNull::new(address).unwrap_or(base)
    }
}

/// A queue of device work that runs in order.
///
/// # Contract
/// The copies are enqueued and may run later; `record` marks the place behind everything enqueued so far. When a call
/// fails, nothing was enqueued.
///
/// # Safety
/// An event returned by `record` must not be done before the copies that were enqueued ahead of it are.
pub unsafe trait StreamBackend: Any + fmt::Debug + Send + Sync {
    /// The device whose work this queue runs.
    fn device_id(&self) -> DeviceId;

    /// Enqueues a copy of `len` bytes from host to device.
    ///
    /// # Safety
    /// `dst` is device memory and `src` host memory, both valid for `len` bytes until an event recorded after this
    /// call is done, and nothing else writes either in that time.
    unsafe fn copy_to_device(&self, dst: NonNull<u8>, src: NonNull<u8>, len: usize) -> Result<()>;

    /// Enqueues a copy of `len` bytes from device to host.
    ///
    /// # Safety
    /// As for [`copy_to_device`](Self::copy_to_device), the other way round.
    unsafe fn copy_to_host(&self, dst: NonNull<u8>, src: NonNull<u8>, len: usize) -> Result<()>;

    /// Enqueues a copy of `len` bytes within the device.
    ///
    /// # Safety
    /// As for [`copy_to_device`](Self::copy_to_device), with both sides on the device and not overlapping.
    unsafe fn copy_on_device(&self, dst: NonNull<u8>, src: NonNull<u8>, len: usize) -> Result<()>;

    /// Enqueues the copies of `rows` from `src`, in staging memory of this device, to `dst`. The default makes one copy
    /// of each; when it fails, a part of them may be enqueued.
    ///
    /// # Safety
    /// As for [`copy_to_device`](Self::copy_to_device), for every row. The rows lie in the same block of staging memory
    /// as `src`, behind all bytes that they name, and all from `src` to their end stays as it is for as long. Nothing
    /// but the rows' places is written.
    unsafe fn scatter(&self, dst: NonNull<u8>, src: NonNull<u8>, rows: &[ScatterRow]) -> Result<()> {
        rows.iter().try_for_each(|row| {
            // SAFETY: the caller vouches for both sides of each row.
            unsafe { self.copy_to_device(row.destination(dst), src.add(row.from as usize), row.len as usize) }
        })
    }

    /// An event behind everything enqueued so far.
    fn record(&self) -> Result<DeviceEvent>;

    /// Makes work enqueued from now on wait for `event`, without blocking the calling thread.
    fn wait(&self, event: &DeviceEvent) -> Result<()>;

    /// Whether the stream records a graph instead of running its work; transfers are refused on it then.
    fn is_capturing(&self) -> Result<bool>;
}

const _: Option<&dyn StreamBackend> = None;

/// A queue of device work. Cheap to clone.
#[derive(Clone, Debug)]
pub struct DeviceStream(Arc<dyn StreamBackend>);

impl DeviceStream {
    /// Wraps a backend's stream.
    pub fn new(backend: Arc<dyn StreamBackend>) -> Self {
        Self(backend)
    }

    /// The backend's stream.
    pub fn backend(&self) -> &Arc<dyn StreamBackend> {
        &self.0
    }

    /// The device whose work this queue runs.
    pub fn device_id(&self) -> DeviceId {
        self.0.device_id()
    }

    /// An event behind everything enqueued so far.
    ///
    /// # Errors
    /// What the driver reports, such as a lost context.
    pub fn record(&self) -> Result<DeviceEvent> {
        self.0.record()
    }

    /// Makes work enqueued from now on wait for `event`, without blocking.
    ///
    /// # Errors
    /// What the driver reports, such as a lost context.
    pub fn wait(&self, event: &DeviceEvent) -> Result<()> {
        self.0.wait(event)
    }
}

impl AsRef<DeviceStream> for DeviceStream {
    fn as_ref(&self) -> &DeviceStream {
        self
    }
}
