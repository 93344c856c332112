use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use cudarc::driver::CudaStream as Inner;
use cudarc::driver::sys::CUstream;
use warpio_core::{Device, DeviceStream, Result};

use crate::device::context_of;
use crate::janitor;
use crate::stream::Stream;

/// A CUDA stream for the caller's own work, and for transfers to be ordered with it. It derefs to cudarc's stream, on
/// which kernels are launched. Cheap to clone.
///
/// ```no_run
/// use warpio_cuda::{CudaOptions, CudaStream, cuda_device};
///
/// # async fn load(transfer: warpio_core::Transfer) -> Result<(), warpio_core::Error> {
/// let device = cuda_device(0, CudaOptions::default())?;
/// let stream = CudaStream::new(&device)?;
/// // Kernels launched on the stream from here on see the bytes.
/// let loaded = transfer.on_stream(&stream).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct CudaStream(Arc<Shared>);

struct Shared {
    stream: DeviceStream,
    cudarc: ManuallyDrop<Arc<Inner>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: taken once, here.
        let cudarc = unsafe { ManuallyDrop::take(&mut self.cudarc) };
        // Destroying the stream may take long, and changes what is current.
        janitor::later(move || drop(cudarc));
    }
}

impl CudaStream {
    fn wrap(stream: Stream, cudarc: Arc<Inner>) -> Self {
        Self(Arc::new(Shared { stream: stream.into_device_stream(), cudarc: ManuallyDrop::new(cudarc) }))
    }

    /// A new stream, independent of all others.
    ///
    /// # Errors
    /// [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) for a device of another kind; what the driver reports.
    pub fn new(device: &Device) -> Result<Self> {
        let context = context_of(device)?;
        // Entered, so that cudarc finds its context current and changes nothing.
        let entered = context.enter()?;
        // cudarc must make it itself: it keeps its slices apart once there is more than one stream.
        let made = context.cudarc()?.new_stream();
        drop(entered);
        let stream = made.map_err(|error| context.fail(error.0 as i32, "cuStreamCreate"))?;
        Self::from_cudarc(device, stream)
    }

    /// A stream that was made by cudarc in the context of `device`.
    ///
    /// # Errors
    /// [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) for a device of another kind or a stream of another
    /// context.
    pub fn from_cudarc(device: &Device, stream: Arc<Inner>) -> Result<Self> {
        let (context, raw) = (context_of(device)?, stream.cu_stream());
        // SAFETY: the stream lives as long as cudarc's object, which is its own owner.
        let inner = unsafe { Stream::foreign(context, raw, stream.clone())? };
        Ok(Self::wrap(inner, stream))
    }

    /// A stream that something else made: another library, another language. `owner` is dropped when nothing of
    /// warpio uses the stream any more; that may be on any thread.
    ///
    /// # Errors
    /// As for [`from_cudarc`](Self::from_cudarc).
    ///
    /// # Safety
    /// `stream` is a stream, or one of the driver's special handles for default streams. It lives until `owner` is
    /// dropped and no clone of cudarc's stream, which this derefs to, is used any more.
    pub unsafe fn from_raw(device: &Device, stream: CUstream, owner: impl Any + Send + Sync) -> Result<Self> {
        let context = context_of(device)?;
        // SAFETY: the caller's promise.
        let inner = unsafe { Stream::foreign(context, stream, owner)? };
        // SAFETY: the stream belongs to this context, as was just checked; the rest is the caller's promise.
        let cudarc = unsafe { context.cudarc()?.wrap_borrowed_stream(stream) };
        Ok(Self::wrap(inner, cudarc))
    }

    /// The stream as the core knows it.
    pub fn as_device_stream(&self) -> &DeviceStream {
        &self.0.stream
    }
}

/// The driver's handle of a stream, if it is one of CUDA, also of those that
/// [`Device::new_stream`](warpio_core::Device::new_stream) makes. It is valid as long as the stream lives.
pub fn raw_stream(stream: &impl AsRef<DeviceStream>) -> Option<CUstream> {
    Stream::of(stream.as_ref()).map(Stream::raw)
}

impl AsRef<DeviceStream> for CudaStream {
    fn as_ref(&self) -> &DeviceStream {
        &self.0.stream
    }
}

impl Deref for CudaStream {
    type Target = Arc<Inner>;

    fn deref(&self) -> &Arc<Inner> {
        &self.0.cudarc
    }
}

impl fmt::Debug for CudaStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CudaStream").field(&self.0.stream).finish()
    }
}
