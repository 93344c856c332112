//! Transfers made of transfers.

use std::sync::Arc;

use warpio_core::testing::HeldEngine;
use warpio_core::{AsyncDeviceRead, AsyncDeviceReadExt, Device, DeviceBytesMut, Error, ErrorKind, PathKind};

use crate::support::{HeldSource, Wakes, held, poll, ready};

fn source() -> (Arc<HeldEngine>, HeldSource) {
    let (engine, starter) = held(&Device::host(), 100);
    (engine, HeldSource(starter, 1000))
}

fn buffer(len: usize) -> DeviceBytesMut {
    Device::host().alloc(len).unwrap()
}

#[test]
fn ranges_lie_in_the_buffer_one_after_another() {
    let (engine, source) = source();
    let transfer = source.read_ranges(&[10..13, 500..502], buffer(6));
    let mut held = engine.take();
    assert_eq!(held.iter().map(|held| held.segment().offset()).collect::<Vec<_>>(), [10, 500]);
    held.pop().unwrap().fill(2);
    held.pop().unwrap().fill(1);
    let ranges = ready(transfer).unwrap();
    assert_eq!(ranges.results.into_iter().map(|n| n.unwrap()).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(ranges.buffer.as_slice(), Some(&[1, 1, 1, 2, 2, 0][..]));
}

#[test]
fn a_range_that_fails_leaves_the_others() {
    let (engine, source) = source();
    let transfer = source.read_ranges(&[0..3, 5..8, 9..12], buffer(9));
    let mut held = engine.take().into_iter();
    held.next().unwrap().fill(1);
    held.next().unwrap().fail(Error::new(ErrorKind::Changed));
    held.next().unwrap().finish(Ok(2));
    let ranges = ready(transfer).unwrap();
    assert_eq!(ranges.buffer.len(), 9);
    let results: Vec<_> = ranges.results.into_iter().map(|n| n.map_err(|error| error.kind())).collect();
    assert_eq!(results, [Ok(3), Err(ErrorKind::Changed), Ok(2)]);
}

#[test]
fn exact_ranges_fail_with_the_first_error() {
    let (engine, source) = source();
    let transfer = source.read_ranges_exact(&[0..3, 5..8, 9..12], buffer(9));
    let mut held = engine.take().into_iter();
    held.next().unwrap().fill(1);
    held.next().unwrap().finish(Ok(2));
    held.next().unwrap().fail(Error::new(ErrorKind::Changed));
    let failed = ready(transfer).unwrap_err();
    assert_eq!((failed.error.kind(), failed.error.offset()), (ErrorKind::UnexpectedEof, Some(5)));
    assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(9));
}

#[test]
fn a_part_whose_memory_may_still_be_written_keeps_the_whole_back() {
    let (engine, source) = source();
    let transfer = source.read_ranges(&[0..3, 5..8], buffer(6)).deadline(std::time::Instant::now());
    let failed = ready(transfer).unwrap_err();
    assert!(failed.buffer.is_none());
    engine.take().into_iter().for_each(|held| held.fill(1));
}

#[test]
fn a_cancellation_reaches_every_part() {
    let (engine, source) = source();
    let transfer = source.read_ranges(&[0..3, 5..8], buffer(6));
    transfer.cancel();
    let held = engine.take();
    assert!(held.iter().all(|held| held.segment().is_moot()));
    held.into_iter().for_each(|held| held.abandon());
    let ranges = ready(transfer).unwrap();
    assert!(ranges.results.iter().all(|n| n.as_ref().is_err_and(|error| error.kind() == ErrorKind::Cancelled)));
    assert_eq!(ranges.buffer.len(), 6);
}

#[test]
fn parts_that_end_in_any_order_wake_the_task() {
    let (engine, source) = source();
    let mut transfer = source.read_ranges(&[0..3, 5..8, 9..12], buffer(9));
    let wakes = Wakes::new();
    let waker = wakes.waker();
    let mut cx = std::task::Context::from_waker(&waker);
    for held in engine.take().into_iter().rev() {
        assert!(Future::poll(std::pin::Pin::new(&mut transfer), &mut cx).is_pending());
        held.fill(1);
    }
    wakes.wait_for(1);
    assert!(ready(transfer).is_ok());
}

#[test]
fn a_report_counts_the_parts_that_have_ended() {
    let (engine, source) = source();
    let mut transfer = source.read_ranges(&[0..3, 5..8], buffer(6));
    let mut held = engine.take().into_iter();
    held.next().unwrap().fill(1);
    assert!(poll(&mut transfer).is_pending(), "the first part has been seen to end");
    let report = transfer.report();
    held.next().unwrap().fill(1);
    assert!(ready(transfer).is_ok());
    assert_eq!(report.bytes(PathKind::PageCache), 6);
}

#[test]
fn thousands_of_ranges_are_one_transfer() {
    let (engine, source) = source();
    let ranges: Vec<_> = (0..5000).map(|i| i..i + 1).collect();
    let transfer = source.read_ranges_exact(&ranges, buffer(5000));
    engine.take().into_iter().for_each(|held| held.fill(9));
    assert!(ready(transfer).unwrap().as_slice().unwrap().iter().all(|&byte| byte == 9));
}
