use std::ptr::NonNull;

use warpio_core::{Device, DeviceBytesMut, Error, Result};

use super::abi::{DeviceType, ManagedTensor, ManagedTensorVersioned, READ_ONLY, Tensor};

/// The bytes of a tensor, without a copy. `device` is the CUDA device that it may lie on; a tensor in host memory
/// becomes a buffer of [`Device::host`]. The tensor is given back when the last piece of the buffer is gone and
/// everything that used it has finished, on any thread.
///
/// The producer's work on the tensor must have finished, or be made part of the buffer's fence by
/// [`after`](DeviceBytesMut::after).
///
/// # Errors
/// [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) for a tensor of another device or one that is not
/// contiguous. The tensor is then still the caller's.
///
/// # Safety
/// `tensor` is a valid `DLManagedTensor` that belongs to the caller, whose deleter may run on any thread. Nothing else
/// uses its memory until it is given back.
pub unsafe fn import(device: &Device, tensor: NonNull<ManagedTensor>) -> Result<DeviceBytesMut> {
    // SAFETY: valid, by the caller's promise.
    let place = unsafe { locate(device, &tensor.as_ref().dl_tensor)? };
    // SAFETY: the caller's promise, as long as the owner lives.
    unsafe { place.into_buffer(Owner(tensor)) }
}

/// The same for a tensor as of DLPack 1.0.
///
/// # Errors
/// As for [`import`], and [`Unsupported`](warpio_core::ErrorKind::Unsupported) for a later major version;
/// [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) for a tensor that must not be written.
///
/// # Safety
/// As for [`import`].
pub unsafe fn import_versioned(device: &Device, tensor: NonNull<ManagedTensorVersioned>) -> Result<DeviceBytesMut> {
    // SAFETY: the version is where it is in every version.
    let version = unsafe { (&raw const (*tensor.as_ptr()).version).read() };
    if version.major != 1 {
        return Err(Error::unsupported(format!(
            "a tensor of DLPack {}.{} cannot be read",
            version.major, version.minor
        )));
    }
    // SAFETY: valid, by the caller's promise.
    let header = unsafe { tensor.as_ref() };
    if header.flags & READ_ONLY != 0 {
        return Err(Error::invalid_input("the tensor is read-only"));
    }
    // SAFETY: as above.
    let place = unsafe { locate(device, &header.dl_tensor)? };
    // SAFETY: the caller's promise, as long as the owner lives.
    unsafe { place.into_buffer(Owner(tensor)) }
}

/// Where a tensor's bytes are.
struct Place {
    device: Device,
    address: usize,
    len: usize,
}

impl Place {
    /// # Safety
    /// The memory is valid and used by nothing else until `owner` is dropped.
    unsafe fn into_buffer<T: Managed>(self, owner: Owner<T>) -> Result<DeviceBytesMut> {
        match NonNull::new(self.address as *mut u8).filter(|_| self.len > 0) {
            // SAFETY: the caller's promise.
            Some(ptr) => Ok(unsafe { DeviceBytesMut::from_raw_parts(&self.device, ptr, self.len, owner) }),
            None => self.device.alloc(0),
        }
    }
}

/// # Safety
/// Shape and strides have `ndim` elements, where they are not null.
unsafe fn locate(device: &Device, tensor: &Tensor) -> Result<Place> {
    let id = device.id();
    let (kind, number) = (tensor.device.device_type, tensor.device.device_id);
    let device = match kind {
        DeviceType::CPU | DeviceType::CUDA_HOST => Device::host(),
        DeviceType::CUDA if id.kind == "cuda" && i64::from(id.ordinal) == i64::from(number) => device.clone(),
        DeviceType(kind) => {
            return Err(Error::invalid_input(format!("the tensor is on device {number} of kind {kind}, not on {id}")));
        }
    };
    let dimensions = usize::try_from(tensor.ndim).map_err(|_| Error::invalid_input("the tensor has no dimensions"))?;
    // SAFETY: the caller's promise.
    let shape = unsafe { numbers(tensor.shape, dimensions) };
    // SAFETY: as above.
    let strides = unsafe { numbers(tensor.strides, dimensions) };
    let shape = match shape {
        Some(shape) => shape,
        None if dimensions == 0 => &[],
        None => return Err(Error::invalid_input("the tensor has no shape")),
    };
    let bits = u64::from(tensor.dtype.bits) * u64::from(tensor.dtype.lanes);
    if bits % 8 != 0 {
        return Err(Error::invalid_input(format!("elements of {bits} bits are not whole bytes")));
    }
    let elements = contiguous(shape, strides)?;
    let len = elements.checked_mul(bits / 8).and_then(|len| usize::try_from(len).ok());
    let len = len.ok_or_else(|| Error::invalid_input("the tensor's size overflows"))?;
    let address = (tensor.data as usize).wrapping_add(tensor.byte_offset as usize);
    Ok(Place { device, address, len })
}

/// # Safety
/// `numbers` is null, or points to `len` numbers that live as long as they are used.
unsafe fn numbers<'a>(numbers: *const i64, len: usize) -> Option<&'a [i64]> {
    // SAFETY: the caller's promise.
    (!numbers.is_null()).then(|| unsafe { std::slice::from_raw_parts(numbers, len) })
}

/// The number of elements of a tensor that leaves no gaps.
fn contiguous(shape: &[i64], strides: Option<&[i64]>) -> Result<u64> {
    let mut elements = 1u64;
    let mut compact = true;
    for (dimension, &length) in shape.iter().enumerate().rev() {
        let length = u64::try_from(length).map_err(|_| Error::invalid_input("the tensor has a negative length"))?;
        let stride = strides.map(|strides| strides[dimension]);
        // The stride of a dimension with one element means nothing.
        compact &= length <= 1 || stride.is_none_or(|stride| u64::try_from(stride) == Ok(elements));
        elements = elements.checked_mul(length).ok_or_else(|| Error::invalid_input("the tensor's size overflows"))?;
    }
    // Nor does any in a tensor without elements.
    if compact || elements == 0 {
        Ok(elements)
    } else {
        Err(Error::invalid_input("the tensor is not contiguous: copy it first"))
    }
}

trait Managed: 'static {
    /// # Safety
    /// `tensor` is valid, and not used afterwards.
    unsafe fn delete(tensor: NonNull<Self>);
}

impl Managed for ManagedTensor {
    unsafe fn delete(tensor: NonNull<Self>) {
        // SAFETY: the caller's promise. A tensor without a deleter belongs to nobody.
        unsafe {
            if let Some(delete) = tensor.as_ref().deleter {
                delete(tensor.as_ptr());
            }
        }
    }
}

impl Managed for ManagedTensorVersioned {
    unsafe fn delete(tensor: NonNull<Self>) {
        // SAFETY: as above.
        unsafe {
            if let Some(delete) = tensor.as_ref().deleter {
                delete(tensor.as_ptr());
            }
        }
    }
}

/// Gives a tensor back when it is dropped.
struct Owner<T: Managed>(NonNull<T>);

// SAFETY: the deleter may run on any thread, by the importer's promise; nothing else is done with the tensor.
unsafe impl<T: Managed> Send for Owner<T> {}
// SAFETY: as above.
unsafe impl<T: Managed> Sync for Owner<T> {}

impl<T: Managed> Drop for Owner<T> {
    fn drop(&mut self) {
        // SAFETY: valid, and used by nobody any more.
        unsafe { T::delete(self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::contiguous;

    #[test]
    fn gaps_are_noticed() {
        for (shape, strides, elements) in [
            (&[4][..], None, Some(4)),
            (&[2, 3, 4], None, Some(24)),
            (&[2, 3, 4], Some(&[12, 4, 1][..]), Some(24)),
            (&[2, 1, 4], Some(&[4, 99, 1]), Some(8)),
            (&[], None, Some(1)),
            (&[0, 7], Some(&[5, 5]), Some(0)),
            (&[2, 3], Some(&[1, 2]), None),
            (&[4], Some(&[2]), None),
            (&[4], Some(&[0]), None),
            (&[4], Some(&[-1]), None),
            (&[-4], None, None),
            (&[i64::MAX, i64::MAX], None, None),
        ] {
            assert_eq!(contiguous(shape, strides).ok(), elements, "{shape:?} {strides:?}");
        }
    }
}
