//! Copies from a device on their way to a sink.

use std::sync::{Arc, mpsc};

use warpio_core::engine::{Lane, Segment};
use warpio_core::testing::{FakeGpu, GpuControl, HeldEngine, pattern};
use warpio_core::{Device, DeviceBytes, ErrorKind, Slot, Transfer};

use crate::support::{LONG, block_on, held, leaks_on_purpose, poll, ready, small_pool};

const LEN: usize = 4096;

struct Write {
    device: Device,
    gpu: GpuControl,
    lane: Lane,
    transfer: Transfer<DeviceBytes>,
    segment: Segment,
    slot: Slot,
    _engine: Arc<HeldEngine>,
}

/// A write of one segment of the pattern, which its engine has just taken.
fn write() -> Write {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let data = block_on(device.upload(&pattern(LEN))).unwrap().freeze();
    let (engine, starter) = held(&device, LEN);
    let transfer = starter.write(Arc::new(()), 0, data);
    // The transfer waits for all earlier work; so does this.
    device.new_stream().unwrap().record().unwrap().synchronize().unwrap();
    let segment = engine.take().pop().unwrap().into_segment();
    let slot = device.staging().acquire_blocking(LEN).unwrap();
    Write { lane: Lane::new(&device).unwrap(), device, gpu, transfer, segment, slot, _engine: engine }
}

#[test]
fn the_bytes_lie_in_the_slot_after_the_wait() {
    let w = write();
    let outgoing = w.segment.copy_out(&w.lane, w.slot).expect("enqueued");
    let (segment, slot) = outgoing.wait().expect("copied");
    assert!(slot.as_slice()[..LEN] == pattern(LEN));
    drop(slot);
    segment.finish(Ok(LEN));
    assert_eq!(ready(w.transfer).unwrap().len(), LEN);
}

#[test]
fn the_reactor_calls_when_the_bytes_lie_in_the_slot() {
    let mut w = write();
    w.gpu.hold();
    let (tx, rx) = mpsc::channel();
    w.segment.copy_out(&w.lane, w.slot).expect("enqueued").then(move |segment, slot| {
        tx.send(slot.as_slice()[..LEN].to_vec()).unwrap();
        drop(slot);
        segment.finish(Ok(LEN));
    });
    assert!(poll(&mut w.transfer).is_pending() && rx.try_recv().is_err());
    w.gpu.release();
    assert!(rx.recv_timeout(LONG).unwrap() == pattern(LEN));
    assert!(block_on(w.transfer).is_ok());
}

#[test]
fn dropped_early_it_keeps_memory_and_slot_until_the_copy_has_run() {
    let mut w = write();
    w.gpu.hold();
    let stats = w.device.staging().stats();
    drop(w.segment.copy_out(&w.lane, w.slot).expect("enqueued"));
    assert!(poll(&mut w.transfer).is_pending(), "the copy still reads the memory");
    assert_eq!(w.device.staging().stats(), stats, "and still writes the slot");
    w.gpu.release();
    let failed = block_on(w.transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Gone);
    assert!(failed.buffer.is_some());
}

#[test]
fn a_lost_device_ends_the_segment() {
    for wait in [true, false] {
        let w = write();
        w.gpu.hold();
        let outgoing = w.segment.copy_out(&w.lane, w.slot).expect("enqueued");
        w.gpu.break_down();
        if wait {
            assert!(outgoing.wait().is_none());
        } else {
            outgoing.then(|_, _| panic!("nothing was copied"));
        }
        let failed = block_on(w.transfer).unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::DeviceLost);
        assert!(failed.buffer.is_some());
    }
}

#[test]
fn a_copy_out_that_cannot_be_enqueued_ends_the_segment() {
    let w = write();
    w.gpu.break_down();
    assert!(w.segment.copy_out(&w.lane, w.slot).is_none());
    assert_eq!(ready(w.transfer).unwrap_err().error.kind(), ErrorKind::DeviceLost);
    assert_eq!(w.device.staging().stats().free, w.device.staging().stats().allocated);
}

#[test]
fn a_copy_out_into_a_slot_that_is_too_short_is_refused() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let (engine, starter) = held(&device, 2 * LEN);
    let transfer = starter.write(Arc::new(()), 0, device.alloc(2 * LEN).unwrap().freeze());
    device.new_stream().unwrap().record().unwrap().synchronize().unwrap();
    let segment = engine.take().pop().unwrap().into_segment();
    let slot = device.staging().acquire_blocking(1).unwrap();
    assert!(segment.copy_out(&Lane::new(&device).unwrap(), slot).is_none());
    assert_eq!((ready(transfer).unwrap_err().error.kind(), gpu.copies()), (ErrorKind::InvalidInput, 0));
}

#[test]
fn a_copy_out_without_an_event_keeps_slot_and_memory_for_ever() {
    leaks_on_purpose(|| {
        let w = write();
        w.gpu.hold();
        w.gpu.fail_records(1);
        let stats = w.device.staging().stats();
        assert!(w.segment.copy_out(&w.lane, w.slot).is_none());
        let failed = ready(w.transfer).unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Device);
        assert!(failed.buffer.is_none(), "the copy still reads it");
        assert_eq!(w.device.staging().stats(), stats, "and still writes the slot");
        w.gpu.release();
        w.device.new_stream().unwrap().record().unwrap().synchronize().unwrap();
        assert_eq!((w.gpu.copies(), w.gpu.allocations()), (2, 1));
    });
}
