//! The memory of chunks: used again, kept, taken apart, or lost.

use std::sync::Arc;

use warpio_core::engine::Lane;
use warpio_core::testing::{FakeGpu, GpuControl, HeldEngine, MemorySource, pattern};
use warpio_core::{AsyncDeviceRead, AsyncDeviceReadExt, Device, DeviceStream, ErrorKind};

use crate::support::{HeldSource, block_on, held, leaks_on_purpose, poll, small_pool};

const LEN: usize = 4096;

struct Gpu {
    control: GpuControl,
    stream: DeviceStream,
    lane: Lane,
    engine: Arc<HeldEngine>,
}

impl Gpu {
    /// With a source whose engine holds every read back until [`copy`](Self::copy).
    fn new() -> (Self, HeldSource) {
        let (device, control) = FakeGpu::device(0, small_pool());
        device.staging().warm(1);
        let (engine, starter) = held(&device, LEN);
        let lane = Lane::new(&device).unwrap();
        (Self { control, stream: device.new_stream().unwrap(), lane, engine }, HeldSource(starter, u64::MAX))
    }

    /// Enqueues the copies of every read that was begun. How many that were.
    fn copy(&self) -> usize {
        let held = self.engine.take();
        let count = held.len();
        for held in held {
            let segment = held.into_segment();
            let slot = segment.device().staging().acquire_blocking(LEN).unwrap();
            segment.copy_in(&self.lane, slot, LEN);
        }
        count
    }

    fn settle(&self) {
        let _ = self.stream.record().and_then(|event| event.synchronize());
    }
}

#[test]
fn in_stream_order_a_chunk_is_there_before_its_copy_has_run() {
    let (gpu, source) = Gpu::new();
    let mut chunks = source.chunks(LEN).depth(2).on_stream(&gpu.stream).start();
    gpu.control.hold();
    assert_eq!(gpu.copy(), 2);
    let chunk = block_on(chunks.try_next()).unwrap().unwrap();
    assert_eq!((chunk.offset(), gpu.control.copies()), (0, 0));
    gpu.control.release();
}

#[test]
fn memory_is_read_into_again_behind_the_stream_that_uses_it() {
    let (gpu, source) = Gpu::new();
    let mut chunks = source.chunks(LEN).depth(1).on_stream(&gpu.stream).start();
    gpu.copy();
    let chunk = block_on(chunks.try_next()).unwrap().unwrap();
    gpu.settle();
    // A kernel on the chunk would now be enqueued, and still run when the chunk is dropped.
    gpu.control.hold();
    drop(chunk);
    let mut next = Box::pin(chunks.try_next());
    assert!(poll(&mut next).is_pending());
    assert_eq!(gpu.engine.len(), 0, "the kernel still reads this memory");
    gpu.control.release();
    gpu.settle();
    assert_eq!(gpu.copy(), 1);
    assert_eq!(block_on(next).unwrap().unwrap().offset(), LEN as u64);
}

#[test]
fn memory_used_on_another_stream_waits_for_that_too() {
    let (gpu, source) = Gpu::new();
    let other = source.device().new_stream().unwrap();
    let mut chunks = source.chunks(LEN).depth(1).start();
    gpu.copy();
    let mut chunk = block_on(chunks.try_next()).unwrap().unwrap();
    gpu.control.hold();
    chunk.used_on(&other).unwrap();
    drop(chunk);
    assert!(poll(&mut Box::pin(chunks.try_next())).is_pending());
    assert_eq!(gpu.engine.len(), 0, "the other stream still reads this memory");
    gpu.control.release();
    gpu.settle();
    assert_eq!(gpu.engine.len(), 1);
}

#[test]
fn memory_is_used_again_and_again() {
    let (gpu, source) = Gpu::new();
    let mut chunks = source.chunks(LEN).depth(2).start();
    let mut addresses = std::collections::HashSet::new();
    for _ in 0..20 {
        gpu.copy();
        addresses.insert(block_on(chunks.try_next()).unwrap().unwrap().device_ptr());
    }
    assert_eq!((addresses.len(), gpu.control.allocations()), (2, 2));
}

#[test]
fn chunks_that_are_kept_are_replaced() {
    let (gpu, source) = Gpu::new();
    let mut chunks = source.chunks(LEN).depth(1).start();
    let mut kept = Vec::new();
    for n in 1..=5 {
        gpu.copy();
        kept.push(block_on(chunks.try_next()).unwrap().unwrap().into_buffer());
        let _ = poll(&mut Box::pin(chunks.try_next()));
        assert_eq!(gpu.control.allocations(), n + 1);
    }
    assert!(kept.iter().all(|buffer| buffer.len() == LEN));
    drop((chunks, kept, gpu.engine.take()));
    gpu.control.wait_freed();
}

#[tokio::test]
async fn a_part_split_off_and_kept_cuts_nothing_short() {
    let source = MemorySource::new(pattern(1000));
    let mut chunks = source.chunks(100).depth(2).start();
    let (mut bytes, mut kept) = (Vec::new(), Vec::new());
    while let Some(mut chunk) = chunks.try_next().await.unwrap() {
        bytes.extend_from_slice(chunk.as_slice().unwrap());
        kept.push(chunk.split_off(60));
    }
    assert!(bytes == pattern(1000), "{} bytes arrived", bytes.len());
    assert!(kept.iter().all(|part| part.len() == 40));
}

#[tokio::test]
async fn other_memory_left_in_a_chunk_is_not_read_into() {
    let (device, _gpu) = FakeGpu::device(0, small_pool());
    let source = MemorySource::on_device(pattern(1000), device.clone());
    let mut chunks = source.chunks(100).depth(1).start();
    let mut total = 0;
    while let Some(mut chunk) = chunks.try_next().await.unwrap() {
        assert_eq!(chunk.device(), &device);
        total += chunk.len();
        // The length is right, the device is not.
        drop(std::mem::replace(&mut *chunk, Device::host().alloc(100).unwrap()));
    }
    assert_eq!(total, 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_outlive_their_iterator_and_free_memory_does_not() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let source = MemorySource::on_device(pattern(1000), device);
    let mut chunks = source.into_chunks(500).depth(3).start();
    let chunk = chunks.try_next().await.unwrap().unwrap();
    drop(chunks.try_next().await.unwrap().unwrap());
    drop(chunks);
    // Memory that nobody will read into any more is released.
    tokio::task::block_in_place(|| gpu.wait_allocations(1));
    let data = chunk.into_buffer().freeze();
    assert!(data.to_host().await.unwrap() == pattern(500));
    drop(data);
    gpu.wait_freed();
}

#[test]
fn a_chunk_whose_last_use_cannot_be_told_is_an_error_and_not_a_wait() {
    leaks_on_purpose(|| {
        let (gpu, source) = Gpu::new();
        let mut chunks = source.chunks(LEN).depth(1).on_stream(&gpu.stream).start();
        gpu.copy();
        let chunk = block_on(chunks.try_next()).unwrap().unwrap();
        gpu.control.fail_records(1);
        drop(chunk);
        assert_eq!(block_on(chunks.try_next()).unwrap_err().kind(), ErrorKind::Device);
        assert!(block_on(chunks.try_next()).unwrap().is_none());
        drop(chunks);
        gpu.settle();
        assert_eq!(gpu.control.allocations(), 1, "the stream may use the memory for ever");
    });
}
