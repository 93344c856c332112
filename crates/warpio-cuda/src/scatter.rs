//! Many small copies as one kernel, which reads pinned host memory itself: a copy of 4 KiB costs the driver 2.5 µs, and a
//! kernel moves 11 million of them a second.

use std::ffi::{CStr, c_uint, c_void};
use std::ptr::{NonNull, null_mut};

use cudarc::driver::sys::{CUfunction, CUmodule};
use warpio_core::{Result, ScatterRow};

use crate::context::Context;
use crate::driver::{ATTRIBUTE_HOST_POINTERS, Table};
use crate::stream::Stream;

/// Made for the oldest GPUs that CUDA 13 knows, and translated by the driver.
const PTX: &CStr = match CStr::from_bytes_with_nul(concat!(include_str!("kernels/scatter.ptx"), "\0").as_bytes()) {
    Ok(text) => text,
    Err(_) => panic!("the PTX has a zero byte"),
};

/// Fewer copies than this are made one by one.
const FEW: usize = 4;

/// Copies of this many bytes in the mean are made one by one: copy engines are as fast with them, and leave the GPU's
/// cores alone.
const LONG: u64 = 128 << 10;

/// Blocks of a launch, each of which takes row after row, and threads of a block: one pass of 16 bytes each is 4 KiB.
const BLOCKS: usize = 1024;
const THREADS: c_uint = 256;

/// The kernel, loaded into a context.
pub(crate) struct Kernel {
    function: CUfunction,
    launch: Launch,
}

type Launch = unsafe extern "C" fn(
    CUfunction,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    cudarc::driver::sys::CUstream,
    *mut *mut c_void,
    *mut *mut c_void,
) -> std::ffi::c_int;

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Kernel {
    /// Loads it. `None`, with the reason in the log, where the driver or the GPU cannot: copies are made one by one then.
    /// It is unloaded with its context.
    pub(crate) fn load(context: &Context) -> Option<Self> {
        match Self::try_load(context) {
            Ok(kernel) => kernel,
            Err(error) => {
                tracing::debug!(%error, device = %context.id(), "small pieces are copied one by one");
                None
            }
        }
    }

    fn try_load(context: &Context) -> Result<Option<Self>> {
        let driver = context.driver();
        let Table {
            cuModuleLoadData: Some(load), cuModuleGetFunction: Some(find), cuLaunchKernel: Some(launch), ..
        } = **driver
        else {
            return Ok(None);
        };
        let _entered = context.enter()?;
        let mut same = 0;
        // SAFETY: a valid place for the result.
        let code = unsafe { (driver.cuDeviceGetAttribute)(&mut same, ATTRIBUTE_HOST_POINTERS, context.device()?) };
        context.check(code, "cuDeviceGetAttribute")?;
        if same == 0 {
            return Ok(None);
        }
        let (mut module, mut function): (CUmodule, CUfunction) = (null_mut(), null_mut());
        // SAFETY: a valid place for the result; the text ends with a zero byte.
        let code = unsafe { load(&mut module, PTX.as_ptr().cast()) };
        context.check(code, "cuModuleLoadData")?;
        // SAFETY: as above; the module was just loaded, and is never unloaded.
        let code = unsafe { find(&mut function, module, c"warpio_scatter".as_ptr()) };
        context.check(code, "cuModuleGetFunction")?;
        Ok(Some(Self { function, launch }))
    }
}

impl Stream {
    /// Enqueues the copies of `rows` as one kernel, if that is the faster way. Returns whether it was.
    ///
    /// # Safety
    /// As for [`scatter`](warpio_core::StreamBackend::scatter).
    pub(crate) unsafe fn launch_scatter(
        &self,
        dst: NonNull<u8>,
        src: NonNull<u8>,
        rows: &[ScatterRow],
    ) -> Result<bool> {
        let total: u64 = rows.iter().map(|row| row.len).sum();
        if rows.len() < FEW || total / rows.len() as u64 >= LONG {
            return Ok(false);
        }
        let Some(kernel) = self.context().scatter_kernel() else { return Ok(false) };
        let (mut target, mut table, mut source) = (dst.as_ptr(), rows.as_ptr(), src.as_ptr());
        let mut count = rows.len() as u64;
        let mut arguments: [*mut c_void; 4] =
            [(&raw mut target).cast(), (&raw mut table).cast(), (&raw mut source).cast(), (&raw mut count).cast()];
        let blocks = rows.len().min(BLOCKS) as c_uint;
        let arguments = arguments.as_mut_ptr();
        self.enqueue("cuLaunchKernel", |stream| {
            // SAFETY: four arguments of the types that the kernel has, read before the call returns. What they point to
            // is pinned, thus at the same address for the GPU, and stays valid by the caller's promise.
            unsafe { (kernel.launch)(kernel.function, blocks, 1, 1, THREADS, 1, 1, 0, stream, arguments, null_mut()) }
        })?;
        Ok(true)
    }
}
