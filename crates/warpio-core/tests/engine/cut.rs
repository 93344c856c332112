//! Segments that an engine cuts in two, or copies from the middle of a slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use warpio_core::engine::Lane;
use warpio_core::testing::pattern;
use warpio_core::{Device, ErrorKind};

use crate::support::{block_on, held, one_segment, poll, read, ready};

const LEN: usize = 4096;

#[test]
fn both_halves_have_to_end() {
    let (engine, starter) = held(&Device::host(), 10);
    let mut transfer = starter.read(Arc::new(()), 100, Device::host().alloc(10).unwrap());
    let mut head = engine.take().pop().unwrap().into_segment();
    let mut tail = head.split_off(4);
    let last = tail.split_off(5);
    let parts = [&head, &tail, &last].map(|part| (part.offset(), part.len()));
    assert_eq!(parts, [(100, 4), (104, 5), (109, 1)]);
    let start = head.device_memory().as_ptr();
    assert_eq!(tail.device_memory().as_ptr(), start.wrapping_add(4));
    tail.finish(Ok(5));
    head.finish(Ok(4));
    assert!(poll(&mut transfer).is_pending());
    last.finish(Ok(1));
    assert_eq!(ready(transfer).unwrap().n, 10);
}

#[test]
fn a_half_that_is_short_or_fails_counts_as_every_other_segment() {
    let cut = || {
        let (engine, starter) = held(&Device::host(), 10);
        let transfer = read(&starter, 10);
        let mut head = engine.take().pop().unwrap().into_segment();
        let tail = head.split_off(4);
        (transfer, head, tail)
    };
    let (transfer, head, tail) = cut();
    head.finish(Ok(3));
    tail.finish(Ok(6));
    assert_eq!(ready(transfer).unwrap().n, 3);
    let (transfer, head, tail) = cut();
    head.finish(Ok(4));
    drop(tail);
    assert_eq!(ready(transfer).unwrap_err().error.kind(), ErrorKind::Gone);
}

#[test]
fn a_segment_is_not_cut_into_nothing() {
    for at in [0, 10, 11] {
        let (engine, starter) = held(&Device::host(), 10);
        let transfer = read(&starter, 10);
        let mut segment = engine.take().pop().unwrap().into_segment();
        let cut = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| segment.split_off(at)));
        assert!(cut.is_err(), "cut at {at}");
        segment.finish(Ok(10));
        assert_eq!(ready(transfer).unwrap().n, 10, "it is as it was");
    }
}

#[test]
fn bytes_from_the_middle_of_a_slot_arrive() {
    let (device, _gpu, transfer, segment) = one_segment(LEN);
    let mut slot = device.staging().acquire_blocking(2 * LEN).unwrap();
    slot.as_mut_slice()[100..100 + LEN].copy_from_slice(&pattern(LEN));
    segment.copy_in_from(&Lane::new(&device).unwrap(), slot, 100, LEN);
    let moved = block_on(transfer).unwrap();
    assert!(block_on(moved.buffer.freeze().to_host()).unwrap() == pattern(LEN));
}

#[test]
fn bytes_behind_the_end_of_a_slot_are_refused() {
    for start in [1, LEN, LEN + 1, usize::MAX] {
        let (device, gpu, transfer, segment) = one_segment(LEN);
        let slot = device.staging().acquire_blocking(LEN).unwrap();
        segment.copy_in_from(&Lane::new(&device).unwrap(), slot, start, LEN);
        assert_eq!(ready(transfer).unwrap_err().error.kind(), ErrorKind::InvalidInput, "at {start}");
        assert_eq!(gpu.copies(), 0);
    }
}

/// Tells that it was dropped.
struct Told(Arc<AtomicBool>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn what_a_copy_holds_is_dropped_behind_it() {
    let (device, gpu, transfer, segment) = one_segment(LEN);
    let (lane, slot) = (Lane::new(&device).unwrap(), device.staging().acquire_blocking(LEN).unwrap());
    let dropped = Arc::new(AtomicBool::new(false));
    gpu.hold();
    let sent = segment.copy_in_followed(&lane, slot, LEN, Told(dropped.clone())).unwrap();
    drop(sent);
    assert!(!dropped.load(Ordering::SeqCst));
    gpu.release();
    block_on(transfer).unwrap();
    assert!(dropped.load(Ordering::SeqCst));
}

#[test]
fn a_copy_that_was_waited_for_has_ended() {
    for _ in 0..100 {
        let (device, _gpu, transfer, segment) = one_segment(LEN);
        let lane = Lane::new(&device).unwrap();
        let mut slot = device.staging().acquire_blocking(LEN).unwrap();
        slot.as_mut_slice().copy_from_slice(&pattern(LEN));
        let sent = segment.copy_in_followed(&lane, slot, LEN, ()).unwrap();
        sent.wait(Duration::from_secs(60));
        // The device's thread may be the first, and give the slot back a moment later.
        let moved = block_on(transfer).unwrap();
        assert_eq!(device.staging().stats().free, device.staging().stats().allocated);
        assert!(block_on(moved.buffer.freeze().to_host()).unwrap() == pattern(LEN));
    }
}

#[test]
fn a_copy_that_waits_for_the_device_is_not_waited_for_in_vain() {
    let (device, gpu, mut transfer, segment) = one_segment(LEN);
    let (lane, slot) = (Lane::new(&device).unwrap(), device.staging().acquire_blocking(LEN).unwrap());
    gpu.hold();
    let sent = segment.copy_in_followed(&lane, slot, LEN, ()).unwrap();
    sent.wait(Duration::from_millis(1));
    assert!(poll(&mut transfer).is_pending());
    gpu.release();
    assert_eq!(block_on(transfer).unwrap().n, LEN);
}

#[test]
fn nothing_is_to_be_followed_where_nothing_was_sent() {
    let (device, gpu, transfer, segment) = one_segment(LEN);
    let (lane, slot) = (Lane::new(&device).unwrap(), device.staging().acquire_blocking(LEN).unwrap());
    gpu.break_down();
    assert!(segment.copy_in_followed(&lane, slot, LEN, ()).is_none());
    assert_eq!(ready(transfer).unwrap_err().error.kind(), ErrorKind::DeviceLost);
}

#[test]
fn patience_with_a_copy_ends() {
    let (device, gpu, mut transfer, segment) = one_segment(LEN);
    let (lane, slot) = (Lane::new(&device).unwrap(), device.staging().acquire_blocking(LEN).unwrap());
    gpu.hold();
    segment.copy_in_now(&lane, slot, LEN, Duration::from_millis(1));
    assert!(poll(&mut transfer).is_pending());
    gpu.release();
    assert_eq!(block_on(transfer).unwrap().n, LEN);
}
