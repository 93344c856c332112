//! For `LD_PRELOAD`: an empty `/proc/modules` for programs that open it by `fopen`, where the kernel has none.
//!
//! libcufile reads that file when its driver is opened, and looks for it for ever where it is missing.

use std::ffi::{CStr, c_char, c_void};

type Fopen = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut c_void;

/// Calls the next `fopen` of this name, with another path for this one file.
///
/// # Safety
/// As for `fopen`.
unsafe fn open(name: &CStr, path: *const c_char, mode: *const c_char) -> *mut c_void {
    // SAFETY: the C library has a function of this name and signature.
    let next = unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        std::mem::transmute::<*mut c_void, Option<Fopen>>(next)
    };
    let Some(next) = next else { return std::ptr::null_mut() };
    // SAFETY: the caller's promise.
    let is_modules = !path.is_null() && unsafe { CStr::from_ptr(path) } == c"/proc/modules";
    let path = if is_modules { c"/dev/null".as_ptr() } else { path };
    // SAFETY: the caller's promise.
    unsafe { next(path, mode) }
}

/// # Safety
/// As for `fopen` of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { open(c"fopen", path, mode) }
}

/// # Safety
/// As for `fopen64` of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { open(c"fopen64", path, mode) }
}
