use std::ptr::NonNull;

use bytes::{Bytes, BytesMut};

use super::{DeviceBytes, DeviceBytesMut};
use crate::device::Device;
use crate::{Error, Result};

impl From<BytesMut> for DeviceBytesMut {
    /// The same memory as a buffer of [`Device::host`], without a copy.
    fn from(mut bytes: BytesMut) -> Self {
        let (ptr, len) = (NonNull::from(&mut bytes[..]).cast(), bytes.len());
        // SAFETY: the initialised bytes of a `BytesMut` live on the heap and belong to it alone until it is dropped.
        unsafe { Self::from_raw_parts(&Device::host(), ptr, len, bytes) }
    }
}

impl From<Vec<u8>> for DeviceBytesMut {
    /// The same memory as a buffer of [`Device::host`], without a copy.
    fn from(bytes: Vec<u8>) -> Self {
        let mut bytes = std::mem::ManuallyDrop::new(bytes);
        let (len, capacity) = (bytes.len(), bytes.capacity());
        // SAFETY: a vector's pointer is never null.
        let ptr = unsafe { NonNull::new_unchecked(bytes.as_mut_ptr()) };
        // SAFETY: the vector's parts belong to `RawVec` alone from here on, which gives them back on drop.
        unsafe { Self::from_raw_parts(&Device::host(), ptr, len, RawVec { ptr, len, capacity }) }
    }
}

/// A vector taken apart, so that no unique reference to its memory exists while transfers write it.
struct RawVec {
    ptr: NonNull<u8>,
    len: usize,
    capacity: usize,
}

// SAFETY: bytes of the heap, owned.
unsafe impl Send for RawVec {}
// SAFETY: nothing is accessible through a shared reference.
unsafe impl Sync for RawVec {}

impl Drop for RawVec {
    fn drop(&mut self) {
        // SAFETY: the parts of the vector that was taken apart.
        drop(unsafe { Vec::from_raw_parts(self.ptr.as_ptr(), self.len, self.capacity) });
    }
}

impl From<Bytes> for DeviceBytes {
    /// The same memory as a buffer of [`Device::host`], without a copy.
    fn from(bytes: Bytes) -> Self {
        let (ptr, len) = (NonNull::from(&bytes[..]).cast(), bytes.len());
        // SAFETY: the memory of a `Bytes` is immutable and lives until it is dropped.
        unsafe { Self::from_raw_parts(&Device::host(), ptr, len, bytes) }
    }
}

impl From<DeviceBytesMut> for DeviceBytes {
    fn from(bytes: DeviceBytesMut) -> Self {
        bytes.freeze()
    }
}

impl TryFrom<DeviceBytes> for Bytes {
    type Error = Error;

    /// The same memory as `Bytes`, without a copy.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) where the device is not host-visible: use
    /// [`DeviceBytes::to_host`].
    fn try_from(bytes: DeviceBytes) -> Result<Self> {
        if bytes.device().is_host_visible() {
            Ok(Bytes::from_owner(super::shared::HostView(bytes)))
        } else {
            Err(Error::invalid_input(format!(
                "memory of {} is not host memory; copy it with to_host()",
                bytes.device()
            )))
        }
    }
}
