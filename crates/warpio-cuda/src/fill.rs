//! Work on device memory that is not a transfer.

use warpio_core::{DeviceBytes, DeviceBytesMut, DeviceStream, Error, Result};

use crate::stream::Stream;

/// Sets every byte of `buffer` to `value`, in the order of `stream` and behind the work that the buffer carries. The
/// buffer then waits for it.
///
/// ```no_run
/// use warpio_cuda::{CudaOptions, CudaStream, cuda_device, memset};
///
/// let device = cuda_device(0, CudaOptions::default())?;
/// let stream = CudaStream::new(&device)?;
/// let mut buffer = device.alloc(1 << 20)?;
/// memset(&mut buffer, 0, &stream)?;
/// # Ok::<(), warpio_core::Error>(())
/// ```
///
/// # Errors
/// [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) if buffer and stream are not of the same CUDA device, or
/// the stream is being captured; what the driver reports.
pub fn memset(buffer: &mut DeviceBytesMut, value: u8, stream: &impl AsRef<DeviceStream>) -> Result<()> {
    let queue = queue_for(stream.as_ref(), &[buffer.device().id()])?;
    let (address, len) = (buffer.device_ptr(), buffer.len());
    if len == 0 {
        return Ok(());
    }
    buffer.wait_on(stream)?;
    let set = queue.context().driver().cuMemsetD8Async;
    // SAFETY: the buffer is valid for its length, and waits for the stream before it is freed.
    queue.enqueue("cuMemsetD8Async", |stream| unsafe { set(address, value, len, stream) })?;
    hold(buffer.after(stream), queue)
}

/// Copies `src` to the start of `dst`, in the order of `stream` and behind the work that both carry. Both then wait for
/// it.
///
/// # Errors
/// [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) if `dst` is shorter than `src`, if buffers and stream are
/// not of the same CUDA device, or the stream is being captured; what the driver reports.
pub fn copy(src: &DeviceBytes, dst: &mut DeviceBytesMut, stream: &impl AsRef<DeviceStream>) -> Result<()> {
    let queue = queue_for(stream.as_ref(), &[src.device().id(), dst.device().id()])?;
    let len = src.len();
    if dst.len() < len {
        let message = format!("{len} bytes do not fit in a buffer of {} bytes", dst.len());
        return Err(Error::invalid_input(message));
    }
    if len == 0 {
        return Ok(());
    }
    let (from, to) = (src.device_ptr(), dst.device_ptr());
    src.wait_on(stream)?;
    dst.wait_on(stream)?;
    let copy = queue.context().driver().cuMemcpyDtoDAsync_v2;
    // SAFETY: both are valid for `len` bytes, do not overlap as one is unique, and wait for the stream before they are
    // freed.
    queue.enqueue("cuMemcpyDtoDAsync", |stream| unsafe { copy(to, from, len, stream) })?;
    hold(dst.after(stream).and_then(|()| src.used_on(stream)), queue)
}

fn queue_for<'a>(stream: &'a DeviceStream, devices: &[warpio_core::DeviceId]) -> Result<&'a Stream> {
    let queue = Stream::of(stream).ok_or_else(|| Error::invalid_input("the stream is not a CUDA stream"))?;
    match devices.iter().find(|&&device| device != stream.device_id()) {
        Some(device) => Err(Error::invalid_input(format!(
            "the stream belongs to {}, but the buffer to {device}",
            stream.device_id()
        ))),
        None => Ok(queue),
    }
}

/// Where the buffers could not be made to wait for the stream, the caller waits for it.
fn hold(fenced: Result<()>, queue: &Stream) -> Result<()> {
    fenced.or_else(|error| queue.synchronize().and(Err(error)))
}
