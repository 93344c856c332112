//! Memory is allocated on demand, by one at a time, and may not be there.

use warpio_core::{ErrorKind, PoolConfig};

use crate::backend::{Mode, device};
use crate::support::{block_on, poll, ready, small_pool};

const LARGE: usize = 50_000;

/// A pool with one slot a slab.
fn slab_by_slab() -> PoolConfig {
    PoolConfig { slab_len: 1, ..small_pool() }
}

#[test]
fn an_async_caller_does_not_allocate_itself() {
    let (device, memory) = device(small_pool());
    memory.set(Mode::Wait);
    let mut acquire = Box::pin(device.staging().acquire(LARGE));
    assert!(poll(&mut acquire).is_pending(), "the allocation hangs, the caller does not");
    memory.wait_for_calls(1);
    memory.set(Mode::Succeed);
    assert_eq!(block_on(acquire).unwrap().len(), 64 << 10);
}

#[test]
fn those_who_come_while_memory_is_allocated_share_it() {
    let (device, memory) = device(small_pool());
    memory.set(Mode::Wait);
    let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(device.staging().acquire(LARGE))).collect();
    assert!(waiting.iter_mut().all(|acquire| poll(acquire).is_pending()));
    memory.set(Mode::Succeed);
    let slots: Vec<_> = waiting.into_iter().map(|acquire| block_on(acquire).unwrap()).collect();
    assert_eq!((slots.len(), memory.calls()), (2, 1), "one slab holds two slots");
}

#[test]
fn growth_goes_on_while_anybody_waits() {
    let (device, memory) = device(slab_by_slab());
    memory.set(Mode::Wait);
    let mut waiting: Vec<_> = (0..5).map(|_| Box::pin(device.staging().acquire(LARGE))).collect();
    assert!(waiting.iter_mut().all(|acquire| poll(acquire).is_pending()));
    memory.set(Mode::Succeed);
    let slots: Vec<_> = waiting.into_iter().map(|acquire| block_on(acquire).unwrap()).collect();
    assert_eq!((slots.len(), memory.calls()), (5, 5));
}

#[test]
fn no_memory_at_all_is_an_error_for_everybody() {
    let (device, memory) = device(small_pool());
    memory.set(Mode::Wait);
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(device.staging().acquire(LARGE))).collect();
    assert!(waiting.iter_mut().all(|acquire| poll(acquire).is_pending()));
    memory.set(Mode::Fail);
    for acquire in waiting {
        assert_eq!(block_on(acquire).unwrap_err().kind(), ErrorKind::OutOfMemory);
    }
    assert_eq!(device.staging().acquire_blocking(LARGE).unwrap_err().kind(), ErrorKind::OutOfMemory);
}

#[test]
fn memory_that_is_there_later_is_used_later() {
    let (device, memory) = device(small_pool());
    memory.set(Mode::Fail);
    assert!(block_on(device.staging().acquire(LARGE)).is_err());
    memory.set(Mode::Succeed);
    assert!(block_on(device.staging().acquire(LARGE)).is_ok());
}

#[test]
fn without_more_memory_one_waits_for_what_there_is() {
    let (device, memory) = device(slab_by_slab());
    let slot = device.staging().acquire_blocking(LARGE).unwrap();
    memory.set(Mode::Fail);
    let mut second = Box::pin(device.staging().acquire(LARGE));
    assert!(poll(&mut second).is_pending());
    memory.wait_for_calls(2);
    let waiting = std::thread::scope(|scope| {
        let third = scope.spawn(|| device.staging().acquire_blocking(LARGE).map(drop));
        drop(slot);
        drop(block_on(second).unwrap());
        third.join().unwrap()
    });
    assert!(waiting.is_ok());
}

#[test]
fn an_allocation_that_panics_is_an_error_and_not_a_wait() {
    let (device, memory) = device(small_pool());
    memory.set(Mode::Panic);
    assert_eq!(block_on(device.staging().acquire(LARGE)).unwrap_err().kind(), ErrorKind::Device);
    assert_eq!(device.staging().acquire_blocking(LARGE).unwrap_err().kind(), ErrorKind::Device);
    memory.set(Mode::Succeed);
    assert!(device.staging().acquire_blocking(LARGE).is_ok());
}

#[test]
fn warming_allocates_up_to_the_budget_and_no_more() {
    let (device, memory) = device(small_pool());
    device.staging().warm(100_000);
    assert_eq!((memory.calls(), memory.live()), (1, 128 << 10));
    device.staging().warm(1);
    assert_eq!(memory.calls(), 1, "it is warm already");
    device.staging().warm(usize::MAX);
    let stats = device.staging().stats();
    assert_eq!((stats.allocated, stats.free), (memory.live(), memory.live()));
    assert!(memory.live() <= stats.budget);
    assert!(device.staging().try_acquire(LARGE).is_some());
}

#[test]
fn warming_without_memory_ends() {
    let (device, memory) = device(small_pool());
    memory.set(Mode::Fail);
    device.staging().warm(usize::MAX);
    assert_eq!(memory.live(), 0);
}

#[test]
fn a_pool_gives_its_memory_back_in_the_end() {
    let (device, memory) = device(small_pool());
    let slot = device.staging().acquire_blocking(LARGE).unwrap();
    let pool = device.staging().clone();
    drop(device);
    assert!(ready(Box::pin(pool.acquire(LARGE))).is_ok(), "the slab has two slots");
    drop(pool);
    assert_eq!(memory.live(), 128 << 10, "the slot's slab lives on");
    drop(slot);
    assert_eq!(memory.live(), 0);
}
