//! A transfer counts its segments down, and resolves with the last one.

use std::sync::Arc;

use warpio_core::engine::{Batch, Engine, Starter};
use warpio_core::plan::Split;
use warpio_core::testing::Held;
use warpio_core::{Device, Error, ErrorKind, Moved, Transfer};

use crate::support::{block_on, held, poll, read, ready};

/// A read in three segments of ten bytes, and the segments.
fn three() -> (Transfer, [Held; 3]) {
    let (engine, starter) = held(&Device::host(), 10);
    let transfer = read(&starter, 30);
    (transfer, engine.take().try_into().expect("three segments"))
}

#[test]
fn the_last_segment_resolves_it_whichever_that_is() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let (mut transfer, held) = three();
        let mut held = held.map(Some);
        for i in order {
            assert!(poll(&mut transfer).is_pending());
            held[i].take().unwrap().fill(i as u8);
        }
        let Moved { n, buffer } = ready(transfer).unwrap();
        assert_eq!(n, 30);
        let want: Vec<u8> = (0..30).map(|at| at / 10).collect();
        assert_eq!(buffer.as_slice(), Some(&want[..]));
    }
}

#[test]
fn segments_finish_on_any_thread() {
    let (engine, starter) = held(&Device::host(), 1);
    let transfer = read(&starter, 200);
    let threads: Vec<_> = engine.take().into_iter().map(|held| std::thread::spawn(move || held.fill(5))).collect();
    assert_eq!(block_on(transfer).unwrap().n, 200);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn only_the_bytes_before_the_first_gap_count() {
    for (counts, n) in [([10, 10, 4], 24), ([10, 3, 0], 13), ([10, 3, 10], 13), ([0, 10, 10], 0), ([9, 0, 10], 9)] {
        let (transfer, held) = three();
        for (held, n) in held.into_iter().zip(counts).rev() {
            held.finish(Ok(n));
        }
        assert_eq!(ready(transfer).unwrap().n, n, "{counts:?}");
    }
}

#[test]
fn the_first_error_wins_and_the_rest_is_moot() {
    let (mut transfer, [first, second, third]) = three();
    assert!(!first.segment().is_moot());
    second.fail(Error::new(ErrorKind::Changed));
    assert!(first.segment().is_moot() && third.segment().is_moot());
    assert!(poll(&mut transfer).is_pending(), "the others may still write");
    third.fail(Error::new(ErrorKind::Unavailable));
    first.into_segment().skip();
    let failed = ready(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Changed);
    assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(30));
}

#[test]
fn an_error_beats_bytes_that_arrived() {
    let (transfer, [first, second, third]) = three();
    first.fill(1);
    second.fail(Error::new(ErrorKind::Io));
    third.fill(1);
    assert_eq!(ready(transfer).unwrap_err().error.kind(), ErrorKind::Io);
}

#[test]
fn segments_dropped_unfinished_are_gone() {
    let (transfer, held) = three();
    drop(held);
    let failed = ready(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Gone);
    assert!(failed.buffer.is_some(), "a segment is not dropped while anything touches its memory");
}

#[test]
fn segments_dropped_after_a_cancellation_are_cancelled() {
    let (transfer, held) = three();
    transfer.cancel();
    drop(held);
    assert_eq!(ready(transfer).unwrap_err().error.kind(), ErrorKind::Cancelled);
}

#[test]
fn an_error_says_what_where_and_which_source() {
    let (engine, starter) = held(&Device::host(), 10);
    let transfer = starter.read(Arc::new(()), 70, Device::host().alloc(30).unwrap());
    for held in engine.take() {
        let error = held.segment().error(ErrorKind::Integrity).with_message("not what was promised");
        held.fail(error);
    }
    let error = Error::from(ready(transfer).unwrap_err());
    assert_eq!(error.to_string(), "read held (offset 70, 10 bytes): not what was promised");
    let (transfer, held) = three();
    held.into_iter().for_each(|held| held.fail(Error::new(ErrorKind::Io)));
    let error = Error::from(ready(transfer).unwrap_err());
    assert_eq!((error.operation(), error.source_name()), (Some("read"), Some("held")));
    assert_eq!((error.offset(), error.length()), (Some(0), Some(30)), "the whole range, where no segment is named");
}

/// An engine that gives up in the middle of a submission, as one does whose queue is full.
#[derive(Debug)]
struct HalfWay;

impl Engine for HalfWay {
    fn submit(&self, batch: Batch) {
        let (target, mut segments) = batch.into_parts();
        let rest = segments.split_off(1);
        Batch::new(target, rest).fail(&Error::new(ErrorKind::ResourceLimit));
        segments.into_iter().for_each(|segment| {
            let n = segment.len();
            segment.finish(Ok(n));
        });
    }

    fn name(&self) -> &'static str {
        "half-way"
    }
}

/// An engine that has ended.
#[derive(Debug)]
struct Ended;

impl Engine for Ended {
    fn submit(&self, batch: Batch) {
        drop(batch);
    }

    fn name(&self) -> &'static str {
        "ended"
    }
}

#[test]
fn a_submission_that_fails_half_way_fails_the_transfer_with_its_buffer() {
    let starter = Starter::new(Arc::new(HalfWay), Split::new(10).unwrap(), "held", Device::host());
    let failed = ready(read(&starter, 30)).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::ResourceLimit);
    assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(30));
    assert_eq!(ready(read(&starter, 10)).unwrap().n, 10, "one segment is submitted whole");
}

#[test]
fn an_engine_that_has_ended_is_gone() {
    let starter = Starter::new(Arc::new(Ended), Split::new(10).unwrap(), "held", Device::host());
    let failed = ready(read(&starter, 30)).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Gone);
    assert!(failed.buffer.is_some());
}

#[test]
fn a_write_gives_its_buffer_back_and_leaves_the_clones_alone() {
    let (engine, starter) = held(&Device::host(), 10);
    let data = warpio_core::DeviceBytes::from(bytes::Bytes::from_static(b"0123456789abc"));
    let transfer = starter.write(Arc::new(()), 5, data.clone());
    let mut segments = Vec::new();
    for held in engine.take() {
        let (offset, len) = (held.segment().offset(), held.segment().len());
        segments.push((offset, len));
        held.finish(Ok(len));
    }
    assert_eq!(segments, [(5, 5), (10, 8)]);
    let back = ready(transfer).unwrap();
    assert_eq!((back.device_ptr(), back.len()), (data.device_ptr(), 13));
}
