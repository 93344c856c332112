use std::ptr::NonNull;

use warpio::cuda::{CudaStream, memset};
use warpio::{AsyncDeviceRead, AsyncDeviceReadExt, DeviceBytesMut, ErrorKind};

use crate::support::{MIB, Place, host, runtime, shutdown};

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_in_stream_order_does_not_wait_for_the_gpu() {
    let place = Place::new();
    let (path, want) = place.file("data.bin", MIB);
    let rt = runtime();
    let source = rt.open(&path).await.unwrap();
    let stream = CudaStream::new(rt.device()).unwrap();
    // The copies cannot run, and yet the transfer resolves.
    let held = place.gpu.control().inspect(|control| control.ctl("hold"));
    let buffer = source.read_exact_at(0, rt.device().alloc(MIB).unwrap()).on_stream(&stream).await.unwrap();
    if let Some(control) = held {
        assert!(control.counters().copies_in_flight > 0);
        control.ctl("release");
    }
    assert!(host(&buffer.freeze()).await == want, "wrong bytes");
    shutdown(rt).await;
}

/// Device work on a chunk, as a kernel of the user's would be.
fn enqueue_copy(src: &DeviceBytesMut, dst: &mut DeviceBytesMut, stream: &CudaStream) {
    let (from, to) = (NonNull::new(src.device_ptr() as *mut u8).unwrap(), NonNull::new(dst.as_mut_ptr()).unwrap());
    let backend = stream.as_device_stream().backend();
    // SAFETY: the lengths are equal, the chunk is recycled behind the stream's work, and the copy carries a fence.
    unsafe { backend.copy_on_device(to, from, src.len()) }.unwrap();
    dst.after(stream).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_nobody_named_is_waited_for_all_the_same() {
    let place = Place::new();
    let (path, _) = place.file("data.bin", MIB);
    let rt = runtime();
    let source = rt.open(&path).await.unwrap();
    let stream = CudaStream::new(rt.device()).unwrap();
    let other = rt.device().upload(&vec![0x77; MIB]).await.unwrap();
    let held = place.gpu.control().inspect(|control| control.ctl("hold"));
    let mut buffer = source.read_exact_at(0, rt.device().alloc(MIB).unwrap()).on_stream(&stream).await.unwrap();
    // The buffer carries the copies of the read, but knows nothing of this.
    let (from, to) = (NonNull::new(other.device_ptr() as *mut u8).unwrap(), NonNull::new(buffer.as_mut_ptr()).unwrap());
    // SAFETY: the lengths are equal, and both buffers live until the work has been waited for below.
    unsafe { stream.as_device_stream().backend().copy_on_device(to, from, MIB) }.unwrap();
    let reader = tokio::spawn(async move { host(&buffer.freeze()).await });
    if let Some(control) = held {
        control.ctl("release");
    }
    assert!(reader.await.unwrap() == vec![0x77; MIB], "the bytes were read before the work on them");
    drop(other);
    shutdown(rt).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_is_read_into_again_behind_the_work_of_its_stream() {
    let place = Place::new();
    let (path, want) = place.file("data.bin", 6 * MIB);
    let rt = runtime();
    let source = rt.open(&path).await.unwrap();
    let stream = CudaStream::new(rt.device()).unwrap();
    let mut total = 0;
    let mut copies = Vec::new();
    let mut chunks = source.chunks(MIB).depth(2).on_stream(&stream).start();
    while let Some(chunk) = chunks.try_next().await.unwrap() {
        let mut copy = rt.device().alloc(chunk.len()).unwrap();
        enqueue_copy(&chunk, &mut copy, &stream);
        total += chunk.len();
        copies.push(copy.freeze());
    }
    assert_eq!(total, want.len());
    for (i, copy) in copies.iter().enumerate() {
        assert!(host(copy).await == want[i * MIB..(i + 1) * MIB], "chunk {i} was overwritten too early");
    }
    shutdown(rt).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_waits_for_what_its_buffer_was_used_by() {
    let place = Place::new();
    let (path, want) = place.file("data.bin", MIB);
    let rt = runtime();
    let source = rt.open(&path).await.unwrap();
    let stream = CudaStream::new(rt.device()).unwrap();
    let mut buffer = rt.device().alloc(MIB).unwrap();
    memset(&mut buffer, 0xee, &stream).unwrap();
    buffer.after(&stream).unwrap();
    let buffer = source.read_exact_at(0, buffer).await.unwrap();
    assert!(host(&buffer.freeze()).await == want, "the memset came after the read");
    shutdown(rt).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_another_device_is_refused() {
    let place = Place::new();
    let Some(_mock) = place.gpu.control() else { return eprintln!("skipped: one device on the real machine") };
    let (path, _) = place.file("data.bin", 4096);
    let rt = runtime();
    let other = warpio::device::open(warpio::DeviceSpec::Cuda(1), warpio::core::PoolConfig::default()).unwrap();
    let stream = CudaStream::new(&other).unwrap();
    let source = rt.open(&path).await.unwrap();
    let failed = source.read_at(0, rt.device().alloc(4096).unwrap()).on_stream(&stream).await.unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
    assert!(failed.error.to_string().contains("cuda:1"), "{}", failed.error);
    assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(4096));
    // And so is a buffer of another device.
    let failed = source.read_at(0, other.alloc(4096).unwrap()).await.unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
    shutdown(rt).await;
}
