use std::cell::Cell;
use std::ffi::c_int;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cudarc::driver::CudaContext;
use cudarc::driver::sys::{CUcontext, CUdevice, CUevent, CUstream};
use warpio_core::{DeviceId, Error, ErrorKind, Result};

use crate::driver::{self, CudaError, Driver, is_sticky};
use crate::janitor;
use crate::scatter::Kernel;

/// Streams kept for reuse: more than the workers of a runtime have.
const SPARE_STREAMS: usize = 64;
/// Events kept for reuse: more than are in flight with a full staging pool.
const SPARE_EVENTS: usize = 4096;

/// A CUDA context, with the handles that are kept for reuse in it.
pub(crate) struct Context {
    driver: &'static Driver,
    /// `None` only while it is dropped.
    cudarc: Option<Arc<CudaContext>>,
    raw: CUcontext,
    id: DeviceId,
    /// The error that ended the context.
    lost: OnceLock<Error>,
    events: Mutex<Vec<CUevent>>,
    streams: Mutex<Vec<CUstream>>,
    scatter: OnceLock<Option<Kernel>>,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

thread_local! {
    /// This thread belongs to the crate: its context and its capture mode were set once.
    static OWN: Cell<bool> = const { Cell::new(false) };
}

impl Context {
    pub(crate) fn new(driver: &'static Driver, cudarc: Arc<CudaContext>) -> Result<Arc<Self>> {
        let raw = cudarc.cu_ctx();
        let mut number = 0;
        // SAFETY: a valid place for the result; cudarc's object keeps the context alive.
        let code = unsafe { (driver.cuCtxGetId)(raw, &mut number) };
        driver.check(code, "cuCtxGetId").map_err(CudaError::into_error)?;
        let id = DeviceId { kind: "cuda", ordinal: cudarc.ordinal() as u32, context: number };
        Ok(Arc::new(Self {
            driver,
            cudarc: Some(cudarc),
            raw,
            id,
            lost: OnceLock::new(),
            events: Mutex::default(),
            streams: Mutex::default(),
            scatter: OnceLock::new(),
        }))
    }

    pub(crate) fn driver(&self) -> &'static Driver {
        self.driver
    }

    pub(crate) fn id(&self) -> DeviceId {
        self.id
    }

    pub(crate) fn raw(&self) -> CUcontext {
        self.raw
    }

    pub(crate) fn cudarc(&self) -> Result<&Arc<CudaContext>> {
        self.cudarc.as_ref().ok_or_else(|| Error::new(ErrorKind::Gone))
    }

    pub(crate) fn device(&self) -> Result<CUdevice> {
        Ok(self.cudarc()?.cu_device())
    }

    /// Success, or the error that `code` means.
    pub(crate) fn check(&self, code: c_int, call: &'static str) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.fail(code, call)) }
    }

    /// The error that `code` means. One after which nothing works marks the context as lost.
    pub(crate) fn fail(&self, code: c_int, call: &'static str) -> Error {
        let error = self.driver.error(code, call).into_error();
        if !is_sticky(code) {
            return error;
        }
        let first = self.lost.get_or_init(|| {
            tracing::error!(%error, device = %self.id, "the device context is lost");
            error
        });
        first.clone()
    }

    /// Fails if nothing can be done with the context any more, here or at all.
    pub(crate) fn check_usable(&self) -> Result<()> {
        self.driver.check_process()?;
        self.lost.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Makes the context current on this thread for as long as the guard lives. Potentially unsafe calls are allowed
    /// meanwhile although some thread captures a graph: none of ours touches what it captures.
    pub(crate) fn enter(&self) -> Result<Entered> {
        self.check_usable()?;
        let relaxed = self.relax();
        let mut current = null_mut();
        // SAFETY: a valid place for the result.
        let code = unsafe { (self.driver.cuCtxGetCurrent)(&mut current) };
        self.check(code, "cuCtxGetCurrent")?;
        let pushed = current != self.raw;
        if pushed {
            // SAFETY: the context is alive; the guard pops it from this thread's stack.
            let code = unsafe { (self.driver.cuCtxPushCurrent_v2)(self.raw) };
            self.check(code, "cuCtxPushCurrent")?;
        }
        Ok(Entered { driver: self.driver, pushed, _relaxed: relaxed })
    }

    /// Lets this thread make potentially unsafe calls while another one captures a graph, until the guard is dropped.
    pub(crate) fn relax(&self) -> Relaxed {
        Relaxed::new(self.driver)
    }

    /// Makes the context current for the rest of a thread of ours.
    pub(crate) fn adopt_thread(&self) -> Result<()> {
        // SAFETY: the context is alive.
        let code = unsafe { (self.driver.cuCtxSetCurrent)(self.raw) };
        self.check(code, "cuCtxSetCurrent")?;
        exchange_capture_mode(self.driver, driver::CAPTURE_MODE_RELAXED);
        OWN.set(true);
        Ok(())
    }

    /// The kernel that copies many small pieces, loaded at the first call.
    pub(crate) fn scatter_kernel(&self) -> Option<&Kernel> {
        self.scatter.get_or_init(|| Kernel::load(self)).as_ref()
    }

    /// Free and total device memory, in bytes.
    pub(crate) fn memory(&self) -> Result<(usize, usize)> {
        let _entered = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: valid places for the results.
        let code = unsafe { (self.driver.cuMemGetInfo_v2)(&mut free, &mut total) };
        self.check(code, "cuMemGetInfo")?;
        Ok((free, total))
    }

    /// An event that is not recorded, or whose record no longer matters to anybody.
    pub(crate) fn take_event(&self) -> Result<CUevent> {
        if let Some(event) = lock(&self.events).pop() {
            return Ok(event);
        }
        let mut event = null_mut();
        // SAFETY: a valid place for the result; the caller has entered the context.
        let code = unsafe { (self.driver.cuEventCreate)(&mut event, driver::EVENT_DISABLE_TIMING) };
        self.check(code, "cuEventCreate")?;
        Ok(event)
    }

    pub(crate) fn give_event(self: &Arc<Self>, event: CUevent) {
        let mut spare = lock(&self.events);
        if spare.len() < SPARE_EVENTS {
            return spare.push(event);
        }
        drop(spare);
        let (context, event) = (self.clone(), event as usize);
        // SAFETY: the event belongs to nobody any more.
        janitor::later(move || unsafe { destroy(context.driver.cuEventDestroy_v2, event as CUevent) });
    }

    /// A stream without work.
    pub(crate) fn take_stream(&self) -> Result<CUstream> {
        if let Some(stream) = lock(&self.streams).pop() {
            return Ok(stream);
        }
        let mut stream = null_mut();
        // SAFETY: a valid place for the result; the caller has entered the context.
        let code = unsafe { (self.driver.cuStreamCreate)(&mut stream, driver::STREAM_NON_BLOCKING) };
        self.check(code, "cuStreamCreate")?;
        Ok(stream)
    }

    /// Keeps a stream for reuse if its work is done; else it is destroyed, which lets the work run out.
    pub(crate) fn give_stream(self: &Arc<Self>, stream: CUstream) {
        // SAFETY: the stream belongs to the caller.
        let idle = self.enter().is_ok_and(|_entered| unsafe { (self.driver.cuStreamQuery)(stream) == 0 });
        let mut spare = lock(&self.streams);
        if idle && spare.len() < SPARE_STREAMS {
            return spare.push(stream);
        }
        drop(spare);
        let (context, stream) = (self.clone(), stream as usize);
        // SAFETY: the stream belongs to nobody any more.
        janitor::later(move || unsafe { destroy(context.driver.cuStreamDestroy_v2, stream as CUstream) });
    }
}

/// # Safety
/// `handle` is what `function` destroys, and nobody uses it any more.
unsafe fn destroy<T>(function: unsafe extern "C" fn(*mut T) -> c_int, handle: *mut T) {
    // The code does not matter: of a lost context nothing can be destroyed.
    // SAFETY: the caller's promise.
    unsafe { function(handle) };
}

impl Drop for Context {
    fn drop(&mut self) {
        let (driver, raw) = (self.driver, self.raw as usize);
        let (events, streams) = (addresses(&self.events), addresses(&self.streams));
        let cudarc = self.cudarc.take();
        // Releasing the last reference to a context takes long, and cudarc changes what is current meanwhile.
        janitor::later(move || {
            // SAFETY: cudarc's object still holds the context, whose spare handles nobody uses.
            unsafe {
                (driver.cuCtxSetCurrent)(raw as CUcontext);
                events.into_iter().for_each(|event| destroy(driver.cuEventDestroy_v2, event as CUevent));
                streams.into_iter().for_each(|stream| destroy(driver.cuStreamDestroy_v2, stream as CUstream));
            }
            drop(cudarc);
        });
    }
}

/// Handles as numbers, which may change threads.
fn addresses<T>(handles: &Mutex<Vec<*mut T>>) -> Vec<usize> {
    std::mem::take(&mut *lock(handles)).into_iter().map(|handle| handle as usize).collect()
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("id", &self.id).field("lost", &self.lost.get()).finish_non_exhaustive()
    }
}

fn exchange_capture_mode(driver: &Driver, mut mode: c_int) -> c_int {
    // SAFETY: a valid place that holds a mode. The call only fails for a mode that does not exist.
    unsafe { (driver.cuThreadExchangeStreamCaptureMode)(&mut mode) };
    mode
}

/// See [`Context::relax`]. It stays on its thread.
pub(crate) struct Relaxed {
    driver: &'static Driver,
    /// The mode to return to.
    before: Option<c_int>,
    _thread: PhantomData<*const ()>,
}

impl Relaxed {
    pub(crate) fn new(driver: &'static Driver) -> Self {
        let before = (!OWN.get()).then(|| exchange_capture_mode(driver, driver::CAPTURE_MODE_RELAXED));
        Self { driver, before, _thread: PhantomData }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        if let Some(mode) = self.before {
            exchange_capture_mode(self.driver, mode);
        }
    }
}

/// See [`Context::enter`]. It stays on its thread.
pub(crate) struct Entered {
    driver: &'static Driver,
    pushed: bool,
    _relaxed: Relaxed,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.pushed {
            // SAFETY: the driver accepts null, as nobody wants to know what was popped.
            unsafe { (self.driver.cuCtxPopCurrent_v2)(null_mut()) };
        }
    }
}

/// Locks, and goes on with the data of a lock whose holder panicked: what is locked here is valid between statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
