//! Giving memory back that nobody uses.

use warpio_core::PoolConfig;

use crate::backend::device;
use crate::support::{block_on, small_pool};

const LARGE: usize = 50_000;

#[test]
fn memory_that_is_not_lent_is_given_back() {
    let (device, memory) = device(small_pool());
    let pool = device.staging();
    drop((pool.acquire_blocking(LARGE).unwrap(), pool.acquire_blocking(1).unwrap()));
    let held = memory.live();
    assert_eq!((pool.trim(), memory.live()), (held, 0));
    assert_eq!((pool.stats().allocated, pool.stats().free), (0, 0));
    assert_eq!(pool.trim(), 0);
    assert!(pool.acquire_blocking(LARGE).is_ok(), "there is room to grow again");
}

#[test]
fn a_slab_of_which_a_slot_is_lent_stays() {
    let (device, memory) = device(small_pool());
    let pool = device.staging();
    pool.warm(256 << 10);
    assert_eq!(memory.live(), 256 << 10);
    let slot = pool.acquire_blocking(LARGE).unwrap();
    assert_eq!((pool.trim(), memory.live()), (128 << 10, 128 << 10));
    assert!(pool.try_acquire(LARGE).is_some(), "the other slot of that slab is free");
    drop(slot);
    assert_eq!((pool.trim(), memory.live()), (128 << 10, 0));
}

#[test]
fn the_whole_budget_is_there_again_after_a_trim() {
    let (device, memory) = device(small_pool());
    let pool = device.staging();
    for _ in 0..3 {
        let slots: Vec<_> = (0..pool.max_slots()).map(|_| pool.acquire_blocking(LARGE).unwrap()).collect();
        drop(slots);
        pool.trim();
    }
    assert!(memory.peak() <= pool.stats().budget);
    assert_eq!(memory.live(), 0);
}

#[test]
fn nobody_waits_for_ever_for_memory_that_was_trimmed_away() {
    let (device, memory) = device(PoolConfig { budget: (64 << 10) + (8 << 10), ..small_pool() });
    let pool = device.staging();
    assert_eq!(pool.max_slots(), 1);
    std::thread::scope(|scope| {
        let acquiring = scope.spawn(|| {
            for _ in 0..3000 {
                drop(block_on(pool.acquire(LARGE)).unwrap());
            }
        });
        while !acquiring.is_finished() {
            pool.trim();
        }
    });
    assert!(memory.peak() <= pool.stats().budget);
}
