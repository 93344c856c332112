//! Transfers that are cancelled, dropped or leaked while an engine still writes their memory.

use std::sync::Arc;

use warpio_core::{Device, ErrorKind};

use crate::support::{Drops, Wakes, block_on, held, leaks_on_purpose, poll, read, ready};

#[test]
fn a_cancelled_transfer_gives_its_buffer_back_once_the_engine_lets_go() {
    let (engine, starter) = held(&Device::host(), 10);
    let mut transfer = read(&starter, 30);
    transfer.cancel();
    assert!(poll(&mut transfer).is_pending(), "the memory may still be written");
    let segments = engine.take();
    assert!(segments.iter().all(|held| held.segment().is_moot()), "there is nothing left to begin");
    for held in segments {
        assert!(poll(&mut transfer).is_pending(), "the memory may still be written");
        held.abandon();
    }
    let failed = ready(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Cancelled);
    assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(30));
}

#[test]
fn a_result_that_came_first_beats_a_cancellation() {
    let (engine, starter) = held(&Device::host(), 10);
    let transfer = read(&starter, 30);
    engine.take().into_iter().for_each(|held| held.fill(7));
    transfer.cancel();
    let moved = ready(transfer).unwrap();
    assert_eq!(moved.buffer.as_slice(), Some(&[7; 30][..]));
}

#[test]
fn segments_that_ran_out_after_a_cancellation_are_a_success() {
    let (engine, starter) = held(&Device::host(), 10);
    let transfer = read(&starter, 30);
    transfer.cancel();
    engine.take().into_iter().for_each(|held| held.fill(7));
    assert_eq!(ready(transfer).unwrap().n, 30);
}

#[test]
fn memory_lives_on_when_the_transfer_is_dropped() {
    let (engine, starter) = held(&Device::host(), 10);
    let drops = Drops::default();
    drop(starter.read(Arc::new(()), 0, drops.buffer(&Device::host(), 30)));
    let mut segments = engine.take();
    assert!(segments.iter().all(|held| held.segment().is_moot()));
    let last = segments.pop().unwrap();
    segments.into_iter().for_each(|held| held.fill(1));
    assert_eq!(drops.count(), 0, "the last segment may still write the memory");
    last.fill(1);
    assert_eq!(drops.count(), 1);
}

#[test]
fn memory_lives_on_when_source_and_transfer_are_dropped() {
    let (engine, starter) = held(&Device::host(), 10);
    let drops = Drops::default();
    let transfer = starter.read(Arc::new(()), 0, drops.buffer(&Device::host(), 30));
    drop(starter);
    drop(transfer);
    engine.take().into_iter().for_each(|held| held.fill(1));
    assert_eq!(drops.count(), 1);
}

#[test]
fn a_transfer_dropped_after_its_end_releases_its_buffer() {
    let (engine, starter) = held(&Device::host(), 10);
    let drops = Drops::default();
    let transfer = starter.read(Arc::new(()), 0, drops.buffer(&Device::host(), 30));
    engine.take().into_iter().for_each(|held| held.fill(1));
    assert_eq!(drops.count(), 0, "the result holds the buffer");
    drop(transfer);
    assert_eq!(drops.count(), 1);
}

#[test]
fn a_leaked_transfer_leaks_its_buffer_and_nothing_else() {
    leaks_on_purpose(|| {
        let (engine, starter) = held(&Device::host(), 10);
        let drops = Drops::default();
        std::mem::forget(starter.read(Arc::new(()), 0, drops.buffer(&Device::host(), 30)));
        let transfer = read(&starter, 10);
        engine.take().into_iter().for_each(|held| held.fill(1));
        assert_eq!(ready(transfer).unwrap().n, 10, "others go on");
        assert_eq!(drops.count(), 0, "the memory is never given to anybody else");
        drop(starter);
        assert_eq!(Arc::strong_count(&engine), 1, "nothing holds the engine");
    });
}

#[test]
fn a_cancelled_transfer_wakes_its_task_at_its_end() {
    let (engine, starter) = held(&Device::host(), 10);
    let mut transfer = read(&starter, 10);
    let wakes = Wakes::new();
    let waker = wakes.waker();
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(Future::poll(std::pin::Pin::new(&mut transfer), &mut cx).is_pending());
    transfer.cancel();
    engine.take().into_iter().for_each(|held| held.abandon());
    wakes.wait_for(1);
    assert_eq!(block_on(transfer).unwrap_err().error.kind(), ErrorKind::Cancelled);
}

#[test]
fn transfers_cancelled_from_many_threads_release_everything() {
    let (engine, starter) = held(&Device::host(), 10);
    let drops = Drops::default();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let transfer = starter.read(Arc::new(()), 0, drops.buffer(&Device::host(), 100));
            std::thread::spawn(move || drop(transfer))
        })
        .collect();
    let writers: Vec<_> = engine.take().into_iter().map(|held| std::thread::spawn(move || held.fill(3))).collect();
    threads.into_iter().chain(writers).for_each(|thread| thread.join().unwrap());
    assert_eq!(drops.count(), 8);
}
