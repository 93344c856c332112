//! Stream-ordered allocation.

use cudarc::driver::{
    DriverError, result,
    sys::{self, CUdeviceptr, CUmemPool_attribute, CUmemoryPool, CUstream},
};

use crate::support::{
    Gpu, LEGACY, alloc, ask, code, copy, download, fill, free, pattern, query, recorded, stall,
    stream, synchronize, upload, wait,
};

const MIB: usize = 1 << 20;

fn alloc_async(len: usize, stream: CUstream) -> Result<CUdeviceptr, DriverError> {
    // SAFETY: nothing is asked of the caller.
    unsafe { result::malloc_async(stream, len) }
}

fn free_async(pointer: CUdeviceptr, stream: CUstream) -> Result<(), DriverError> {
    // SAFETY: a driver refuses what it does not know.
    unsafe { result::free_async(pointer, stream) }
}

fn pool() -> CUmemoryPool {
    // SAFETY: device 0 exists.
    unsafe { result::device::get_default_mem_pool(0) }.unwrap()
}

fn get(attribute: CUmemPool_attribute) -> u64 {
    // SAFETY: the tests ask for attributes of 64 bits.
    ask(|out: *mut u64| unsafe { sys::cuMemPoolGetAttribute(pool(), attribute, out.cast()) })
        .unwrap()
}

fn set(attribute: CUmemPool_attribute, mut value: u64) {
    // SAFETY: the tests set attributes of 64 bits.
    unsafe { result::mem_pool::set_attribute(pool(), attribute, (&raw mut value).cast()) }.unwrap();
}

#[test]
fn pooled_memory_works_like_any_other() {
    let _gpu = Gpu::new();
    let stream = stream();
    let bytes = pattern(10_000, 4);
    let pointer = alloc_async(bytes.len(), stream).unwrap();
    upload(pointer, &bytes, stream).unwrap();
    let mut back = vec![0; bytes.len()];
    download(&mut back, pointer, stream).unwrap();
    free_async(pointer, stream).unwrap();
    synchronize(stream).unwrap();
    assert!(back == bytes);
}

#[test]
fn nothing_can_be_allocated_and_freed() {
    let _gpu = Gpu::new();
    let stream = stream();
    let pointer = alloc_async(0, stream).unwrap();
    free_async(pointer, stream).unwrap();
    synchronize(stream).unwrap();
}

#[test]
fn only_stream_ordered_memory_is_freed_in_stream_order() {
    let Some((_gpu, _)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let pointer = alloc(MIB);
    assert_eq!(code(free_async(pointer, stream)), 1);
    free(pointer).unwrap();
    let pooled = alloc_async(MIB, stream).unwrap();
    free(pooled).unwrap();
}

#[test]
fn freed_memory_is_refused_from_the_call_on() {
    let Some((_gpu, _)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let pointer = alloc_async(MIB, stream).unwrap();
    free_async(pointer, stream).unwrap();
    assert_eq!(code(fill(pointer, 1, 1, stream)), 1);
    assert_eq!(code(free_async(pointer, stream)), 1);
    assert_eq!(code(free(pointer)), 1);
}

#[test]
fn a_free_waits_for_its_stream() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let pointer = alloc_async(MIB, stream).unwrap();
    let busy = stall(stream);
    fill(pointer, 1, MIB, stream).unwrap();
    free_async(pointer, stream).unwrap();
    assert_eq!(control.counters().device_allocations, 1);
    drop(busy);
    synchronize(stream).unwrap();
    let counters = control.counters();
    assert_eq!((counters.device_allocations, counters.violations), (0, 0));
}

#[test]
fn the_pool_keeps_up_to_its_threshold() {
    let _gpu = Gpu::new();
    let stream = stream();
    use CUmemPool_attribute::{
        CU_MEMPOOL_ATTR_RELEASE_THRESHOLD as THRESHOLD,
        CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT as RESERVED, CU_MEMPOOL_ATTR_USED_MEM_CURRENT as USED,
    };
    let before = get(USED);
    set(THRESHOLD, u64::MAX);
    let pointer = alloc_async(64 * MIB, stream).unwrap();
    assert_eq!(get(USED) - before, 64 * MIB as u64);
    free_async(pointer, stream).unwrap();
    synchronize(stream).unwrap();
    assert_eq!(get(USED), before);
    assert!(get(RESERVED) >= 64 * MIB as u64);
    // SAFETY: the default pool.
    unsafe { result::mem_pool::trim_to(pool(), 0) }.unwrap();
    assert!(get(RESERVED) < 64 * MIB as u64);
    set(THRESHOLD, 0);
    let pointer = alloc_async(64 * MIB, stream).unwrap();
    free_async(pointer, stream).unwrap();
    synchronize(stream).unwrap();
    assert!(get(RESERVED) < 64 * MIB as u64);
}

#[test]
fn high_water_marks_start_anew_at_zero() {
    let _gpu = Gpu::new();
    let stream = stream();
    let mark = CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    let pointer = alloc_async(16 * MIB, stream).unwrap();
    free_async(pointer, stream).unwrap();
    synchronize(stream).unwrap();
    assert!(get(mark) >= 16 * MIB as u64);
    set(mark, 0);
    assert!(get(mark) < 16 * MIB as u64);
}

#[test]
fn memory_about_to_be_freed_can_be_promised_again() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let (one, two) = (stream(), stream());
    control.ctl(&format!("memory 0 {}", 4 * MIB));
    let first = alloc_async(4 * MIB, one).unwrap();
    assert_eq!(code(alloc_async(MIB, two)), 2);
    let busy = stall(one);
    free_async(first, one).unwrap();
    let second = alloc_async(3 * MIB, two).unwrap();
    fill(second, 1, 3 * MIB, two).unwrap();
    // The second allocation is ordered behind the free.
    assert_eq!(code(query(two)), 600);
    drop(busy);
    synchronize(two).unwrap();
    assert_eq!(code(alloc_async(2 * MIB, two)), 2);
    free_async(second, two).unwrap();
    synchronize(two).unwrap();
    assert_eq!(control.counters().violations, 0);
}

#[test]
fn memory_used_out_of_order_breaks_the_context() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let (one, two) = (stream(), stream());
    let busy = stall(one);
    let pointer = alloc_async(MIB, one).unwrap();
    fill(pointer, 1, MIB, two).unwrap();
    assert_eq!(code(synchronize(two)), 700);
    assert_eq!(control.counters().violations, 1);
    drop(busy);
}

#[test]
fn the_order_of_allocations_can_be_let_pass() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let (one, two) = (stream(), stream());
    control.ctl("strict off");
    let busy = stall(one);
    let pointer = alloc_async(MIB, one).unwrap();
    fill(pointer, 1, MIB, two).unwrap();
    synchronize(two).unwrap();
    assert_eq!(control.counters().violations, 0);
    drop(busy);
    synchronize(one).unwrap();
}

#[test]
fn memory_used_in_order_does_not() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let (one, two) = (stream(), stream());
    let busy = stall(one);
    let pointer = alloc_async(MIB, one).unwrap();
    wait(two, recorded(one)).unwrap();
    fill(pointer, 1, MIB, two).unwrap();
    wait(one, recorded(two)).unwrap();
    free_async(pointer, one).unwrap();
    drop(busy);
    synchronize(one).unwrap();
    assert_eq!(control.counters().violations, 0);
}

#[test]
fn memory_freed_under_another_stream_breaks_the_context() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let (one, two) = (stream(), stream());
    let pointer = alloc_async(MIB, one).unwrap();
    synchronize(one).unwrap();
    let busy = stall(two);
    fill(pointer, 1, MIB, two).unwrap();
    free_async(pointer, one).unwrap();
    assert_eq!(code(synchronize(one)), 700);
    assert_eq!(control.counters().violations, 1);
    drop(busy);
}

#[test]
fn a_made_pool_has_its_own_limit() {
    let _gpu = Gpu::new();
    let stream = stream();
    // SAFETY: plain numbers, of which all may be zero.
    let mut properties: sys::CUmemPoolProps = unsafe { std::mem::zeroed() };
    properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    properties.maxSize = 32 * MIB;
    // SAFETY: the properties live until the call returns.
    let pool = unsafe { result::mem_pool::create(&raw const properties) }.unwrap();
    // SAFETY: a live pool.
    let alloc = |len| unsafe { result::mem_pool::alloc_async(pool, len, stream) };
    let pointer = alloc(24 * MIB).unwrap();
    assert_eq!(code(alloc(24 * MIB)), 2);
    free_async(pointer, stream).unwrap();
    synchronize(stream).unwrap();
    // SAFETY: nothing of the pool is left.
    unsafe { result::mem_pool::destroy(pool) }.unwrap();
}

#[test]
fn pooled_memory_is_copied_on_other_streams_once_it_is_there() {
    let _gpu = Gpu::new();
    let (one, two) = (stream(), stream());
    let pointer = alloc_async(100, one).unwrap();
    fill(pointer, 5, 100, one).unwrap();
    synchronize(one).unwrap();
    let target = alloc(100);
    copy(target, pointer, 100, two).unwrap();
    synchronize(two).unwrap();
    assert_eq!(crate::support::read(target, 100), [5; 100]);
    free_async(pointer, LEGACY).unwrap();
    synchronize(LEGACY).unwrap();
}
