//! Pinned and registered host memory.

use std::{ffi::c_void, fs::File, io::Write, os::fd::AsRawFd, ptr};

use cudarc::driver::{
    result,
    sys::{self, CU_MEMHOSTREGISTER_READ_ONLY, CUpointer_attribute},
};

use crate::support::{Gpu, LEGACY, Pinned, alloc, ask, code, download, read, synchronize, upload};

const PAGE: usize = 4096;

fn register(base: *mut u8, len: usize, flags: u32) -> u32 {
    // SAFETY: the tests keep the memory until it is unregistered.
    code(unsafe { sys::cuMemHostRegister_v2(base.cast(), len, flags) }.result())
}

fn unregister(base: *mut u8) -> u32 {
    // SAFETY: a driver refuses what is not registered.
    code(unsafe { sys::cuMemHostUnregister(base.cast()) }.result())
}

/// Pages of our own.
struct Pages(*mut u8, usize);

impl Pages {
    fn new(count: usize) -> Self {
        let (len, rights) = (count * PAGE, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        Self(base.cast(), len)
    }

    /// A file's first page, mapped to be read.
    fn of_file(file: &File) -> Self {
        let fd = file.as_raw_fd();
        // SAFETY: a new mapping.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                PAGE,
                libc::PROT_READ,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        Self(base.cast(), PAGE)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by us, and no test leaves a copy under way.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}

#[test]
fn memory_is_registered_once() {
    let _gpu = Gpu::new();
    let pages = Pages::new(4);
    assert_eq!(register(pages.0, 2 * PAGE, 0), 0);
    assert_eq!(register(pages.0, 2 * PAGE, 0), 712);
    assert_eq!(register(pages.0.wrapping_add(PAGE), 2 * PAGE, 0), 712);
    assert_eq!(register(pages.0.wrapping_add(2 * PAGE), 2 * PAGE, 0), 0);
    assert_eq!(unregister(pages.0.wrapping_add(PAGE)), 713);
    assert_eq!(unregister(pages.0), 0);
    assert_eq!(unregister(pages.0), 713);
    assert_eq!(unregister(pages.0.wrapping_add(2 * PAGE)), 0);
}

#[test]
fn nothing_and_nowhere_cannot_be_registered() {
    let _gpu = Gpu::new();
    let pages = Pages::new(1);
    assert_eq!(register(pages.0, 0, 0), 1);
    assert_eq!(register(ptr::null_mut(), PAGE, 0), 1);
    // SAFETY: our own page, which nothing reads.
    let outcome = unsafe { libc::mprotect(pages.0.cast(), PAGE, libc::PROT_NONE) };
    assert_eq!(outcome, 0);
    assert_ne!(register(pages.0, PAGE, 0), 0);
}

#[test]
fn a_copy_cannot_leave_a_registered_range() {
    let _gpu = Gpu::new();
    let pages = Pages::new(2);
    let pointer = alloc(2 * PAGE);
    assert_eq!(register(pages.0, PAGE, 0), 0);
    // SAFETY: two pages are mapped.
    let bytes = unsafe { std::slice::from_raw_parts(pages.0, PAGE + 1) };
    assert_eq!(code(upload(pointer, bytes, LEGACY)), 1);
    assert_eq!(code(upload(pointer, &bytes[..PAGE], LEGACY)), 0);
    synchronize(LEGACY).unwrap();
    assert_eq!(unregister(pages.0), 0);
}

#[test]
fn read_only_memory_needs_its_flag() {
    let _gpu = Gpu::new();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[5; PAGE]).unwrap();
    let pages = Pages::of_file(&file);
    assert_ne!(register(pages.0, PAGE, 0), 0);
    assert_eq!(register(pages.0, PAGE, CU_MEMHOSTREGISTER_READ_ONLY), 0);
    let pointer = alloc(PAGE);
    // SAFETY: one page is mapped.
    let bytes = unsafe { std::slice::from_raw_parts(pages.0, PAGE) };
    upload(pointer, bytes, LEGACY).unwrap();
    assert_eq!(read(pointer, PAGE), [5; PAGE]);
    assert_eq!(unregister(pages.0), 0);
}

#[test]
fn nothing_is_copied_into_read_only_memory() {
    let Some((_gpu, _)) = Gpu::controlled() else {
        return;
    };
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[5; PAGE]).unwrap();
    let pages = Pages::of_file(&file);
    assert_eq!(register(pages.0, PAGE, CU_MEMHOSTREGISTER_READ_ONLY), 0);
    let pointer = alloc(PAGE);
    // SAFETY: the call must not write, and a driver checks the range.
    let outcome = unsafe { sys::cuMemcpyDtoHAsync_v2(pages.0.cast(), pointer, PAGE, LEGACY) };
    assert_eq!(code(outcome.result()), 1);
    assert_eq!(unregister(pages.0), 0);
}

#[test]
fn pinned_memory_has_one_address_for_both() {
    let _gpu = Gpu::new();
    let pinned = Pinned::new(PAGE);
    let host = pinned.address() as *mut c_void;
    // SAFETY: live pinned memory.
    let pointer = ask(|out| unsafe { sys::cuMemHostGetDevicePointer_v2(out, host, 0) });
    assert_eq!(pointer, Ok(pinned.address()));
    let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
    // SAFETY: the attribute is a device pointer.
    let pointer =
        ask::<u64>(|out| unsafe { sys::cuPointerGetAttribute(out.cast(), attribute, host as u64) });
    assert_eq!(pointer, Ok(pinned.address()));
}

#[test]
fn pinned_memory_is_freed_once() {
    let _gpu = Gpu::new();
    // SAFETY: nothing is asked of the caller.
    let base = unsafe { result::malloc_host(PAGE, 0) }.unwrap();
    // SAFETY: a driver refuses what it does not know.
    let free = || code(unsafe { result::free_host(base) });
    assert_eq!(free(), 0);
    assert_eq!(free(), 1);
}

#[test]
fn pinned_memory_can_be_limited() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    control.ctl("pinned_limit 8192");
    let first = Pinned::new(PAGE);
    let pages = Pages::new(2);
    assert_eq!(register(pages.0, 2 * PAGE, 0), 2);
    assert_eq!(register(pages.0, PAGE, 0), 0);
    // SAFETY: nothing is asked of the caller.
    assert_eq!(code(unsafe { result::malloc_host(1, 0) }), 2);
    drop(first);
    assert_eq!(unregister(pages.0), 0);
    assert_eq!(
        control.counters().pinned_bytes + control.counters().registered_bytes,
        0
    );
    Pinned::new(2 * PAGE);
}

#[test]
fn memory_unpinned_under_a_copy_is_a_violation() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let pointer = alloc(PAGE);
    let pinned = Pinned::of(&[3; PAGE]);
    control.ctl("hold");
    upload(pointer, pinned.bytes(), LEGACY).unwrap();
    drop(pinned);
    assert_eq!(control.counters().violations, 1);
    control.ctl("release");
    synchronize(LEGACY).unwrap();
    assert_eq!(control.counters().pinned_allocations, 0);
}

#[test]
fn managed_memory_is_everyones() {
    let _gpu = Gpu::new();
    let flags = sys::CUmemAttach_flags_enum::CU_MEM_ATTACH_GLOBAL;
    // SAFETY: nothing is asked of the caller.
    let pointer = unsafe { result::malloc_managed(PAGE, flags) }.unwrap();
    crate::support::fill(pointer, 4, PAGE, LEGACY).unwrap();
    synchronize(LEGACY).unwrap();
    // SAFETY: managed memory, and the fill is done.
    let bytes = unsafe { std::slice::from_raw_parts(pointer as *const u8, PAGE) };
    assert_eq!(bytes, [4; PAGE]);
    let mut out = Pinned::new(PAGE);
    download(out.bytes_mut(), pointer, LEGACY).unwrap();
    synchronize(LEGACY).unwrap();
    assert_eq!(out.bytes(), [4; PAGE]);
    // SAFETY: allocated above; nothing uses it any more.
    unsafe { result::memory_free(pointer) }.unwrap();
}
