use std::any::Any;
use std::ptr::NonNull;
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::CudaContext;
use warpio_core::{Device, DeviceBackend, DeviceEvent, DeviceId, DeviceStream, Error, PoolConfig, Result, WatchDone};

use crate::context::{Context, Relaxed};
use crate::driver::{CudaError, Driver};
use crate::earlier::earlier_work;
use crate::janitor;
use crate::memory::{DeviceAllocator, DeviceMemory};
use crate::pin;
use crate::probe::{device_at, pci_bus_id};
use crate::reactor::Reactor;
use crate::staging::Staging;
use crate::stream::Stream;
use crate::sysfs;

/// How a CUDA device is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaOptions {
    /// The pinned staging memory.
    pub pool: PoolConfig,
    /// How device memory is allocated.
    pub allocator: DeviceAllocator,
    /// How many bytes of freed device memory the pool keeps for later allocations, instead of giving them back to the
    /// driver at its next synchronisation. Default: all, as mapping memory anew costs milliseconds per GiB. When an
    /// allocation does not fit, what is kept is given back first; see also
    /// [`release_freed`](CudaDeviceExt::release_freed).
    pub keep_freed: u64,
}

impl Default for CudaOptions {
    fn default() -> Self {
        Self { pool: PoolConfig::default(), allocator: DeviceAllocator::default(), keep_freed: u64::MAX }
    }
}

/// The device with this number, in its primary context, which it shares with the CUDA runtime, PyTorch and cudarc.
///
/// ```no_run
/// use warpio_cuda::{CudaOptions, cuda_device};
///
/// let device = cuda_device(0, CudaOptions::default())?;
/// let buffer = device.alloc(1 << 20)?;
/// # Ok::<(), warpio_core::Error>(())
/// ```
///
/// # Errors
/// [`NoDevice`](warpio_core::ErrorKind::NoDevice) if CUDA is [not available](crate::probe()) or there is no such
/// device; what the driver reports.
pub fn cuda_device(ordinal: u32, options: CudaOptions) -> Result<Device> {
    let driver = Driver::get()?;
    device_at(driver, ordinal)?;
    from_context(primary_context(driver, ordinal)?, options)
}

/// A device in a context of the caller's, whether primary or not. It lives at least as long as the device.
///
/// # Errors
/// What the driver reports.
pub fn from_context(context: Arc<CudaContext>, options: CudaOptions) -> Result<Device> {
    let driver = Driver::get()?;
    options.pool.validate()?;
    janitor::start()?;
    let context = Context::new(driver, context)?;
    let bus = pci_bus_id(driver, context.device()?)?;
    let node = sysfs::numa_node(&bus).filter(|_| sysfs::numa_nodes() > 1);
    let backend = CudaBackend {
        memory: DeviceMemory::new(&context, options.allocator, options.keep_freed)?,
        staging: Staging::new(&context, node),
        reactor: Reactor::start(&context)?,
        context,
    };
    Ok(Device::new(Arc::new(backend), options.pool))
}

/// cudarc's object for a primary context, made without changing what is current on this thread.
fn primary_context(driver: &'static Driver, ordinal: u32) -> Result<Arc<CudaContext>> {
    let _relaxed = Relaxed::new(driver);
    let mut before = null_mut();
    // SAFETY: a valid place for the result.
    let code = unsafe { (driver.cuCtxGetCurrent)(&mut before) };
    driver.check(code, "cuCtxGetCurrent").map_err(CudaError::into_error)?;
    let context = CudaContext::new(ordinal as usize);
    // SAFETY: what was current, or null for nothing.
    let code = unsafe { (driver.cuCtxSetCurrent)(before) };
    let context = context.map_err(|error| driver.error(error.0 as i32, "cuDevicePrimaryCtxRetain").into_error())?;
    driver.check(code, "cuCtxSetCurrent").map_err(CudaError::into_error)?;
    Ok(context)
}

/// What only CUDA devices have. Implemented by [`Device`].
pub trait CudaDeviceExt {
    /// The context, for cudarc.
    ///
    /// # Errors
    /// [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) for a device of another kind.
    fn cuda_context(&self) -> Result<&Arc<CudaContext>>;

    /// Free and total device memory, in bytes. What the device's pool keeps for later counts as used.
    ///
    /// # Errors
    /// As for [`cuda_context`](Self::cuda_context), and what the driver reports.
    fn memory(&self) -> Result<(usize, usize)>;

    /// Makes the context current for the rest of the calling thread, which must be one of the caller's own, and lets it
    /// make calls that are forbidden while other threads capture graphs. For engines whose library uses the current
    /// context.
    ///
    /// # Errors
    /// As for [`cuda_context`](Self::cuda_context), and what the driver reports.
    fn adopt_thread(&self) -> Result<()>;

    /// What `call` returns, made with the context current. What was current before is current again afterwards.
    ///
    /// # Errors
    /// As for [`adopt_thread`](Self::adopt_thread).
    fn in_context<T>(&self, call: impl FnOnce() -> T) -> Result<T>;

    /// Gives freed device memory that the pool keeps back to the driver, for others to allocate.
    ///
    /// # Errors
    /// As for [`memory`](Self::memory).
    fn release_freed(&self) -> Result<()>;
}

impl CudaDeviceExt for Device {
    fn cuda_context(&self) -> Result<&Arc<CudaContext>> {
        context_of(self)?.cudarc()
    }

    fn memory(&self) -> Result<(usize, usize)> {
        context_of(self)?.memory()
    }

    fn adopt_thread(&self) -> Result<()> {
        let context = context_of(self)?;
        context.check_usable()?;
        context.adopt_thread()
    }

    fn in_context<T>(&self, call: impl FnOnce() -> T) -> Result<T> {
        let _entered = context_of(self)?.enter()?;
        Ok(call())
    }

    fn release_freed(&self) -> Result<()> {
        backend_of(self)?.memory.trim()
    }
}

/// The context of a CUDA device.
pub(crate) fn context_of(device: &Device) -> Result<&Arc<Context>> {
    backend_of(device).map(|backend| &backend.context)
}

fn backend_of(device: &Device) -> Result<&CudaBackend> {
    let backend: &dyn Any = &**device.backend();
    backend.downcast_ref().ok_or_else(|| Error::invalid_input(format!("{device} is not a CUDA device")))
}

/// A CUDA device, as the core sees it.
#[derive(Debug)]
struct CudaBackend {
    context: Arc<Context>,
    memory: DeviceMemory,
    staging: Staging,
    reactor: Reactor,
}

// SAFETY: memory lives until it is freed, and frees run behind everything that the context still does with it; the
// reactor reports an event when the driver does, or when the context is lost and does nothing any more.
unsafe impl DeviceBackend for CudaBackend {
    fn id(&self) -> DeviceId {
        self.context.id()
    }

    fn host_visible(&self) -> bool {
        false
    }

    fn alloc(&self, len: usize) -> Result<NonNull<u8>> {
        self.memory.alloc(len)
    }

    unsafe fn free(&self, ptr: NonNull<u8>, _len: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.memory.free(ptr) }
    }

    fn alloc_staging(&self, len: usize) -> Result<NonNull<u8>> {
        self.staging.alloc(len)
    }

    unsafe fn free_staging(&self, ptr: NonNull<u8>, _len: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.staging.free(ptr) }
    }

    unsafe fn pin(&self, ptr: NonNull<u8>, len: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { pin::pin(&self.context, ptr, len) }
    }

    unsafe fn unpin(&self, ptr: NonNull<u8>, keep: Box<dyn Any + Send>) {
        // SAFETY: the caller's promise.
        unsafe { pin::unpin(&self.context, ptr, keep) }
    }

    fn new_stream(&self) -> Result<DeviceStream> {
        Stream::new(&self.context).map(Stream::into_device_stream)
    }

    fn earlier_work(&self) -> Result<DeviceEvent> {
        earlier_work(&self.context)
    }

    fn watch(&self, event: DeviceEvent, done: WatchDone) {
        self.reactor.watch(event, done);
    }
}
