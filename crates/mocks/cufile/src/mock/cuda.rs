//! The software GPU, as this library finds it: by the name under which it was loaded.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

type Resolve = unsafe extern "C" fn(u64, usize) -> *mut c_void;
type GetCurrent = unsafe extern "C" fn(*mut u64) -> c_int;
type LaunchHostFunc = unsafe extern "C" fn(u64, unsafe extern "C" fn(*mut c_void), *mut c_void) -> c_int;

/// The functions that are used of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cuda {
    resolve: Resolve,
    current: GetCurrent,
    launch: LaunchHostFunc,
}

/// The software GPU, if the process has loaded it.
pub(crate) fn cuda() -> Option<Cuda> {
    static FOUND: OnceLock<Cuda> = OnceLock::new();
    // Not being there is not remembered: it may be loaded later.
    if let Some(found) = FOUND.get() {
        return Some(*found);
    }
    let found = find()?;
    Some(*FOUND.get_or_init(|| found))
}

fn find() -> Option<Cuda> {
    let library = [c"libcuda.so", c"libcuda.so.1"].into_iter().map(open).find(|library| !library.is_null())?;
    // SAFETY: the software GPU exports these functions with these signatures.
    unsafe {
        Some(Cuda {
            resolve: std::mem::transmute::<*mut c_void, Resolve>(symbol(library, c"mock_cuda_resolve")?),
            current: std::mem::transmute::<*mut c_void, GetCurrent>(symbol(library, c"cuCtxGetCurrent")?),
            launch: std::mem::transmute::<*mut c_void, LaunchHostFunc>(symbol(library, c"cuLaunchHostFunc")?),
        })
    }
}

fn open(name: &CStr) -> *mut c_void {
    // SAFETY: only asks for a library that is loaded already.
    unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) }
}

fn symbol(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the library is loaded, and never unloaded.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

impl Cuda {
    /// Where the CPU finds device memory; `None` if it is not all in one live allocation.
    pub(crate) fn resolve(&self, address: u64, len: usize) -> Option<*mut u8> {
        // SAFETY: any range may be asked for.
        let found = unsafe { (self.resolve)(address, len) };
        (!found.is_null()).then_some(found.cast())
    }

    /// Whether a context is current on this thread.
    pub(crate) fn has_context(&self) -> bool {
        let mut current = 0;
        // SAFETY: a valid place for the result.
        unsafe { (self.current)(&mut current) == 0 && current != 0 }
    }

    /// Enqueues a call on a stream.
    ///
    /// # Safety
    /// `function` may be called with `data` once, on another thread.
    pub(crate) unsafe fn launch(
        &self,
        stream: u64,
        function: unsafe extern "C" fn(*mut c_void),
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { (self.launch)(stream, function, data) }
    }
}
