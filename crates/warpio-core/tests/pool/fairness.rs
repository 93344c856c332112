//! First come, first served; and small transfers do not wait for large ones.

use std::sync::Mutex;

use warpio_core::{Slot, StagingPool};

use crate::backend::device;
use crate::support::{Wakes, block_on, poll, ready, small_pool};

const LARGE: usize = 50_000;

fn use_up(pool: &StagingPool) -> Vec<Slot> {
    (0..pool.max_slots()).map(|_| pool.acquire_blocking(LARGE).unwrap()).collect()
}

#[test]
fn slots_go_to_those_who_waited_longest() {
    let (device, _memory) = device(small_pool());
    let pool = device.staging();
    let mut slots = use_up(pool);
    let mut waiting: Vec<_> = (0..5).map(|_| Box::pin(pool.acquire(LARGE))).collect();
    assert!(waiting.iter_mut().all(|acquire| poll(acquire).is_pending()));
    let mut lent = Vec::new();
    while !waiting.is_empty() {
        drop(slots.pop());
        let served: Vec<bool> =
            waiting.iter_mut().map(|acquire| poll(acquire).map(|slot| lent.push(slot.unwrap())).is_ready()).collect();
        assert!(served[0] && !served[1..].contains(&true), "the first in the row, and nobody else: {served:?}");
        drop(waiting.remove(0));
    }
    assert_eq!(lent.len(), 5);
}

#[test]
fn nobody_overtakes_those_who_wait() {
    let (device, _memory) = device(small_pool());
    let pool = device.staging();
    let mut slots = use_up(pool);
    let mut first = Box::pin(pool.acquire(LARGE));
    assert!(poll(&mut first).is_pending());
    drop(slots.pop());
    assert!(pool.try_acquire(LARGE).is_none(), "the slot is promised");
    assert!(poll(&mut Box::pin(pool.acquire(LARGE))).is_pending());
    assert!(ready(first).is_ok());
}

#[test]
fn a_place_in_the_row_is_kept_when_the_task_moves() {
    let (device, _memory) = device(small_pool());
    let pool = device.staging();
    let mut slots = use_up(pool);
    let mut acquire = Box::pin(pool.acquire(LARGE));
    let (before, after) = (Wakes::new(), Wakes::new());
    for wakes in [&before, &after] {
        let waker = wakes.waker();
        assert!(acquire.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    }
    drop(slots.pop());
    assert_eq!((before.count(), after.count()), (0, 1));
    assert!(ready(acquire).is_ok());
}

#[test]
fn a_small_transfer_does_not_wait_for_large_ones() {
    let (device, _memory) = device(small_pool());
    let pool = device.staging();
    let _slots = use_up(pool);
    let mut queue: Vec<_> = (0..100).map(|_| Box::pin(pool.acquire(LARGE))).collect();
    assert!(queue.iter_mut().all(|acquire| poll(acquire).is_pending()));
    assert_eq!(block_on(pool.acquire(4096)).unwrap().len(), 4096);
    assert_eq!(pool.acquire_blocking(1).unwrap().len(), 4096);
}

#[test]
fn a_slot_granted_to_somebody_who_left_goes_to_the_next() {
    let (device, _memory) = device(small_pool());
    let pool = device.staging();
    let mut slots = use_up(pool);
    let [mut first, mut second] = [0; 2].map(|_| Box::pin(pool.acquire(LARGE)));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    drop(slots.pop());
    // Granted to the first, which never looks.
    drop(first);
    assert!(ready(second).is_ok());
}

#[test]
fn a_slot_granted_to_the_last_who_left_is_free() {
    let (device, _memory) = device(small_pool());
    let pool = device.staging();
    let mut slots = use_up(pool);
    let mut only = Box::pin(pool.acquire(LARGE));
    assert!(poll(&mut only).is_pending());
    drop(slots.pop());
    drop(only);
    assert!(pool.try_acquire(LARGE).is_some());
}

#[test]
fn somebody_who_left_the_row_is_passed_over() {
    let (device, _memory) = device(small_pool());
    let pool = device.staging();
    let mut slots = use_up(pool);
    let mut waiting: Vec<_> = (0..200).map(|_| Box::pin(pool.acquire(LARGE))).collect();
    assert!(waiting.iter_mut().all(|acquire| poll(acquire).is_pending()));
    let mut last = waiting.pop().unwrap();
    drop(waiting);
    assert!(poll(&mut last).is_pending());
    drop(slots.pop());
    assert!(ready(last).is_ok());
}

#[test]
fn threads_and_tasks_wait_in_one_row() {
    let (device, _memory) = device(small_pool());
    let pool = device.staging();
    let order = Mutex::new(Vec::new());
    let slots = use_up(pool);
    std::thread::scope(|scope| {
        for i in 0..6 {
            let (order, wakes) = (&order, Wakes::new());
            if i % 2 == 0 {
                scope.spawn(move || {
                    let slot = pool.acquire_blocking(LARGE).unwrap();
                    order.lock().unwrap().push(i);
                    drop(slot);
                });
            } else {
                let mut acquire = Box::pin(pool.acquire(LARGE));
                let waker = wakes.waker();
                assert!(acquire.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
                scope.spawn(move || {
                    let slot = block_on(acquire).unwrap();
                    order.lock().unwrap().push(i);
                    drop(slot);
                });
            }
        }
        drop(slots);
    });
    let mut order = order.into_inner().unwrap();
    order.sort_unstable();
    assert_eq!(order, [0, 1, 2, 3, 4, 5], "everybody was served");
}
