//! Whole transfers on a device, from a source that only computes its bytes.

use std::sync::{Arc, Mutex};

use futures::executor::block_on;
use futures::future::join_all;
use warpio_core::engine::{Batch, Engine, Lanes, Starter, Target};
use warpio_core::plan::Split;
use warpio_core::{Device, ErrorKind, Transfer};
use warpio_cuda::CudaStream;

use crate::support::*;

/// Two workers that fill slots and copy them to the device.
#[derive(Debug)]
struct Computed {
    queue: Mutex<std::sync::mpsc::Sender<Batch>>,
}

/// The byte at an offset of the source.
fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Computed {
    fn new() -> Arc<Self> {
        let (queue, batches) = std::sync::mpsc::channel::<Batch>();
        let batches = Arc::new(Mutex::new(batches));
        for _ in 0..2 {
            let batches = batches.clone();
            std::thread::spawn(move || {
                let mut lanes = Lanes::default();
                loop {
                    let Ok(batch) = batches.lock().unwrap().recv() else { return };
                    carry_out(batch, &mut lanes);
                }
            });
        }
        Arc::new(Self { queue: Mutex::new(queue) })
    }
}

fn carry_out(batch: Batch, lanes: &mut Lanes) {
    for segment in batch.into_parts().1 {
        if segment.is_moot() {
            segment.skip();
            continue;
        }
        let device = segment.device().clone();
        let lane = match lanes.get(&device) {
            Ok(lane) => lane,
            Err(error) => {
                segment.finish(Err(error));
                continue;
            }
        };
        match device.staging().acquire_blocking(segment.len()) {
            Ok(mut slot) => {
                let (offset, n) = (segment.offset(), segment.len());
                for (at, byte) in slot.as_mut_slice()[..n].iter_mut().enumerate() {
                    *byte = byte_at(offset + at as u64);
                }
                segment.copy_in(lane, slot, n);
            }
            Err(error) => segment.finish(Err(error)),
        }
    }
}

impl Engine for Computed {
    fn submit(&self, batch: Batch) {
        self.queue.lock().unwrap().send(batch).unwrap();
    }

    fn name(&self) -> &'static str {
        "computed"
    }
}

struct Source(Starter);

impl Source {
    fn new(device: &Device) -> Self {
        Self(Starter::new(Computed::new(), Split::new(256 * KIB).unwrap(), "computed", device.clone()))
    }

    fn read(&self, offset: u64, buffer: warpio_core::DeviceBytesMut) -> Transfer {
        let target: Target = Arc::new(());
        self.0.read(target, offset, buffer)
    }
}

fn is_right(bytes: &[u8], offset: u64) -> bool {
    bytes.iter().enumerate().all(|(at, &byte)| byte == byte_at(offset + at as u64))
}

#[test]
fn transfers_bring_the_right_bytes() {
    let gpu = Gpu::new();
    if let Some(mock) = gpu.control() {
        mock.ctl("delay_us 300 seed 11");
    }
    let source = Source::new(&gpu.device);
    let reads: Vec<_> = (0..40u64)
        .map(|n| {
            let len = [1, 4096, 100_000, 256 * KIB, 700_001][n as usize % 5];
            let transfer = source.read(n * 1_000_003, gpu.device.alloc(len).unwrap());
            async move { (n, len, transfer.await.unwrap()) }
        })
        .collect();
    for (n, len, moved) in block_on(join_all(reads)) {
        assert_eq!(moved.n, len);
        assert!(is_right(&read_back(&moved.buffer.freeze()), n * 1_000_003), "read {n}");
    }
    if let Some(mock) = gpu.control() {
        assert_eq!(mock.counters().violations, 0);
    }
}

#[test]
fn transfers_cancelled_at_random_leave_nothing_behind() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let source = Source::new(&gpu.device);
    mock.ctl("delay_us 200 seed 3");
    let mut random = 12_345u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut finished = 0;
    for _ in 0..300 {
        let (len, offset) = (next(600_000) as usize + 1, next(1 << 40));
        let transfer = source.read(offset, gpu.device.alloc(len).unwrap());
        match next(3) {
            0 => drop(transfer),
            1 => {
                transfer.cancel();
                match block_on(transfer) {
                    Ok(moved) => assert!(is_right(&read_back(&moved.buffer.freeze()), offset)),
                    Err(failed) => {
                        assert_eq!(failed.error.kind(), ErrorKind::Cancelled);
                        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(len));
                    }
                }
            }
            _ => {
                finished += 1;
                let moved = block_on(transfer).unwrap();
                assert!(is_right(&read_back(&moved.buffer.freeze()), offset));
            }
        }
    }
    assert!(finished > 50);
    until(|| {
        mock.ctl("wait idle");
        let (counters, stats) = (mock.counters(), gpu.device.staging().stats());
        counters.device_allocations == 0 && stats.free == stats.allocated
    });
    assert_eq!(mock.counters().violations, 0);
}

#[test]
fn a_transfer_in_stream_order_resolves_without_the_device() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let source = Source::new(&gpu.device);
    let stream = CudaStream::new(&gpu.device).unwrap();
    let buffer = gpu.device.alloc(4096).unwrap();
    mock.ctl("hold");
    let moved = block_on(source.read(77, buffer).on_stream(&stream)).unwrap();
    let mut copied = gpu.device.alloc(4096).unwrap();
    mock.ctl("wait held 1");
    // Enqueued behind the bytes, which are not there yet.
    let bytes = moved.buffer.freeze();
    warpio_cuda::copy(&bytes, &mut copied, &stream).unwrap();
    mock.ctl("release");
    assert!(is_right(&read_back(&copied.freeze()), 77));
    assert_eq!(mock.counters().violations, 0);
}

#[test]
fn a_context_lost_in_mid_transfer_fails_it_and_no_other_device() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let other = warpio_cuda::cuda_device(1, options()).unwrap();
    let (source, fine) = (Source::new(&gpu.device), Source::new(&other));
    mock.ctl("hold");
    let doomed = source.read(0, gpu.device.alloc(2 * MIB).unwrap());
    // The workers have filled every slot, and wait for one to come back.
    let records = gpu.device.staging().max_slots() as u64;
    until(|| mock.calls("cuEventRecord") == records);
    mock.ctl("wait held 1; sticky 0 700; release");
    let failed = block_on(doomed).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeviceLost, "{}", failed.error);
    until(|| {
        let stats = gpu.device.staging().stats();
        stats.free == stats.allocated
    });
    let moved = block_on(fine.read(5, other.alloc(2 * MIB).unwrap())).unwrap();
    assert!(is_right(&read_back(&moved.buffer.freeze()), 5));
}

#[test]
fn a_buffer_of_another_device_is_refused() {
    let gpu = Gpu::new();
    let Some(_) = gpu.mock() else { return };
    let other = warpio_cuda::cuda_device(1, options()).unwrap();
    let source = Source::new(&gpu.device);
    let failed = block_on(source.read(0, other.alloc(16).unwrap())).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
    assert!(failed.error.to_string().contains("the buffer is on cuda:1"), "{}", failed.error);
    assert!(failed.buffer.is_some());
}

#[test]
fn a_transfer_waits_for_the_last_use_of_its_buffer() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let source = Source::new(&gpu.device);
    let stream = gpu.device.new_stream().unwrap();
    let mut buffer = gpu.device.alloc(4096).unwrap();
    mock.ctl("hold");
    copy_in(&gpu.device, &stream, buffer.device_ptr(), &[9; 4096]);
    buffer.after(&stream).unwrap();
    let transfer = source.read(3, buffer);
    mock.ctl("wait held 1");
    assert_eq!(mock.counters().copies_submitted, 1);
    mock.ctl("release");
    let moved = block_on(transfer).unwrap();
    assert!(is_right(&read_back(&moved.buffer.freeze()), 3));
}
