//! Device memory: its limits, its addresses, what is refused.

use std::{ffi::c_void, hint::black_box, thread};

use cudarc::driver::{
    DriverError, result,
    sys::{self, CUdeviceptr, CUpointer_attribute, CUresult},
};

use crate::support::{
    Gpu, LEGACY, Pinned, alloc, ask, code, copy, download, fill, forked, free, pattern, query,
    read, stall, stream, synchronize, try_alloc, upload,
};

#[test]
fn bytes_come_back_as_they_went() {
    let _gpu = Gpu::new();
    let stream = stream();
    let bytes = pattern(100_000, 1);
    let (from, mut to) = (Pinned::of(&bytes), Pinned::new(bytes.len()));
    let (one, two) = (alloc(bytes.len()), alloc(bytes.len()));
    upload(one, from.bytes(), stream).unwrap();
    copy(two, one, bytes.len(), stream).unwrap();
    download(to.bytes_mut(), two, stream).unwrap();
    synchronize(stream).unwrap();
    assert!(to.bytes() == bytes);
}

#[test]
fn the_cpu_faults_on_a_device_pointer() {
    let Some((_gpu, _)) = Gpu::controlled() else {
        return;
    };
    let pointer = alloc(4096);
    let status = forked(|| {
        // SAFETY: none: this is the access that must fault, in a process that ends with it.
        let byte = unsafe { (pointer as *const u8).read_volatile() };
        i32::from(black_box(byte))
    });
    assert!(libc::WIFSIGNALED(status));
    assert_eq!(libc::WTERMSIG(status), libc::SIGSEGV);
}

#[test]
fn an_allocation_of_nothing_is_refused() {
    let _gpu = Gpu::new();
    assert_eq!(code(try_alloc(0)), 1);
}

#[test]
fn copies_must_stay_within_an_allocation() {
    let _gpu = Gpu::new();
    let stream = stream();
    let pointer = alloc(1 << 21);
    let bytes = Pinned::new((1 << 21) + 1);
    assert_eq!(code(upload(pointer, bytes.bytes(), stream)), 1);
    assert_eq!(code(upload(pointer + 1, &bytes.bytes()[1..], stream)), 1);
    assert_eq!(code(upload(pointer + 1, &bytes.bytes()[2..], stream)), 0);
    assert_eq!(code(upload(0, &bytes.bytes()[..1], stream)), 1);
    synchronize(stream).unwrap();
}

#[test]
fn a_device_pointer_is_no_host_pointer() {
    let Some((_gpu, _)) = Gpu::controlled() else {
        return;
    };
    let (one, two) = (alloc(64), alloc(64));
    // SAFETY: a driver that mistook the source for host memory would fault here.
    let outcome = unsafe { sys::cuMemcpyHtoDAsync_v2(one, two as *const c_void, 64, LEGACY) };
    assert_eq!(outcome, CUresult::CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn freed_memory_is_refused() {
    let _gpu = Gpu::new();
    let pointer = alloc(1 << 21);
    free(pointer).unwrap();
    assert_eq!(code(fill(pointer, 0, 1, LEGACY)), 1);
    assert_eq!(code(free(pointer)), 1);
}

#[test]
fn only_the_start_of_an_allocation_can_be_freed() {
    let _gpu = Gpu::new();
    let pointer = alloc(4096);
    assert_eq!(code(free(pointer + 256)), 1);
    assert_eq!(code(free(pointer)), 0);
}

#[test]
fn freeing_waits_for_the_work_of_the_context() {
    let gpu = Gpu::new();
    let stream = stream();
    let pointer = alloc(4096);
    let busy = stall(stream);
    fill(pointer, 1, 4096, stream).unwrap();
    thread::scope(|scope| {
        let freeing = scope.spawn(|| {
            gpu.bind();
            free(pointer)
        });
        busy.wait_for_start();
        drop(busy);
        assert_eq!(code(freeing.join().unwrap()), 0);
    });
    assert_eq!(code(query(stream)), 0);
}

#[test]
fn free_memory_shrinks_and_grows() {
    let _gpu = Gpu::new();
    let (before, total) = result::mem_get_info().unwrap();
    assert!(before <= total);
    let pointer = alloc(64 << 20);
    let (during, _) = result::mem_get_info().unwrap();
    assert_eq!(before - during, 64 << 20);
    free(pointer).unwrap();
    assert_eq!(result::mem_get_info().unwrap().0, before);
}

#[test]
fn new_memory_is_not_zero() {
    let Some((_gpu, _)) = Gpu::controlled() else {
        return;
    };
    let pointer = alloc(1000);
    assert!(read(pointer, 1000).iter().all(|byte| *byte == 0xa5));
}

#[test]
fn how_much_is_not_zero_can_be_set() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    control.ctl("poison 10");
    let found = read(alloc(20), 20);
    assert_eq!(found, [[0xa5; 10], [0; 10]].concat());
}

#[test]
fn the_alias_shows_what_is_on_the_device() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let pointer = alloc(100);
    let bytes = pattern(100, 3);
    upload(pointer, &bytes, LEGACY).unwrap();
    synchronize(LEGACY).unwrap();
    let alias = control.resolve(pointer + 10, 90).unwrap();
    for (index, byte) in bytes[10..].iter().enumerate() {
        // SAFETY: 90 bytes were resolved of an allocation that lives and is idle.
        assert_eq!(unsafe { alias.add(index).read() }, *byte);
    }
    assert_eq!(control.resolve(pointer + 10, 91), None);
    free(pointer).unwrap();
    assert_eq!(control.resolve(pointer, 1), None);
}

#[test]
fn wide_values_are_set() {
    let _gpu = Gpu::new();
    let pointer = alloc(16);
    // SAFETY: sixteen bytes are there.
    unsafe {
        sys::cuMemsetD16Async(pointer, 0x0102, 4, LEGACY)
            .result()
            .unwrap();
        sys::cuMemsetD32Async(pointer + 8, 0x0a0b_0c0d, 2, LEGACY)
            .result()
            .unwrap();
    }
    let expected = [2, 1, 2, 1, 2, 1, 2, 1, 13, 12, 11, 10, 13, 12, 11, 10];
    assert_eq!(read(pointer, 16), expected);
    // SAFETY: a driver refuses a target that is not aligned.
    let outcome = unsafe { sys::cuMemsetD32Async(pointer + 2, 0, 1, LEGACY) };
    assert_eq!(outcome, CUresult::CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn a_pointer_tells_its_allocation() {
    let _gpu = Gpu::new();
    let pointer = alloc(3 << 20);
    let (mut base, mut len) = (0, 0);
    // SAFETY: places for both results.
    unsafe { sys::cuMemGetAddressRange_v2(&raw mut base, &raw mut len, pointer + 12_345) }
        .result()
        .unwrap();
    assert_eq!((base, len), (pointer, 3 << 20));
}

fn attribute<T>(pointer: CUdeviceptr, attribute: CUpointer_attribute) -> Result<T, DriverError> {
    // SAFETY: each test names the type that the attribute has.
    ask(|out: *mut T| unsafe { sys::cuPointerGetAttribute(out.cast(), attribute, pointer) })
}

#[test]
fn pointers_have_attributes() {
    let gpu = Gpu::new();
    let pointer = alloc(4096);
    let pinned = Pinned::new(4096);
    let kind = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    assert_eq!(attribute::<u32>(pointer + 1, kind), Ok(2));
    assert_eq!(attribute::<u32>(pinned.address(), kind), Ok(1));
    let pageable = [0_u8; 64];
    assert_eq!(code(attribute::<u32>(pageable.as_ptr() as u64, kind)), 1);
    let ordinal = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    assert_eq!(attribute::<i32>(pointer, ordinal), Ok(0));
    let context = CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT;
    assert_eq!(attribute(pointer, context), Ok(gpu.context));
}

#[test]
fn several_attributes_are_zero_for_unknown_memory() {
    let _gpu = Gpu::new();
    let pageable = [0_u8; 64];
    let (mut kind, mut start) = (7_u32, 7_u64);
    let mut attributes = [
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
    ];
    let mut places = [(&raw mut kind).cast::<c_void>(), (&raw mut start).cast()];
    // SAFETY: two attributes with places of their sizes.
    unsafe {
        sys::cuPointerGetAttributes(
            2,
            attributes.as_mut_ptr(),
            places.as_mut_ptr(),
            pageable.as_ptr() as u64,
        )
    }
    .result()
    .unwrap();
    assert_eq!((kind, start), (0, 0));
}
