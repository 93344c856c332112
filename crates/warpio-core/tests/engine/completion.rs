//! Copies that were enqueued: seen to end, failed, or lost sight of.

use std::sync::Arc;

use warpio_core::engine::{Completion, Lane, Lanes, Segment};
use warpio_core::testing::FakeGpu;
use warpio_core::{Device, Error, ErrorKind};

use crate::support::{held, leaks_on_purpose, one_segment, poll, ready, small_pool};

const LEN: usize = 4096;

/// Enqueues nothing, and says that it enqueued a copy.
fn queued(device: &Device, segment: Segment) -> Completion {
    let lane = Lane::new(device).unwrap();
    let slot = device.staging().acquire_blocking(LEN).unwrap();
    segment.queued(&lane, lane.stream().record().unwrap(), LEN, slot)
}

#[test]
fn a_completion_resolves_the_transfer_and_frees_its_slot() {
    let (device, _gpu, mut transfer, segment) = one_segment(LEN);
    let completion = queued(&device, segment);
    assert!(poll(&mut transfer).is_pending());
    let before = device.staging().stats().free;
    completion.done(Ok(()));
    assert_eq!(ready(transfer).unwrap().n, LEN);
    assert_eq!(device.staging().stats().free, before + LEN);
}

#[test]
fn a_completion_that_failed_gives_buffer_and_slot_back() {
    let (device, _gpu, transfer, segment) = one_segment(LEN);
    let completion = queued(&device, segment);
    completion.done(Err(Error::new(ErrorKind::DeviceLost)));
    let failed = ready(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeviceLost);
    assert!(failed.buffer.is_some());
    assert_eq!(device.staging().stats().free, device.staging().stats().allocated);
}

#[test]
fn a_completion_dropped_leaks_slot_and_buffer() {
    leaks_on_purpose(|| {
        let (device, gpu, transfer, segment) = one_segment(LEN);
        let completion = queued(&device, segment);
        let before = device.staging().stats();
        drop(completion);
        let failed = ready(transfer).unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Gone);
        assert!(failed.buffer.is_none(), "the copy may still write it");
        assert_eq!(gpu.allocations(), 1);
        assert_eq!(device.staging().stats(), before, "the slot is not lent again");
    });
}

#[test]
fn a_completion_outlives_the_transfer_and_the_pool() {
    let (device, gpu, transfer, segment) = one_segment(LEN);
    let completion = queued(&device, segment);
    drop(transfer);
    drop(device);
    assert_eq!(gpu.allocations(), 1);
    completion.done(Ok(()));
    gpu.wait_freed();
}

#[test]
fn an_empty_copy_needs_no_device() {
    let (device, gpu, transfer, segment) = one_segment(LEN);
    gpu.hold();
    let slot = device.staging().acquire_blocking(LEN).unwrap();
    segment.copy_in(&Lane::new(&device).unwrap(), slot, 0);
    assert_eq!(ready(transfer).unwrap().n, 0);
}

#[test]
fn a_copy_longer_than_its_slot_is_refused() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let (engine, starter) = held(&device, 2 * LEN);
    let transfer = starter.read(Arc::new(()), 0, device.alloc(2 * LEN).unwrap());
    let segment = engine.take().pop().unwrap().into_segment();
    let slot = device.staging().acquire_blocking(1).unwrap();
    assert_eq!(slot.len(), LEN);
    segment.copy_in(&Lane::new(&device).unwrap(), slot, 2 * LEN);
    let failed = ready(transfer).unwrap_err();
    assert_eq!((failed.error.kind(), gpu.copies()), (ErrorKind::InvalidInput, 0));
    assert!(failed.buffer.is_some());
}

#[test]
fn a_copy_stream_of_another_device_is_refused() {
    let (device, gpu, transfer, segment) = one_segment(LEN);
    let (other, _other) = FakeGpu::device(1, small_pool());
    let slot = device.staging().acquire_blocking(LEN).unwrap();
    segment.copy_in(&Lane::new(&other).unwrap(), slot, LEN);
    let failed = ready(transfer).unwrap_err();
    assert_eq!((failed.error.kind(), gpu.copies()), (ErrorKind::InvalidInput, 0));
    let text = failed.error.to_string();
    assert!(text.contains("fake:1") && text.contains("fake:0"), "{text}");
}

#[test]
fn a_copy_that_cannot_be_enqueued_gives_everything_back() {
    let (device, gpu, transfer, segment) = one_segment(LEN);
    let (lane, slot) = (Lane::new(&device).unwrap(), device.staging().acquire_blocking(LEN).unwrap());
    gpu.break_down();
    segment.copy_in(&lane, slot, LEN);
    let failed = ready(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeviceLost);
    assert!(failed.buffer.is_some());
    assert_eq!(device.staging().stats().free, device.staging().stats().allocated);
}

#[test]
fn a_worker_has_one_copy_stream_for_each_device() {
    let (first, _first) = FakeGpu::device(0, small_pool());
    let (second, _second) = FakeGpu::device(1, small_pool());
    let mut lanes = Lanes::default();
    let streams: Vec<_> =
        [&first, &second, &first].map(|device| lanes.get(device).unwrap().stream().clone()).into_iter().collect();
    assert!(Arc::ptr_eq(streams[0].backend(), streams[2].backend()));
    assert_eq!((streams[0].device_id(), streams[1].device_id()), (first.id(), second.id()));
}
