use std::sync::Arc;

use loom::future::block_on;
use loom::thread;

use super::{model, poll};
use crate::engine::{Lane, Segment, Starter};
use crate::plan::Split;
use crate::testing::HeldEngine;
use crate::transfer::Expire;
use crate::{
    Completer, Device, DeviceBytesMut, Error, ErrorKind, Failed, Moved, Outcome, PoolConfig, Result, Slot, Transfer,
};

/// An outcome that is counted.
struct Token(#[allow(dead_code, reason = "its count is looked at")] Arc<()>);

impl Outcome for Token {
    type Buffer = Token;

    fn into_buffer(self) -> Token {
        self
    }
}

fn channel() -> (Completer<Token>, Transfer<Token>, Arc<()>) {
    let (completer, transfer) = Transfer::channel();
    (completer, transfer, Arc::new(()))
}

#[test]
fn a_completion_wakes_the_one_who_polled() {
    model(|| {
        let (completer, transfer, token) = channel();
        let outcome = Token(token);
        let working = thread::spawn(move || completer.complete(Ok(outcome)));
        assert!(block_on(transfer).is_ok());
        working.join().unwrap();
    });
}

#[test]
fn a_completer_dropped_wakes_the_one_who_polled() {
    model(|| {
        let (completer, transfer, _) = channel();
        let working = thread::spawn(move || drop(completer));
        assert!(block_on(transfer).is_err_and(|failed| failed.error.kind() == ErrorKind::Gone));
        working.join().unwrap();
    });
}

#[test]
fn a_transfer_polled_by_one_and_awaited_by_another_wakes_the_second() {
    model(|| {
        let (completer, mut transfer, token) = channel();
        let outcome = Token(token);
        let working = thread::spawn(move || completer.complete(Ok(outcome)));
        let early = poll(&mut transfer).is_ready();
        let waiting = thread::spawn(move || early || block_on(transfer).is_ok());
        assert!(waiting.join().unwrap());
        working.join().unwrap();
    });
}

#[test]
fn an_outcome_that_nobody_wants_is_dropped_once() {
    model(|| {
        let (completer, transfer, token) = channel();
        let outcome = Token(token.clone());
        let working = thread::spawn(move || completer.complete(Ok(outcome)));
        drop(transfer);
        working.join().unwrap();
        assert_eq!(Arc::strong_count(&token), 1);
    });
}

#[test]
fn a_deadline_and_a_completion_race_to_one_result() {
    model(|| {
        let (completer, transfer, token) = channel();
        let control = completer.control().clone();
        let outcome = Token(token.clone());
        let clock = thread::spawn(move || control.expire());
        let working = thread::spawn(move || completer.complete(Ok(outcome)));
        if let Err(failed) = block_on(transfer) {
            assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded);
        }
        clock.join().unwrap();
        working.join().unwrap();
        assert_eq!(Arc::strong_count(&token), 1);
    });
}

#[test]
fn an_engine_that_lets_go_at_a_deadline_does_not_hide_it() {
    model(|| {
        let (completer, transfer, _) = channel();
        let control = completer.control().clone();
        let clock = thread::spawn(move || control.expire());
        let working = thread::spawn(move || {
            if !completer.is_cancelled() {
                return Some(completer);
            }
            completer.complete(Err(Failed { error: Error::new(ErrorKind::Cancelled), buffer: None }));
            None
        });
        assert!(block_on(transfer).is_err_and(|failed| failed.error.kind() == ErrorKind::DeadlineExceeded));
        clock.join().unwrap();
        working.join().unwrap();
    });
}

#[test]
fn the_working_side_hears_of_a_cancellation() {
    model(|| {
        let (completer, transfer, _) = channel();
        let control = completer.control().clone();
        let cancelling = thread::spawn(move || drop(transfer));
        block_on(control.unwanted(|| control.is_cancelled()));
        cancelling.join().unwrap();
    });
}

fn device() -> Device {
    Device::host_with(PoolConfig { budget: 256 << 10, slot_len: 8192, small_slot_len: 4096, slab_len: 8192 })
}

/// A read of `len` bytes in segments of `task`, on an engine that holds them back.
fn read_by<const N: usize>(task: usize, len: usize) -> (Transfer, [Segment; N]) {
    let device = device();
    let engine = Arc::new(HeldEngine::default());
    let starter = Starter::new(engine.clone(), Split::new(task).unwrap(), "held", device.clone());
    let transfer = starter.read(Arc::new(()), 0, device.alloc(len).unwrap());
    let segments: Vec<_> = engine.take().into_iter().map(|held| held.into_segment()).collect();
    (transfer, segments.try_into().unwrap_or_else(|_| panic!("{N} segments")))
}

/// A read in two segments of a byte.
fn read() -> (Device, Transfer, Segment, Segment) {
    let (transfer, [first, second]) = read_by(1, 2);
    (first.device().clone(), transfer, first, second)
}

fn done(result: Result<Moved<DeviceBytesMut>, Failed<DeviceBytesMut>>) {
    let moved = result.unwrap();
    assert_eq!((moved.n, moved.buffer.len()), (2, 2));
}

#[test]
fn segments_that_end_on_two_threads_resolve_their_transfer_once() {
    model(|| {
        let (_device, transfer, first, second) = read();
        let threads = [first, second].map(|segment| thread::spawn(move || segment.finish(Ok(1))));
        done(block_on(transfer));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_failure_beside_a_success_and_a_cancellation_gives_the_buffer_back() {
    model(|| {
        let (_device, transfer, first, second) = read();
        let failing = thread::spawn(move || first.finish(Err(Error::new(ErrorKind::Io))));
        let skipping = thread::spawn(move || if second.is_moot() { second.skip() } else { second.finish(Ok(1)) });
        transfer.cancel();
        let failed = block_on(transfer).unwrap_err();
        assert!(matches!(failed.error.kind(), ErrorKind::Io | ErrorKind::Cancelled));
        assert!(failed.buffer.is_some());
        failing.join().unwrap();
        skipping.join().unwrap();
    });
}

#[test]
fn a_segment_cut_in_two_while_another_ends_resolves_its_transfer_once() {
    model(|| {
        let (transfer, [first, mut second]) = read_by(2, 4);
        let other = thread::spawn(move || first.finish(Ok(2)));
        let rest = second.split_off(1);
        let third = thread::spawn(move || rest.finish(Ok(1)));
        second.finish(Ok(1));
        assert_eq!(block_on(transfer).unwrap().n, 4);
        other.join().unwrap();
        third.join().unwrap();
    });
}

/// What an engine does with a segment whose copy it has enqueued, and what the reactor does when that is done.
fn copy(lane: &Lane, segment: Segment, slot: Slot) {
    let event = lane.stream().record().unwrap();
    segment.queued(lane, event, 1, slot).done(Ok(()));
}

#[test]
fn a_stream_named_while_copies_are_enqueued_and_end_resolves_the_transfer_once() {
    model(|| {
        let (device, transfer, first, second) = read();
        let stream = device.new_stream().unwrap();
        let threads = [first, second].map(|segment| {
            let (lane, slot) = (Lane::new(&device).unwrap(), device.staging().acquire_blocking(1).unwrap());
            thread::spawn(move || copy(&lane, segment, slot))
        });
        done(block_on(transfer.on_stream(&stream)));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(device.staging().stats().free, device.staging().stats().allocated);
    });
}

#[test]
fn a_stream_named_early_resolves_the_transfer_with_its_last_copy() {
    model(|| {
        let (device, transfer, first, second) = read();
        let transfer = transfer.on_stream(&device.new_stream().unwrap());
        let lane = Lane::new(&device).unwrap();
        let slots = [0; 2].map(|_| device.staging().acquire_blocking(1).unwrap());
        // The reactor never calls: in stream order, enqueued is enough.
        let event = lane.stream().record().unwrap();
        let [first_slot, second_slot] = slots;
        let other = thread::spawn({
            let (lane, event) = (lane.clone(), event.clone());
            move || first.queued(&lane, event, 1, first_slot)
        });
        let completion = second.queued(&lane, event, 1, second_slot);
        done(block_on(transfer));
        completion.done(Ok(()));
        other.join().unwrap().done(Ok(()));
    });
}

#[test]
fn a_completion_lost_beside_one_that_is_done_keeps_the_buffer_back() {
    model(|| {
        let (device, transfer, first, second) = read();
        let lane = Lane::new(&device).unwrap();
        let [first_slot, second_slot] = [0; 2].map(|_| device.staging().acquire_blocking(1).unwrap());
        let losing = thread::spawn({
            let lane = lane.clone();
            move || drop(first.queued(&lane, lane.stream().record().unwrap(), 1, first_slot))
        });
        copy(&lane, second, second_slot);
        let failed = block_on(transfer).unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Gone);
        assert!(failed.buffer.is_none(), "the lost copy may still write it");
        losing.join().unwrap();
    });
}
