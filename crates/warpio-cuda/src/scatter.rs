//! Many small copies as one copy and one kernel: a copy of 4 KiB costs the driver 2.5 µs, and a kernel makes a hundred
//! million of them a second within the device.

use std::ffi::{CStr, c_uint, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use cudarc::driver::sys::{CUdeviceptr, CUfunction, CUmodule};
use warpio_core::{DeviceEvent, Result, ScatterRow, StreamBackend};

use crate::context::Context;
use crate::driver::{ATTRIBUTE_HOST_POINTERS, Table};
use crate::janitor;
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

/// From this many bytes on, table included, they are copied to the device first and spread there: the copy engine fills
/// the link, and the cores are not kept waiting for it. The kernel reads less from the host itself, which takes one call.
const STAGED: usize = 64 << 10;

/// The smallest scratch memory, which most slots fit in with their tables.
const LEAST: usize = 2 << 20;

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
        let behind = rows.as_ptr_range().end as usize;
        let span = behind.saturating_sub(src.as_ptr() as usize);
        // Held until the kernel is enqueued: the scratch memory is used by one after another, in the stream's order.
        let mut scratch = self.scratch();
        let staged = if span < STAGED { None } else { scratch.get(self.context(), span) };
        let Some(staged) = staged else {
            drop(scratch);
            // SAFETY: pinned memory has the same address for the GPU; it stays valid by the caller's promise.
            return unsafe { self.launch(kernel, dst, rows.as_ptr().cast(), src.as_ptr(), rows.len()) }.map(|()| true);
        };
        // SAFETY: the scratch memory has `span` bytes, which is what lies from `src` to the end of the rows.
        unsafe { self.copy_to_device(staged, src, span)? };
        let table = staged.as_ptr().wrapping_add(span - size_of_val(rows));
        // SAFETY: the scratch memory lives as long as the stream, and holds copies of the rows and of what they name.
        unsafe { self.launch(kernel, dst, table, staged.as_ptr(), rows.len())? };
        Ok(true)
    }

    /// # Safety
    /// The GPU can read `count` rows at `table` and what they name at `source`, and write their places at `target`,
    /// until the kernel has run.
    unsafe fn launch(
        &self,
        kernel: &Kernel,
        target: NonNull<u8>,
        table: *const u8,
        source: *const u8,
        count: usize,
    ) -> Result<()> {
        let blocks = count.min(BLOCKS) as c_uint;
        let (mut target, mut table, mut source, mut count) = (target.as_ptr(), table, source, count as u64);
        let mut arguments: [*mut c_void; 4] =
            [(&raw mut target).cast(), (&raw mut table).cast(), (&raw mut source).cast(), (&raw mut count).cast()];
        let arguments = arguments.as_mut_ptr();
        self.enqueue("cuLaunchKernel", |stream| {
            // SAFETY: four arguments of the types that the kernel has, read before the call returns.
            unsafe { (kernel.launch)(kernel.function, blocks, 1, 1, THREADS, 1, 1, 0, stream, arguments, null_mut()) }
        })
    }
}

/// Device memory of one stream, for what is spread by the next kernel on it.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// The last one is the largest. Those before may still be in use, and stay for as long as the stream.
    blocks: Vec<(CUdeviceptr, usize)>,
}

impl Scratch {
    /// At least `len` bytes. `None` where there are none; then it goes without.
    fn get(&mut self, context: &Context, len: usize) -> Option<NonNull<u8>> {
        if self.blocks.last().is_none_or(|&(_, have)| have < len) {
            let len = len.next_power_of_two().max(LEAST);
            let mut address = 0;
            let allocated = context.enter().and_then(|_entered| {
                // SAFETY: a valid place for the result, and a current context.
                let code = unsafe { (context.driver().cuMemAlloc_v2)(&mut address, len) };
                context.check(code, "cuMemAlloc")
            });
            if let Err(error) = allocated {
                tracing::debug!(%error, len, "small pieces are spread out of host memory");
                return None;
            }
            self.blocks.push((address, len));
        }
        self.blocks.last().and_then(|&(address, _)| NonNull::new(address as usize as *mut u8))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Frees it once `event`, behind all work that uses it, has happened: later, on another thread.
    pub(crate) fn free_after(self, context: &Arc<Context>, event: Result<DeviceEvent>) {
        let context = context.clone();
        janitor::later(move || {
            let ended = event.and_then(|event| event.synchronize());
            let freed = ended.and_then(|()| context.enter()).and_then(|_entered| {
                self.blocks.into_iter().try_for_each(|(address, _)| {
                    // SAFETY: allocated by `get`, and nothing uses it any more.
                    context.check(unsafe { (context.driver().cuMemFree_v2)(address) }, "cuMemFree")
                })
            });
            if let Err(error) = freed {
                // Of a lost context it went with that.
                tracing::debug!(%error, "scratch memory is not released");
            }
        });
    }
}
