//! Device memory.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use cudarc::driver::sys::{CUdeviceptr, CUmemoryPool, CUstream};
use warpio_core::{Error, ErrorKind, Result};

use crate::context::Context;
use crate::driver::{self, NOT_READY, OUT_OF_MEMORY, PoolProperties};
use crate::janitor;
use crate::probe::attribute_of;

/// How device memory is allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceAllocator {
    /// From a stream-ordered pool, where the device has them, so that allocating again what was freed costs a few
    /// microseconds and waits for no work. The default.
    #[default]
    Pool,
    /// Each allocation by itself (`cuMemAlloc`), which waits for the device and takes from tens of microseconds to
    /// milliseconds; for libraries that do not accept memory of a pool.
    Direct,
}

/// The device memory of one warpio device.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    context: Arc<Context>,
    pool: Option<Pool>,
}

/// A pool of our own: the device's default pool is shared with the rest of the process, which may rely on its limits.
#[derive(Debug)]
struct Pool {
    pool: CUmemoryPool,
    /// Carries allocations and frees, and nothing else: memory is freed when its uses have ended, so nothing here ever
    /// waits for work.
    stream: CUstream,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl DeviceMemory {
    /// Memory that the pool keeps up to `keep` bytes of when it is freed.
    pub(crate) fn new(context: &Arc<Context>, allocator: DeviceAllocator, keep: u64) -> Result<Self> {
        let has_pools = attribute_of(context.driver(), context.device()?, driver::ATTRIBUTE_MEMORY_POOLS)? != 0;
        let wanted = allocator == DeviceAllocator::Pool && has_pools;
        let pool = if wanted { Some(Pool::new(context, keep)?) } else { None };
        Ok(Self { context: context.clone(), pool })
    }

    pub(crate) fn alloc(&self, len: usize) -> Result<NonNull<u8>> {
        let _entered = self.context.enter()?;
        let address = match &self.pool {
            Some(pool) => pool.alloc(&self.context, len),
            None => self.alloc_direct(len),
        };
        let address = address.map_err(|error| self.explain(error, len))?;
        // A device address is a number; as a pointer it is passed on and never followed.
        NonNull::new(address as usize as *mut u8).ok_or_else(|| Error::new(ErrorKind::Device))
    }

    fn alloc_direct(&self, len: usize) -> Result<CUdeviceptr> {
        let mut address = 0;
        // SAFETY: a valid place for the result, and a current context.
        let code = unsafe { (self.context.driver().cuMemAlloc_v2)(&mut address, len) };
        self.context.check(code, "cuMemAlloc")?;
        Ok(address)
    }

    /// Says how much was asked for, and how much there is.
    fn explain(&self, error: Error, len: usize) -> Error {
        if error.kind() != ErrorKind::OutOfMemory {
            return error;
        }
        let device = self.context.id();
        error.with_message(match self.context.memory() {
            Ok((free, total)) => {
                format!("cannot allocate {len} bytes on {device}: {free} of its {total} bytes are free")
            }
            Err(_) => format!("cannot allocate {len} bytes on {device}"),
        })
    }

    /// Gives what the pool keeps back to the driver.
    pub(crate) fn trim(&self) -> Result<()> {
        let _entered = self.context.enter()?;
        // To ask whether the frees have run is not enough: only what was waited for counts as free.
        self.pool
            .as_ref()
            .map_or(Ok(()), |pool| pool.synchronize(&self.context).and_then(|()| pool.trim(&self.context)))
    }

    /// Frees memory without blocking.
    ///
    /// # Safety
    /// It came from [`alloc`](Self::alloc), and no unfinished work touches it.
    pub(crate) unsafe fn free(&self, ptr: NonNull<u8>) {
        let address = ptr.as_ptr() as CUdeviceptr;
        let context = self.context.clone();
        match &self.pool {
            // SAFETY: the caller's promise.
            Some(pool) => unsafe { pool.free(&context, address) },
            // This waits for all work of the device.
            None => janitor::later(move || {
                let freed = context.enter().and_then(|_entered| {
                    // SAFETY: the caller's promise; the context is current.
                    context.check(unsafe { (context.driver().cuMemFree_v2)(address) }, "cuMemFree")
                });
                report(freed);
            }),
        }
    }
}

impl Pool {
    fn new(context: &Arc<Context>, keep: u64) -> Result<Self> {
        let _entered = context.enter()?;
        let driver = context.driver();
        let properties = PoolProperties {
            allocation_type: 1,
            handle_types: 0,
            location_type: 1,
            location: context.device()?,
            security: null_mut(),
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        };
        let mut pool = null_mut();
        // SAFETY: a valid place for the result, and properties laid out as the driver expects.
        let code = unsafe { (driver.cuMemPoolCreate)(&mut pool, &properties) };
        context.check(code, "cuMemPoolCreate")?;
        let mut keep = keep;
        let threshold = (&raw mut keep).cast::<c_void>();
        // SAFETY: the attribute is a 64-bit number.
        let code = unsafe { (driver.cuMemPoolSetAttribute)(pool, driver::POOL_RELEASE_THRESHOLD, threshold) };
        let stream = context.check(code, "cuMemPoolSetAttribute").and_then(|()| context.take_stream());
        match stream {
            Ok(stream) => Ok(Self { pool, stream }),
            Err(error) => {
                // SAFETY: made above, and nothing was allocated from it.
                unsafe { (driver.cuMemPoolDestroy)(pool) };
                Err(error)
            }
        }
    }

    fn alloc(&self, context: &Context, len: usize) -> Result<CUdeviceptr> {
        let mut address = 0;
        // SAFETY: a valid place for the result; pool and stream live as long as this.
        let mut alloc =
            || unsafe { (context.driver().cuMemAllocFromPoolAsync)(&mut address, len, self.pool, self.stream) };
        let mut code = alloc();
        if code == OUT_OF_MEMORY {
            // What the pool keeps may be in the way, being in pieces.
            self.trim(context)?;
            code = alloc();
        }
        context.check(code, "cuMemAllocFromPoolAsync")?;
        self.settle(context)?;
        Ok(address)
    }

    fn trim(&self, context: &Context) -> Result<()> {
        // SAFETY: the pool is alive.
        context.check(unsafe { (context.driver().cuMemPoolTrimTo)(self.pool, 0) }, "cuMemPoolTrimTo")
    }

    /// Waits until what was allocated may be used on every stream, which it may already: see `stream`.
    fn settle(&self, context: &Context) -> Result<()> {
        // SAFETY: the stream is alive.
        match unsafe { (context.driver().cuStreamQuery)(self.stream) } {
            NOT_READY => self.synchronize(context),
            code => context.check(code, "cuStreamQuery"),
        }
    }

    /// Waits until every allocation and free has run.
    fn synchronize(&self, context: &Context) -> Result<()> {
        // SAFETY: the stream is alive.
        context.check(unsafe { (context.driver().cuStreamSynchronize)(self.stream) }, "cuStreamSynchronize")
    }

    /// # Safety
    /// As for [`DeviceMemory::free`].
    unsafe fn free(&self, context: &Context, address: CUdeviceptr) {
        let freed = context.enter().and_then(|_entered| {
            // SAFETY: the caller's promise.
            context.check(unsafe { (context.driver().cuMemFreeAsync)(address, self.stream) }, "cuMemFreeAsync")
        });
        report(freed);
    }
}

fn report(freed: Result<()>) {
    match freed {
        // The memory went with the context.
        Err(error) if error.kind() == ErrorKind::DeviceLost => tracing::debug!(%error, "device memory is not freed"),
        Err(error) => tracing::warn!(%error, "device memory cannot be freed"),
        Ok(()) => {}
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let Some(Pool { pool, stream }) = self.pool.take() else { return };
        let (context, pool, stream) = (self.context.clone(), pool as usize, stream as usize);
        janitor::later(move || {
            // A pool belongs to the device, and is to go with a lost context too.
            let _entered = context.enter();
            // SAFETY: all memory of the pool was freed, as every allocation holds its device.
            unsafe { (context.driver().cuMemPoolDestroy)(pool as CUmemoryPool) };
            context.give_stream(stream as CUstream);
        });
    }
}
