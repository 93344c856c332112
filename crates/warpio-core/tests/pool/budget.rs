//! However many want memory, the pool never holds more than its budget.

use warpio_core::{ErrorKind, PoolConfig};

use crate::backend::device;
use crate::support::{block_on, eventually, poll, ready, small_pool};

#[test]
fn nothing_is_allocated_before_it_is_wanted() {
    let (device, memory) = device(small_pool());
    assert!(device.staging().try_acquire(1).is_none(), "trying allocates nothing");
    assert_eq!((memory.calls(), device.staging().stats().allocated), (0, 0));
}

#[test]
fn threads_and_tasks_together_stay_within_the_budget() {
    let (device, memory) = device(small_pool());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let tasks: Vec<_> = (0..16)
        .map(|i: usize| {
            let pool = device.staging().clone();
            runtime.spawn(async move {
                for round in 0..100 {
                    let slot = pool.acquire(if (i + round).is_multiple_of(3) { 100 } else { 50_000 }).await.unwrap();
                    tokio::task::yield_now().await;
                    drop(slot);
                }
            })
        })
        .collect();
    let threads: Vec<_> = (0..4)
        .map(|i: usize| {
            let pool = device.staging().clone();
            std::thread::spawn(move || {
                for round in 0..100 {
                    drop(pool.acquire_blocking(if (i + round).is_multiple_of(3) { 100 } else { 50_000 }).unwrap());
                    if round % 25 == 0 {
                        pool.trim();
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    // The thread that allocates may be adding slots that nobody waits for any more.
    eventually(|| {
        let stats = device.staging().stats();
        (stats.allocated, stats.free) == (memory.live(), memory.live())
    });
    let budget = device.staging().stats().budget;
    assert!(memory.peak() <= budget, "{} bytes were allocated of {budget}", memory.peak());
}

#[test]
fn all_slots_together_fill_the_budget_and_the_next_one_waits() {
    let (device, memory) = device(small_pool());
    let pool = device.staging();
    let large: Vec<_> = (0..pool.max_slots()).map(|_| pool.acquire_blocking(50_000).unwrap()).collect();
    let small: Vec<_> = (0..8).map(|_| pool.acquire_blocking(1).unwrap()).collect();
    let mut next = [Box::pin(pool.acquire(50_000)), Box::pin(pool.acquire(1))];
    assert!(next.iter_mut().all(|next| poll(next).is_pending()));
    let stats = pool.stats();
    assert!(stats.allocated <= stats.budget && stats.free == 0);
    assert_eq!(memory.live(), stats.allocated);
    drop((large, small));
    assert!(next.into_iter().all(|next| ready(next).is_ok()));
}

#[test]
fn a_slot_is_as_large_as_its_kind() {
    let (device, _memory) = device(small_pool());
    let pool = device.staging();
    let (small, large) = (pool.small_slot_len(), pool.slot_len());
    for (len, want) in [(0, small), (1, small), (small, small), (small + 1, large), (large, large)] {
        assert_eq!(pool.acquire_blocking(len).unwrap().len(), want, "{len} bytes");
        assert_eq!(block_on(pool.acquire(len)).unwrap().len(), want, "{len} bytes");
    }
    for error in [pool.acquire_blocking(large + 1).unwrap_err(), block_on(pool.acquire(large + 1)).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    assert!(pool.try_acquire(large + 1).is_none());
}

#[test]
fn a_budget_without_room_for_a_slot_is_an_error_and_not_a_wait() {
    for (pool, len) in [
        (PoolConfig { budget: 32 << 10, ..small_pool() }, 50_000),
        (PoolConfig { budget: 0, ..small_pool() }, 1),
        (PoolConfig { budget: 2 << 10, ..small_pool() }, 1),
        (PoolConfig { slot_len: 0, small_slot_len: 0, ..small_pool() }, 0),
    ] {
        let (device, memory) = device(pool.clone());
        for error in [
            device.staging().acquire_blocking(len).expect_err("no room"),
            block_on(device.staging().acquire(len)).expect_err("no room"),
        ] {
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{pool:?}");
        }
        device.staging().warm(usize::MAX);
        assert!(memory.peak() <= pool.budget);
    }
}
