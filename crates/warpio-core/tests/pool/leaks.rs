//! Slots that are never lent again.

use warpio_core::{ErrorKind, PoolConfig};

use crate::backend::device;
use crate::support::{block_on, leaks_on_purpose, poll, ready, small_pool};

const LARGE: usize = 50_000;

/// Two large slots, in a slab each.
fn two_slots() -> PoolConfig {
    PoolConfig { budget: (128 << 10) + (16 << 10), slab_len: 1, ..small_pool() }
}

#[test]
fn a_leaked_slot_stays_in_the_budget_and_is_not_lent_again() {
    leaks_on_purpose(|| {
        let (device, memory) = device(two_slots());
        let pool = device.staging();
        let slot = pool.acquire_blocking(LARGE).unwrap();
        let at = slot.as_ptr();
        slot.leak();
        let second = pool.acquire_blocking(LARGE).unwrap();
        assert_ne!(second.as_ptr(), at);
        assert!(poll(&mut Box::pin(pool.acquire(LARGE))).is_pending(), "the budget has room for two");
        drop(second);
        assert!(ready(Box::pin(pool.acquire(LARGE))).is_ok());
        assert_eq!(pool.trim(), 64 << 10, "the slab of the leaked slot stays");
        assert_eq!((memory.live(), pool.stats().allocated), (64 << 10, 64 << 10));
    });
}

#[test]
fn a_leaked_slot_leaks_no_other_memory_of_the_pool() {
    leaks_on_purpose(|| {
        let (device, memory) = device(two_slots());
        let slots = [0; 2].map(|_| device.staging().acquire_blocking(LARGE).unwrap());
        let [slot, other] = slots;
        slot.leak();
        drop(other);
        drop(device);
        assert_eq!(memory.live(), 64 << 10);
    });
}

#[test]
fn with_every_slot_leaked_one_gets_an_error_instead_of_waiting() {
    leaks_on_purpose(|| {
        let (device, _memory) = device(two_slots());
        let pool = device.staging();
        let slots = [0; 2].map(|_| pool.acquire_blocking(LARGE).unwrap());
        let mut waiting = Box::pin(pool.acquire(LARGE));
        assert!(poll(&mut waiting).is_pending());
        slots.into_iter().for_each(warpio_core::Slot::leak);
        let error = ready(waiting).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("leaked"), "{error}");
        assert_eq!(pool.acquire_blocking(LARGE).unwrap_err().kind(), ErrorKind::OutOfMemory);
        assert_eq!(block_on(pool.acquire(LARGE)).unwrap_err().kind(), ErrorKind::OutOfMemory);
        assert!(block_on(pool.acquire(1)).is_ok(), "the small slots are there");
    });
}
