//! What a runtime counts, and how it waits for its transfers.

use std::sync::Arc;

use warpio_core::engine::{Starter, Stats};
use warpio_core::testing::HeldEngine;
use warpio_core::{Device, Error, ErrorKind, PathKind};

use crate::support::{block_on, held, poll, read, ready};

fn counted() -> (Arc<HeldEngine>, Starter, Stats) {
    let (engine, starter) = held(&Device::host(), 10);
    let stats = Stats::default();
    (engine, starter.with_stats(&stats), stats)
}

#[test]
fn transfers_are_counted_by_outcome_and_bytes_by_path() {
    let (engine, starter, stats) = counted();
    let good = read(&starter, 20);
    let bad = read(&starter, 10);
    let write = starter.write(Arc::new(()), 0, Device::host().alloc(5).unwrap().freeze());
    assert_eq!(stats.in_flight(), 3);
    let mut held = engine.take().into_iter();
    held.next().unwrap().fill(1);
    held.next().unwrap().finish(Ok(3));
    held.next().unwrap().fail(Error::new(ErrorKind::Io));
    held.next().unwrap().finish(Ok(5));
    assert!(ready(good).is_ok() && ready(bad).is_err() && ready(write).is_ok());
    let snapshot = stats.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.finished, snapshot.failed), (0, 2, 1));
    assert_eq!(snapshot.read, [(PathKind::PageCache, 13)]);
    assert_eq!(snapshot.written, [(PathKind::PageCache, 5)]);
}

#[test]
fn it_is_idle_when_nothing_can_touch_memory_any_more() {
    let (engine, starter, stats) = counted();
    block_on(stats.idle());
    let transfers = [read(&starter, 20), read(&starter, 10)];
    let mut idle = Box::pin(stats.idle());
    assert!(poll(&mut idle).is_pending());
    drop(transfers);
    assert!(poll(&mut idle).is_pending(), "dropped, but the engine still has the memory");
    let waiting = std::thread::spawn({
        let stats = stats.clone();
        move || block_on(stats.idle())
    });
    engine.take().into_iter().for_each(|held| held.fill(1));
    waiting.join().unwrap();
    assert!(poll(&mut idle).is_ready());
}

#[test]
fn once_closed_nothing_begins() {
    let (engine, starter, stats) = counted();
    let before = read(&starter, 10);
    stats.close();
    assert!(stats.is_closed());
    let failed = ready(read(&starter, 10)).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Gone);
    assert!(failed.buffer.is_some());
    assert_eq!(engine.len(), 1);
    engine.take().into_iter().for_each(|held| held.fill(1));
    assert!(ready(before).is_ok(), "what had begun goes on");
}

#[test]
fn a_transfer_knows_whether_it_is_alone() {
    let (engine, starter, _stats) = counted();
    let _first = read(&starter, 10);
    let first = engine.take().pop().unwrap();
    assert!(first.segment().is_alone());
    let second = read(&starter, 10);
    assert!(!first.segment().is_alone());
    engine.take().into_iter().for_each(|held| held.fill(1));
    assert!(ready(second).is_ok());
    assert!(first.segment().is_alone());
}
