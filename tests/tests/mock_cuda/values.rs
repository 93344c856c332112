//! Values that streams write and wait for.

use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys::{self, CUstream, CUstreamWaitValue_flags_enum as When};

use crate::support::{
    Gpu, LEGACY, Pinned, alloc, call, code, fill, query, read, stall, stream, synchronize,
};

fn write(stream: CUstream, at: u64, value: u32) -> u32 {
    // SAFETY: a driver checks the address.
    code(unsafe { sys::cuStreamWriteValue32_v2(stream, at, value, 0) }.result())
}

fn wait(stream: CUstream, at: u64, value: u32, when: When) -> u32 {
    // SAFETY: a driver checks the address.
    code(unsafe { sys::cuStreamWaitValue32_v2(stream, at, value, when as u32) }.result())
}

fn flag(pinned: &Pinned) -> &AtomicU32 {
    // SAFETY: pinned memory is page-aligned, long enough, and outlives the reference.
    unsafe { AtomicU32::from_ptr(pinned.address() as *mut u32) }
}

#[test]
fn a_flag_is_written_behind_the_work() {
    let _gpu = Gpu::new();
    let stream = stream();
    let pinned = Pinned::new(4096);
    let busy = stall(stream);
    assert_eq!(write(stream, pinned.address(), 17), 0);
    assert_eq!(flag(&pinned).load(Ordering::Acquire), 0);
    drop(busy);
    while flag(&pinned).load(Ordering::Acquire) != 17 {
        std::thread::yield_now();
    }
    synchronize(stream).unwrap();
}

#[test]
fn a_stream_waits_for_a_value_from_the_host() {
    let _gpu = Gpu::new();
    let stream = stream();
    let pinned = Pinned::new(4096);
    let pointer = alloc(8);
    assert_eq!(
        wait(stream, pinned.address(), 3, When::CU_STREAM_WAIT_VALUE_GEQ),
        0
    );
    fill(pointer, 1, 8, stream).unwrap();
    flag(&pinned).store(2, Ordering::Release);
    assert_eq!(code(query(stream)), 600);
    flag(&pinned).store(4, Ordering::Release);
    synchronize(stream).unwrap();
    assert_eq!(read(pointer, 8), [1; 8]);
}

#[test]
fn streams_signal_each_other_through_device_memory() {
    let _gpu = Gpu::new();
    let (one, two) = (stream(), stream());
    let pointer = alloc(4);
    fill(pointer, 0, 4, LEGACY).unwrap();
    synchronize(LEGACY).unwrap();
    assert_eq!(wait(two, pointer, 9, When::CU_STREAM_WAIT_VALUE_EQ), 0);
    let busy = stall(one);
    assert_eq!(write(one, pointer, 9), 0);
    assert_eq!(code(query(two)), 600);
    drop(busy);
    synchronize(two).unwrap();
}

#[test]
fn the_conditions_are_what_they_are_called() {
    let _gpu = Gpu::new();
    let stream = stream();
    let pinned = Pinned::new(4096);
    for (found, wanted, when) in [
        (5, 5, When::CU_STREAM_WAIT_VALUE_GEQ),
        (1, u32::MAX, When::CU_STREAM_WAIT_VALUE_GEQ),
        (5, 5, When::CU_STREAM_WAIT_VALUE_EQ),
        (6, 3, When::CU_STREAM_WAIT_VALUE_AND),
        (1, 2, When::CU_STREAM_WAIT_VALUE_NOR),
    ] {
        flag(&pinned).store(found, Ordering::Release);
        assert_eq!(wait(stream, pinned.address(), wanted, when), 0);
        synchronize(stream).unwrap();
    }
}

#[test]
fn values_need_memory_that_the_device_reaches() {
    let _gpu = Gpu::new();
    let stream = stream();
    let pageable = [0_u32; 4];
    assert_eq!(write(stream, pageable.as_ptr() as u64, 1), 1);
    let pinned = Pinned::new(4096);
    assert_eq!(write(stream, pinned.address() + 2, 1), 1);
    call(stream, || {});
    synchronize(stream).unwrap();
}
