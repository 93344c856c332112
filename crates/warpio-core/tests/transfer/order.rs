//! Transfers in the order of a stream.

use std::sync::Arc;

use warpio_core::engine::{Lane, Starter};
use warpio_core::testing::{FakeGpu, GpuControl, HeldEngine, pattern};
use warpio_core::{Device, DeviceBytesMut, DeviceStream, ErrorKind, Moved, Transfer};

use crate::support::{block_on, held, leaks_on_purpose, poll, read, ready, small_pool};

const TASK: usize = 4096;

struct Gpu {
    device: Device,
    control: GpuControl,
    stream: DeviceStream,
    lane: Lane,
    engine: Arc<HeldEngine>,
    starter: Starter,
}

impl Gpu {
    fn new() -> Self {
        let (device, control) = FakeGpu::device(0, small_pool());
        let (engine, starter) = held(&device, TASK);
        let lane = Lane::new(&device).unwrap();
        Self { stream: device.new_stream().unwrap(), device, control, lane, engine, starter }
    }

    fn read(&self, len: usize) -> Transfer {
        self.starter.read(Arc::new(()), 0, self.device.alloc(len).unwrap())
    }

    /// Does what an engine does: stages `n` bytes of the pattern for each segment, and enqueues their copies.
    fn copy(&self, n: usize) {
        for held in self.engine.take() {
            let segment = held.into_segment();
            let (at, len) = (segment.offset() as usize, segment.len().min(n));
            let mut slot = self.device.staging().acquire_blocking(TASK).unwrap();
            slot.as_mut_slice()[..len].copy_from_slice(&pattern(at + len)[at..]);
            segment.copy_in(&self.lane, slot, len);
        }
    }

    /// Returns once everything enqueued so far has run.
    fn settle(&self) {
        let _ = self.stream.record().and_then(|event| event.synchronize());
    }
}

#[test]
fn without_a_stream_it_waits_for_the_copies() {
    let gpu = Gpu::new();
    gpu.control.hold();
    let mut transfer = gpu.read(3 * TASK);
    gpu.copy(TASK);
    assert!(poll(&mut transfer).is_pending(), "no byte has arrived");
    gpu.control.release();
    let moved = block_on(transfer).unwrap();
    assert!(block_on(moved.buffer.freeze().to_host()).unwrap() == pattern(3 * TASK));
}

#[test]
fn on_a_stream_it_resolves_before_the_copies_have_run() {
    let gpu = Gpu::new();
    gpu.control.hold();
    let mut transfer = gpu.read(3 * TASK).on_stream(&gpu.stream);
    assert!(poll(&mut transfer).is_pending(), "the copies are not even enqueued");
    gpu.copy(TASK);
    let moved = ready(transfer).unwrap();
    assert_eq!((moved.n, gpu.control.copies()), (3 * TASK, 0));
    gpu.control.release();
    assert!(block_on(moved.buffer.freeze().to_host()).unwrap() == pattern(3 * TASK));
}

#[test]
fn a_stream_named_late_counts_too() {
    let gpu = Gpu::new();
    gpu.control.hold();
    let mut transfer = gpu.read(2 * TASK);
    gpu.copy(TASK);
    assert!(poll(&mut transfer).is_pending());
    let moved = ready(transfer.on_stream(&gpu.stream)).unwrap();
    assert_eq!((moved.n, gpu.control.copies()), (2 * TASK, 0));
}

#[test]
fn a_short_read_is_known_before_the_copies_have_run() {
    let gpu = Gpu::new();
    gpu.control.hold();
    let transfer = gpu.read(2 * TASK).on_stream(&gpu.stream);
    gpu.copy(100);
    assert_eq!(ready(transfer).unwrap().n, 100, "what lies behind the gap does not count");
}

#[test]
fn a_buffer_in_stream_order_is_not_freed_under_its_copies() {
    let gpu = Gpu::new();
    gpu.control.hold();
    let transfer = gpu.read(2 * TASK).on_stream(&gpu.stream);
    gpu.copy(TASK);
    drop(ready(transfer).unwrap());
    assert_eq!(gpu.control.allocations(), 1, "freed, and the copies have not run");
    gpu.control.release();
    gpu.control.wait_freed();
}

#[test]
fn slots_are_not_lent_again_before_their_copies_have_run() {
    let gpu = Gpu::new();
    gpu.control.hold();
    let transfer = gpu.read(2 * TASK).on_stream(&gpu.stream);
    gpu.copy(TASK);
    let moved = ready(transfer).unwrap();
    let stats = gpu.device.staging().stats();
    assert_eq!(stats.allocated - stats.free, 2 * TASK);
    gpu.control.release();
    gpu.settle();
    let stats = gpu.device.staging().stats();
    assert_eq!(stats.allocated, stats.free);
    drop(moved);
}

#[test]
fn a_transfer_into_a_buffer_in_stream_order_waits_for_the_first() {
    let gpu = Gpu::new();
    gpu.control.hold();
    let transfer = gpu.read(TASK).on_stream(&gpu.stream);
    gpu.copy(TASK);
    let moved = ready(transfer).unwrap();
    let again = gpu.starter.read(Arc::new(()), 0, moved.buffer);
    assert!(gpu.engine.is_empty(), "the first copy would overwrite the second read");
    gpu.control.release();
    gpu.settle();
    assert_eq!(gpu.engine.len(), 1);
    gpu.copy(TASK);
    assert_eq!(block_on(again).unwrap().n, TASK);
}

#[test]
fn a_stream_of_another_device_is_refused() {
    let gpu = Gpu::new();
    let (other, _control) = FakeGpu::device(1, small_pool());
    let mut transfer = gpu.read(2 * TASK).on_stream(&other.new_stream().unwrap());
    assert!(poll(&mut transfer).is_pending(), "the engine has the memory");
    assert!(gpu.engine.take().into_iter().all(|held| held.segment().is_moot()));
    let failed = ready(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
    assert!(failed.error.to_string().contains("fake:1"), "{}", failed.error);
    assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(2 * TASK), "the buffer comes back");
}

#[test]
fn a_stream_of_another_device_is_refused_though_the_bytes_have_arrived() {
    let gpu = Gpu::new();
    let (other, _control) = FakeGpu::device(1, small_pool());
    let transfer = gpu.read(TASK);
    gpu.copy(TASK);
    gpu.settle();
    let failed = ready(transfer.on_stream(&other.new_stream().unwrap())).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
    assert!(failed.buffer.is_some());
}

#[test]
fn a_stream_that_is_being_captured_is_refused() {
    let gpu = Gpu::new();
    gpu.control.set_capturing(true);
    let transfer = gpu.read(TASK).on_stream(&gpu.stream);
    gpu.engine.take().into_iter().for_each(|held| held.abandon());
    let failed = ready(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
    assert!(failed.error.to_string().contains("captured"), "{}", failed.error);
    assert!(failed.buffer.is_some());
}

#[test]
fn a_segment_that_failed_is_an_error_and_not_a_success_in_order() {
    let gpu = Gpu::new();
    let mut transfer = gpu.read(2 * TASK).on_stream(&gpu.stream);
    let mut held = gpu.engine.take();
    held.pop().unwrap().fail(warpio_core::Error::new(ErrorKind::Changed));
    assert!(poll(&mut transfer).is_pending());
    drop(held);
    let failed = ready(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Changed);
    assert!(failed.buffer.is_some());
}

#[test]
fn an_error_behind_a_transfer_in_order_is_told_by_its_buffer() {
    let gpu = Gpu::new();
    gpu.control.hold();
    let transfer = gpu.read(TASK).on_stream(&gpu.stream);
    gpu.copy(TASK);
    let mut moved = ready(transfer).unwrap();
    gpu.control.break_down();
    assert_eq!(block_on(moved.buffer.ready()).unwrap_err().kind(), ErrorKind::DeviceLost);
    drop(moved);
    gpu.control.wait_freed();
}

#[test]
fn copies_that_fail_are_an_error_with_the_buffer() {
    let gpu = Gpu::new();
    gpu.control.hold();
    let transfer = gpu.read(2 * TASK);
    gpu.copy(TASK);
    gpu.control.break_down();
    let failed = block_on(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeviceLost);
    assert_eq!(failed.error.operation(), Some("read"));
    assert!(failed.buffer.is_some(), "the context is lost, so nothing writes any more");
}

#[test]
fn a_stream_that_cannot_wait_is_an_error_once_the_copies_have_ended() {
    let gpu = Gpu::new();
    gpu.control.hold();
    let transfer = gpu.read(TASK);
    gpu.copy(TASK);
    gpu.control.break_down();
    let failed = block_on(transfer.on_stream(&gpu.stream)).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeviceLost);
    assert!(failed.buffer.is_some());
}

#[test]
fn a_copy_without_an_event_keeps_its_buffer_for_ever() {
    leaks_on_purpose(|| {
        let gpu = Gpu::new();
        gpu.device.staging().warm(1);
        gpu.control.hold();
        let transfer = gpu.read(TASK).on_stream(&gpu.stream);
        gpu.control.fail_records(1);
        gpu.copy(TASK);
        let failed = ready(transfer).unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Device);
        assert!(failed.buffer.is_none(), "the copy will still write it");
        gpu.control.release();
        gpu.settle();
        assert_eq!((gpu.control.copies(), gpu.control.allocations()), (1, 1));
    });
}

#[test]
fn host_memory_takes_a_host_stream() {
    let (engine, starter) = held(&Device::host(), 10);
    let transfer = read(&starter, 20).on_stream(&Device::host().new_stream().unwrap());
    engine.take().into_iter().for_each(|held| held.fill(1));
    assert_eq!(ready(transfer).unwrap().n, 20);
}

#[test]
fn a_foreign_source_need_not_know_of_streams() {
    let gpu = Gpu::new();
    let (completer, transfer) = Transfer::<Moved<DeviceBytesMut>>::channel();
    let mut transfer = transfer.on_stream(&gpu.stream);
    assert!(poll(&mut transfer).is_pending());
    completer.complete(Ok(Moved { n: 0, buffer: gpu.device.alloc(1).unwrap() }));
    assert!(ready(transfer).is_ok());
}

#[test]
fn a_device_lost_behind_a_copy_gives_buffer_and_slot_back() {
    let gpu = Gpu::new();
    gpu.control.hold();
    let transfer = gpu.read(2 * TASK);
    let mut held = gpu.engine.take();
    let second = held.pop().unwrap().into_segment();
    let first = held.pop().unwrap().into_segment();
    let slots = [0; 2].map(|_| gpu.device.staging().acquire_blocking(TASK).unwrap());
    let [first_slot, second_slot] = slots;
    first.copy_in(&gpu.lane, first_slot, TASK);
    gpu.control.break_down();
    second.copy_in(&gpu.lane, second_slot, TASK);
    let failed = block_on(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeviceLost);
    assert!(failed.buffer.is_some(), "nothing of a lost context writes any more");
    let stats = gpu.device.staging().stats();
    assert_eq!(stats.free, stats.allocated);
}
