use std::ffi::c_void;
use std::fmt;
use std::ptr::{NonNull, null_mut};

use warpio_core::{Device, DeviceBytes, DeviceBytesMut, DeviceId, Error, ErrorKind, Result};

use super::abi::{
    DataType, DeviceType, ManagedTensor, ManagedTensorVersioned, PackVersion, READ_ONLY, Tensor, TensorDevice,
};

/// A shared buffer as a tensor of bytes. Consumers must not write it, which only [`Exported::into_versioned`] can tell
/// them.
///
/// ```
/// use warpio_core::Device;
/// use warpio_cuda::dlpack;
///
/// let bytes = Device::host().alloc(16)?.freeze();
/// let tensor = dlpack::export(bytes)?.into_raw();
/// // What a consumer does once it no longer needs the memory:
/// unsafe { (tensor.as_ref().deleter.expect("ours has one"))(tensor.as_ptr()) };
/// # Ok::<(), warpio_core::Error>(())
/// ```
///
/// # Errors
/// [`Unsupported`](ErrorKind::Unsupported) for memory that is neither on the host nor on a CUDA device.
pub fn export(bytes: DeviceBytes) -> Result<Exported> {
    let (device, address, len) = (bytes.device().clone(), bytes.device_ptr(), bytes.len());
    Exported::new(&device, address, len, READ_ONLY, Lease::Shared(bytes))
}

/// A unique buffer as a tensor of bytes, which consumers may write.
///
/// # Errors
/// As for [`export`].
pub fn export_mut(bytes: DeviceBytesMut) -> Result<Exported> {
    let (device, address, len) = (bytes.device().clone(), bytes.device_ptr(), bytes.len());
    Exported::new(&device, address, len, 0, Lease::Unique(bytes))
}

/// A buffer on its way to a consumer. The consumer must be ordered behind the device work that fills the buffer, and
/// gives the memory back by the tensor's deleter, on any thread; the memory is then kept until the device has finished
/// all that was enqueued by that time.
pub struct Exported {
    parts: Box<Parts>,
    address: u64,
    flags: u64,
    device: TensorDevice,
}

/// What has to live as long as the tensor.
struct Parts {
    shape: [i64; 1],
    stride: [i64; 1],
    lease: Lease,
}

/// The buffer.
enum Lease {
    Shared(DeviceBytes),
    Unique(DeviceBytesMut),
}

impl Lease {
    fn device(&self) -> &Device {
        match self {
            Self::Shared(bytes) => bytes.device(),
            Self::Unique(bytes) => bytes.device(),
        }
    }
}

impl Exported {
    fn new(device: &Device, address: u64, len: usize, flags: u64, lease: Lease) -> Result<Self> {
        let device = tensor_device(device.id())?;
        let len = i64::try_from(len).map_err(|_| Error::invalid_input("the buffer is too long for a tensor"))?;
        Ok(Self { parts: Box::new(Parts { shape: [len], stride: [1], lease }), address, flags, device })
    }

    /// As `DLManagedTensor`. It must be given back by its deleter, or the buffer leaks.
    pub fn into_raw(self) -> NonNull<ManagedTensor> {
        let (dl_tensor, manager_ctx) = self.into_tensor();
        let tensor = ManagedTensor { dl_tensor, manager_ctx, deleter: Some(delete) };
        NonNull::from(Box::leak(Box::new(tensor)))
    }

    /// As `DLManagedTensorVersioned`. It must be given back by its deleter, or the buffer leaks.
    pub fn into_versioned(self) -> NonNull<ManagedTensorVersioned> {
        let flags = self.flags;
        let (dl_tensor, manager_ctx) = self.into_tensor();
        let tensor = ManagedTensorVersioned {
            version: PackVersion { major: 1, minor: 0 },
            manager_ctx,
            deleter: Some(delete_versioned),
            flags,
            dl_tensor,
        };
        NonNull::from(Box::leak(Box::new(tensor)))
    }

    fn into_tensor(self) -> (Tensor, *mut c_void) {
        let parts = Box::leak(self.parts);
        let empty = parts.shape[0] == 0;
        let tensor = Tensor {
            data: if empty { null_mut() } else { self.address as usize as *mut c_void },
            device: self.device,
            ndim: 1,
            dtype: DataType::U8,
            shape: parts.shape.as_mut_ptr(),
            strides: parts.stride.as_mut_ptr(),
            byte_offset: 0,
        };
        (tensor, (&raw mut *parts).cast())
    }
}

fn tensor_device(id: DeviceId) -> Result<TensorDevice> {
    let device_type = match id.kind {
        "host" => DeviceType::CPU,
        "cuda" => DeviceType::CUDA,
        _ => return Err(Error::unsupported(format!("DLPack has no name for memory of {id}"))),
    };
    Ok(TensorDevice { device_type, device_id: id.ordinal as i32 })
}

/// # Safety
/// `tensor` came from [`Exported::into_raw`] and is not used afterwards.
unsafe extern "C" fn delete(tensor: *mut ManagedTensor) {
    if !tensor.is_null() {
        // SAFETY: the caller's promise.
        unsafe { release(Box::from_raw(tensor).manager_ctx) }
    }
}

/// # Safety
/// `tensor` came from [`Exported::into_versioned`] and is not used afterwards.
unsafe extern "C" fn delete_versioned(tensor: *mut ManagedTensorVersioned) {
    if !tensor.is_null() {
        // SAFETY: the caller's promise.
        unsafe { release(Box::from_raw(tensor).manager_ctx) }
    }
}

/// # Safety
/// `parts` came from [`Exported::into_tensor`] and is not used afterwards.
unsafe fn release(parts: *mut c_void) {
    // SAFETY: the caller's promise.
    let lease = unsafe { Box::from_raw(parts.cast::<Parts>()) }.lease;
    let device = lease.device().clone();
    if device.is_host_visible() {
        return drop(lease);
    }
    // The consumer's last work on the memory may only just have been enqueued, on a stream that nobody named.
    match device.backend().earlier_work() {
        Ok(event) => device.backend().watch(event, Box::new(move |_| drop(lease))),
        Err(error) if error.kind() == ErrorKind::DeviceLost => drop(lease),
        Err(error) => {
            tracing::error!(%error, "memory lent by DLPack may still be in use, and is leaked");
            std::mem::forget(lease);
        }
    }
}

impl fmt::Debug for Exported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exported").field("device", &self.device).field("len", &self.parts.shape[0]).finish()
    }
}
