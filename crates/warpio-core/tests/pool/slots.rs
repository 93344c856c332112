//! The memory of slots.

use std::collections::HashSet;

use warpio_core::testing::FakeGpu;
use warpio_core::{ErrorKind, Slot};

use crate::backend::device;
use crate::support::{leaks_on_purpose, small_pool};

#[test]
fn slots_do_not_overlap() {
    let (device, _memory) = device(small_pool());
    let pool = device.staging();
    let large = (0..pool.max_slots()).map(|_| pool.acquire_blocking(50_000).unwrap());
    let small = (0..8).map(|_| pool.acquire_blocking(1).unwrap());
    let mut slots: Vec<Slot> = large.chain(small).collect();
    for (i, slot) in slots.iter_mut().enumerate() {
        slot.as_mut_slice().fill(i as u8 + 1);
    }
    for (i, slot) in slots.iter().enumerate() {
        assert!(slot.as_slice().iter().all(|&byte| byte == i as u8 + 1), "slot {i} was written by another");
    }
}

#[test]
fn slots_lent_to_many_threads_are_written_by_one_each() {
    let (device, _memory) = device(small_pool());
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let pool = device.staging();
            scope.spawn(move || {
                for round in 0..40u8 {
                    let mut slot = pool.acquire_blocking(if round % 2 == 0 { 100 } else { 50_000 }).unwrap();
                    let mark = thread.wrapping_mul(40).wrapping_add(round);
                    slot.as_mut_slice().fill(mark);
                    std::thread::yield_now();
                    assert!(slot.as_slice().iter().all(|&byte| byte == mark));
                }
            });
        }
    });
}

#[test]
fn slots_are_aligned_initialised_and_know_where_they_lie() {
    let (device, _memory) = device(small_pool());
    let pool = device.staging();
    let slots: Vec<_> = (0..4).map(|_| pool.acquire_blocking(50_000).unwrap()).collect();
    let regions: HashSet<_> = slots.iter().map(Slot::region).collect();
    assert_eq!(regions.len(), 4);
    for slot in &slots {
        let region = slot.region();
        assert_eq!(slot.as_ptr().as_ptr() as usize, region.slab.0 + region.offset);
        assert!(region.offset + slot.len() <= region.slab.1);
        assert_eq!(slot.as_ptr().as_ptr() as usize % 4096, 0, "direct I/O needs this");
        assert!(slot.as_slice().iter().all(|&byte| byte == 0));
    }
}

#[test]
fn a_slot_held_until_its_stream_is_done_comes_back_then() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let stream = device.new_stream().unwrap();
    let slot = device.staging().acquire_blocking(1).unwrap();
    gpu.hold();
    let before = device.staging().stats().free;
    slot.hold_until(&device, &stream).unwrap();
    assert_eq!(device.staging().stats().free, before);
    gpu.release();
    stream.record().unwrap().synchronize().unwrap();
    assert_eq!(device.staging().stats().free, before + 4096);
}

#[test]
fn a_slot_whose_stream_cannot_tell_is_leaked() {
    leaks_on_purpose(|| {
        let (device, gpu) = FakeGpu::device(0, small_pool());
        let stream = device.new_stream().unwrap();
        let slot = device.staging().acquire_blocking(1).unwrap();
        let before = device.staging().stats().free;
        gpu.fail_records(1);
        assert_eq!(slot.hold_until(&device, &stream).unwrap_err().kind(), ErrorKind::Device);
        assert_eq!(device.staging().stats().free, before);
    });
}
