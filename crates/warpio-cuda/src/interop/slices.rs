//! cudarc's slices: in, as buffers, and out, as views.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaView, CudaViewMut, DevicePtrMut};
use warpio_core::{Device, DeviceBytes, DeviceBytesMut, Error, ErrorKind, Result};

use crate::context::Context;
use crate::cuda_stream::CudaStream;
use crate::device::context_of;
use crate::janitor;
use crate::stream::Stream;

/// Buffers from cudarc's memory.
pub trait FromCudarc: Sized {
    /// The bytes of `slice`, without a copy. They are freed as cudarc frees them, when the last piece of the buffer is
    /// gone and everything that used it has finished. What cudarc has enqueued on the slice comes first: the buffer
    /// waits for it.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) if the slice is not in the context of `device`; what the driver
    /// reports.
    fn from_cudarc<T: 'static>(device: &Device, slice: CudaSlice<T>) -> Result<Self>;
}

impl FromCudarc for DeviceBytesMut {
    fn from_cudarc<T: 'static>(device: &Device, mut slice: CudaSlice<T>) -> Result<Self> {
        let context = context_of(device)?;
        if slice.context().cu_ctx() != context.raw() {
            return Err(Error::invalid_input(format!("the slice does not belong to the context of {device}")));
        }
        let entered = context.enter()?;
        let (len, stream) = (slice.num_bytes(), slice.stream().clone());
        // Has the slice's stream wait for what other streams do with the slice, as far as cudarc knows.
        let (address, uses) = slice.device_ptr_mut(&stream);
        drop(uses);
        drop(entered);
        let Some(ptr) = NonNull::new(address as usize as *mut u8).filter(|_| len > 0) else {
            return device.alloc(0);
        };
        let stream = CudaStream::from_cudarc(device, stream)?;
        // SAFETY: the slice owns this memory until it is dropped, and nobody else has a handle to it.
        let mut buffer = unsafe { Self::from_raw_parts(device, ptr, len, Owner(Some(slice))) };
        buffer.after(&stream)?;
        Ok(buffer)
    }
}

/// A slice that is dropped on another thread: cudarc may wait for the stream, and changes what is current.
struct Owner<T: 'static>(Option<CudaSlice<T>>);

impl<T: 'static> Drop for Owner<T> {
    fn drop(&mut self) {
        if let Some(slice) = self.0.take() {
            janitor::later(move || drop(slice));
        }
    }
}

/// Shared buffers as cudarc sees memory, to pass them to kernels.
pub trait AsCuda {
    /// The bytes, for work on `stream` that reads them. When the guard is dropped, the buffer is made to wait for all
    /// that `stream` holds by then: enqueue first, drop then.
    ///
    /// Work of other streams that writes the bytes must have finished, or be waited for by `stream`.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) if buffer and stream are not of the same CUDA device.
    fn as_cuda<'a>(&'a self, stream: &'a CudaStream) -> Result<CudaSliceView<'a>>;
}

/// Unique buffers as cudarc sees memory, to pass them to kernels.
pub trait AsCudaMut {
    /// The bytes, for work on `stream` that writes them; otherwise as [`AsCuda::as_cuda`].
    ///
    /// # Errors
    /// As for [`AsCuda::as_cuda`].
    fn as_cuda_mut<'a>(&'a mut self, stream: &'a CudaStream) -> Result<CudaSliceViewMut<'a>>;
}

impl AsCuda for DeviceBytes {
    fn as_cuda<'a>(&'a self, stream: &'a CudaStream) -> Result<CudaSliceView<'a>> {
        let lent = Lent::new(self.device(), self.device_ptr(), self.len(), stream)?;
        Ok(CudaSliceView { lent, usage: Reading { bytes: self, stream } })
    }
}

impl AsCudaMut for DeviceBytesMut {
    fn as_cuda_mut<'a>(&'a mut self, stream: &'a CudaStream) -> Result<CudaSliceViewMut<'a>> {
        let lent = Lent::new(self.device(), self.device_ptr(), self.len(), stream)?;
        Ok(CudaSliceViewMut { lent, usage: Writing { bytes: self, stream } })
    }
}

/// A slice that does not own its memory.
struct Lent {
    context: Arc<Context>,
    slice: ManuallyDrop<CudaSlice<u8>>,
}

impl Lent {
    fn new(device: &Device, address: u64, len: usize, stream: &CudaStream) -> Result<Self> {
        let context = context_of(device)?;
        if stream.as_device_stream().device_id() != device.id() {
            let other = stream.as_device_stream().device_id();
            return Err(Error::invalid_input(format!("the stream belongs to {other}, but the buffer to {device}")));
        }
        let _entered = context.enter()?;
        // cudarc panics below on an error that it kept from an earlier drop.
        let kept = context.cudarc()?.check_err();
        kept.map_err(|error| context.fail(error.0 as i32, "an earlier call by cudarc"))?;
        // SAFETY: the memory is valid as long as the borrow of the buffer. The slice is never dropped, only taken
        // apart, and nobody gets hold of it but as a view.
        let slice = unsafe { stream.upgrade_device_ptr(address, len) };
        Ok(Self { context: context.clone(), slice: ManuallyDrop::new(slice) })
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: taken once, here.
        let slice = unsafe { ManuallyDrop::take(&mut self.slice) };
        // Entered, so that cudarc changes nothing. Where that fails, it fails for cudarc too.
        let _entered = self.context.enter();
        // Has the stream wait for what cudarc knows of other streams, and frees all but the memory.
        slice.leak();
    }
}

/// A buffer lent to cudarc for reading; see [`AsCuda`].
pub struct CudaSliceView<'a> {
    // Dropped first: it may have the stream wait for others, which the buffer then waits for too.
    lent: Lent,
    usage: Reading<'a>,
}

struct Reading<'a> {
    bytes: &'a DeviceBytes,
    stream: &'a CudaStream,
}

impl CudaSliceView<'_> {
    /// The bytes.
    pub fn view(&self) -> CudaView<'_, u8> {
        self.lent.slice.as_view()
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        hold(self.bytes.used_on(self.stream), self.stream);
    }
}

/// A buffer lent to cudarc for writing; see [`AsCudaMut`].
pub struct CudaSliceViewMut<'a> {
    // Dropped first, as above.
    lent: Lent,
    usage: Writing<'a>,
}

struct Writing<'a> {
    bytes: &'a mut DeviceBytesMut,
    stream: &'a CudaStream,
}

impl CudaSliceViewMut<'_> {
    /// The bytes.
    pub fn view(&self) -> CudaView<'_, u8> {
        self.lent.slice.as_view()
    }

    /// The bytes, to write.
    pub fn view_mut(&mut self) -> CudaViewMut<'_, u8> {
        self.lent.slice.as_view_mut()
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        hold(self.bytes.after(self.stream), self.stream);
    }
}

/// Where the buffer could not be made to wait for the stream, the dropping thread waits.
fn hold(fenced: Result<()>, stream: &CudaStream) {
    let Err(error) = fenced else { return };
    if error.kind() != ErrorKind::DeviceLost {
        tracing::warn!(%error, "a buffer cannot wait for its stream; waiting here");
        if let Some(Err(error)) = Stream::of(stream.as_device_stream()).map(Stream::synchronize) {
            tracing::error!(%error, "a buffer may be used while it is free");
        }
    }
}

impl fmt::Debug for CudaSliceView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaSliceView").field("bytes", self.usage.bytes).finish_non_exhaustive()
    }
}

impl fmt::Debug for CudaSliceViewMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaSliceViewMut").field("bytes", &*self.usage.bytes).finish_non_exhaustive()
    }
}
