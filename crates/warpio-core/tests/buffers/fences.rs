//! A buffer carries the device work that it was last used by, and is released behind it.

use std::sync::mpsc;

use warpio_core::testing::FakeGpu;
use warpio_core::{Device, ErrorKind};

use crate::support::{Drops, LONG, block_on, poll, small_pool};

#[test]
fn memory_is_freed_behind_the_work_that_uses_it() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let stream = device.new_stream().unwrap();
    let mut buffer = device.alloc(1000).unwrap();
    gpu.hold();
    buffer.after(&stream).unwrap();
    drop(buffer);
    assert_eq!(gpu.allocations(), 1, "freed while the stream may still use it");
    gpu.release();
    gpu.wait_freed();
}

#[test]
fn memory_without_a_use_is_freed_at_once() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    gpu.hold();
    drop(device.alloc(1000).unwrap());
    assert_eq!(gpu.allocations(), 0);
}

#[test]
fn a_use_that_has_ended_does_not_delay() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let stream = device.new_stream().unwrap();
    let mut buffer = device.alloc(1000).unwrap();
    buffer.after(&stream).unwrap();
    stream.record().unwrap().synchronize().unwrap();
    gpu.hold();
    drop(buffer);
    assert_eq!(gpu.allocations(), 0);
}

#[test]
fn shared_memory_is_freed_behind_the_work_of_every_slice() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let stream = device.new_stream().unwrap();
    let data = device.alloc(1000).unwrap().freeze();
    let slice = data.slice(..10);
    gpu.hold();
    slice.used_on(&stream).unwrap();
    drop(slice);
    drop(data);
    assert_eq!(gpu.allocations(), 1, "freed while the stream may still use it");
    gpu.release();
    gpu.wait_freed();
}

#[test]
fn a_piece_that_was_dropped_is_not_forgotten() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let stream = device.new_stream().unwrap();
    let mut head = device.alloc(1000).unwrap();
    let mut tail = head.split_off(500);
    gpu.hold();
    tail.after(&stream).unwrap();
    drop(tail);
    drop(head);
    assert_eq!(gpu.allocations(), 1, "the dropped tail is still in use");
    gpu.release();
    gpu.wait_freed();
}

#[test]
fn a_fence_survives_freezing_and_thawing() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let stream = device.new_stream().unwrap();
    let mut buffer = device.alloc(1000).unwrap();
    gpu.hold();
    buffer.after(&stream).unwrap();
    drop(buffer.freeze().try_into_mut().expect("alone"));
    assert_eq!(gpu.allocations(), 1);
    gpu.release();
    gpu.wait_freed();
}

#[test]
fn ready_waits_for_the_recorded_work() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let stream = device.new_stream().unwrap();
    let mut buffer = device.alloc(1000).unwrap();
    gpu.hold();
    buffer.after(&stream).unwrap();
    {
        let mut ready = std::pin::pin!(buffer.ready());
        assert!(poll(&mut ready).is_pending());
        gpu.release();
        block_on(ready).unwrap();
    }
    gpu.hold();
    drop(buffer);
    assert_eq!(gpu.allocations(), 0);
}

#[test]
fn ready_given_up_half_way_forgets_nothing() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let stream = device.new_stream().unwrap();
    let mut buffer = device.alloc(1000).unwrap();
    gpu.hold();
    buffer.after(&stream).unwrap();
    buffer.after(&stream).unwrap();
    assert!(poll(&mut std::pin::pin!(buffer.ready())).is_pending());
    drop(buffer);
    assert_eq!(gpu.allocations(), 1, "freed while the stream may still use it");
    gpu.release();
    gpu.wait_freed();
}

#[test]
fn halves_that_part_and_join_keep_one_fence() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let stream = device.new_stream().unwrap();
    let mut buffer = device.alloc(1000).unwrap();
    gpu.hold();
    buffer.after(&stream).unwrap();
    // Were the halves' fences added up, there would be 2^64 events in the end.
    for _ in 0..64 {
        let tail = buffer.split_off(500);
        buffer = buffer.unsplit(tail).expect("neighbours");
    }
    drop(buffer);
    assert_eq!(gpu.allocations(), 1);
    gpu.release();
    gpu.wait_freed();
}

#[test]
fn an_event_that_cannot_be_recorded_leaves_the_buffer_as_it_was() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let stream = device.new_stream().unwrap();
    let mut buffer = device.alloc(1000).unwrap();
    gpu.fail_records(1);
    assert_eq!(buffer.after(&stream).unwrap_err().kind(), ErrorKind::Device);
    gpu.hold();
    drop(buffer);
    assert_eq!(gpu.allocations(), 0);
}

#[test]
fn memory_of_a_lost_device_is_released() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let stream = device.new_stream().unwrap();
    let mut buffer = device.alloc(1000).unwrap();
    gpu.hold();
    buffer.after(&stream).unwrap();
    gpu.break_down();
    drop(buffer);
    gpu.wait_freed();
    assert_eq!(device.alloc(1).unwrap_err().kind(), ErrorKind::DeviceLost);
}

#[test]
fn host_memory_used_by_a_gpu_is_released_behind_it_and_blocks_nobody() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let stream = device.new_stream().unwrap();
    let drops = Drops::default();
    let mut buffer = drops.buffer(&Device::host(), 100);
    gpu.hold();
    buffer.after(&stream).unwrap();
    let (tx, rx) = mpsc::channel();
    let dropping = std::thread::spawn(move || {
        drop(buffer);
        tx.send(()).unwrap();
    });
    let blocked = rx.recv_timeout(LONG / 6).is_err();
    let early = drops.count();
    gpu.release();
    dropping.join().unwrap();
    assert!(!blocked, "dropping a buffer waited for a device");
    assert_eq!(early, 0, "released while the stream may still use it");
}

#[test]
fn a_stream_waits_for_what_a_buffer_carries_and_for_nothing_else() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let stream = device.new_stream().unwrap();
    let (mut used, unused) = (device.alloc(10).unwrap(), device.alloc(10).unwrap());
    gpu.hold();
    used.after(&stream).unwrap();
    used.wait_on(&stream).unwrap();
    gpu.break_down();
    assert_eq!(used.wait_on(&stream).unwrap_err().kind(), ErrorKind::DeviceLost);
    assert_eq!(used.freeze().wait_on(&stream).unwrap_err().kind(), ErrorKind::DeviceLost);
    unused.wait_on(&stream).unwrap();
    unused.freeze().wait_on(&stream).unwrap();
}
