//! Slots that go back to the worker that used them, and memory that engines register.

use warpio_core::PoolConfig;

use crate::backend::{Mode, device};
use crate::support::small_pool;

const LARGE: usize = 50_000;

/// A pool with one slot a slab.
fn slab_by_slab() -> PoolConfig {
    PoolConfig { slab_len: 1, ..small_pool() }
}

#[test]
fn a_worker_gets_the_slot_back_that_it_used_before() {
    let (device, _memory) = device(slab_by_slab());
    let pool = device.staging();
    let [mine, other] = [0, 1].map(|home| pool.acquire_near(LARGE, home, 2).unwrap());
    let (mine_at, other_at) = (mine.as_ptr(), other.as_ptr());
    drop(mine);
    drop(other);
    for _ in 0..5 {
        assert_eq!(pool.acquire_near(LARGE, 0, 2).unwrap().as_ptr(), mine_at);
        assert_eq!(pool.acquire_near(LARGE, 1, 2).unwrap().as_ptr(), other_at);
    }
}

#[test]
fn a_worker_takes_anothers_slot_rather_than_wait() {
    let (device, memory) = device(slab_by_slab());
    let pool = device.staging();
    let slots: Vec<_> = (0..pool.max_slots()).map(|_| pool.acquire_near(LARGE, 0, 2).unwrap()).collect();
    let live = memory.live();
    drop(slots);
    drop(pool.acquire_near(LARGE, 1, 2).unwrap());
    assert_eq!(memory.live(), live, "the budget is used up");
}

#[test]
fn without_more_memory_a_worker_takes_what_there_is() {
    let (device, memory) = device(slab_by_slab());
    let pool = device.staging();
    drop(pool.acquire_near(LARGE, 0, 2).unwrap());
    memory.set(Mode::Fail);
    assert!(pool.acquire_near(LARGE, 1, 2).is_ok());
}

#[test]
fn workers_that_take_and_give_back_stay_within_the_budget() {
    let (device, memory) = device(small_pool());
    std::thread::scope(|scope| {
        for home in 0..8 {
            let pool = device.staging();
            scope.spawn(move || {
                for round in 0..100u8 {
                    let mut slot = pool.acquire_near(LARGE, home, 8).unwrap();
                    slot.as_mut_slice().fill(round);
                    assert!(slot.as_slice().iter().all(|&byte| byte == round), "lent to two at once");
                }
            });
        }
    });
    assert!(memory.peak() <= device.staging().stats().budget);
}

#[test]
fn memory_that_an_engine_holds_is_not_trimmed() {
    let (device, memory) = device(small_pool());
    let pool = device.staging();
    pool.warm(256 << 10);
    let mut slabs = pool.slabs();
    assert_eq!(slabs.len(), 2);
    let slot = pool.try_acquire(LARGE).unwrap();
    assert!(slabs.iter().any(|slab| (slab.as_ptr().as_ptr() as usize, slab.len()) == slot.region().slab));
    drop(slot);
    drop(slabs.pop());
    assert_eq!((pool.trim(), memory.live()), (128 << 10, 128 << 10));
    drop(slabs);
    assert_eq!((pool.trim(), memory.live()), (128 << 10, 0));
}

#[test]
fn memory_outlives_its_pool_where_an_engine_holds_it() {
    let (device, memory) = device(small_pool());
    device.staging().warm(1);
    let slabs = device.staging().slabs();
    drop(device);
    assert_eq!(memory.live(), 128 << 10);
    drop(slabs);
    assert_eq!(memory.live(), 0);
}
