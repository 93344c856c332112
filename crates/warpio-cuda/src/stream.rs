use std::any::Any;
use std::ffi::c_int;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use cudarc::driver::sys::CUstream;
use warpio_core::{DeviceEvent, DeviceId, DeviceStream, Error, Result, ScatterRow, StreamBackend};

use crate::context::{Context, lock};
use crate::driver::{CAPTURE_IMPLICIT, CAPTURE_STATUS_NONE};
use crate::event::{Event, Place};
use crate::janitor;
use crate::scatter::Scratch;

/// Whose a stream is.
pub(crate) enum Origin {
    /// Made here. Nobody else has the handle, so nobody captures it.
    Own,
    /// cudarc's object, or whatever else keeps the stream alive.
    Foreign(Option<Box<dyn Any + Send + Sync>>),
}

/// A stream, as the core sees it.
pub(crate) struct Stream {
    context: Arc<Context>,
    raw: CUstream,
    origin: Origin,
    /// Tells streams apart, and their events. Handles are used again, numbers are not.
    number: u64,
    events: AtomicU64,
    /// Bytes of copies enqueued since the last event.
    copied: AtomicUsize,
    scratch: Mutex<Scratch>,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    fn wrap(context: &Arc<Context>, raw: CUstream, origin: Origin) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (events, copied) = (AtomicU64::new(0), AtomicUsize::new(0));
        Self { context: context.clone(), raw, origin, number, events, copied, scratch: Mutex::default() }
    }

    /// A stream of our own.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self> {
        let _entered = context.enter()?;
        Ok(Self::wrap(context, context.take_stream()?, Origin::Own))
    }

    /// A stream that something else made and keeps alive until `owner` is dropped.
    ///
    /// # Errors
    /// [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) for a stream of another context.
    ///
    /// # Safety
    /// `raw` is a stream that lives until `owner` is dropped.
    pub(crate) unsafe fn foreign(context: &Arc<Context>, raw: CUstream, owner: impl Any + Send + Sync) -> Result<Self> {
        let _entered = context.enter()?;
        let mut of = std::ptr::null_mut();
        // SAFETY: a valid place for the result; the stream is alive.
        let code = unsafe { (context.driver().cuStreamGetCtx)(raw, &mut of) };
        context.check(code, "cuStreamGetCtx")?;
        if of != context.raw() {
            return Err(Error::invalid_input(format!("the stream does not belong to the context of {}", context.id())));
        }
        Ok(Self::wrap(context, raw, Origin::Foreign(Some(Box::new(owner)))))
    }

    /// The stream behind a handle of the core, if it is one of CUDA.
    pub(crate) fn of(stream: &DeviceStream) -> Option<&Self> {
        (&**stream.backend() as &dyn Any).downcast_ref()
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.raw
    }

    pub(crate) fn scratch(&self) -> MutexGuard<'_, Scratch> {
        lock(&self.scratch)
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn into_device_stream(self) -> DeviceStream {
        DeviceStream::new(Arc::new(self))
    }

    /// Refuses a stream that records a graph: what is enqueued would run later, and again, or never.
    pub(crate) fn check_not_capturing(&self) -> Result<()> {
        if matches!(self.origin, Origin::Own) || !self.is_capturing()? {
            return Ok(());
        }
        Err(Error::invalid_input("the stream is being captured into a graph, and copies of warpio cannot be captured"))
    }

    /// Enqueues what `call` does with the stream.
    pub(crate) fn enqueue(&self, name: &'static str, call: impl FnOnce(CUstream) -> c_int) -> Result<()> {
        let _entered = self.context.enter()?;
        self.check_not_capturing()?;
        self.context.check(call(self.raw), name)
    }

    /// Blocks until the stream's work has ended.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let wait = self.context.driver().cuStreamSynchronize;
        // SAFETY: the stream is alive.
        self.enqueue("cuStreamSynchronize", |stream| unsafe { wait(stream) })
    }
}

fn address(ptr: NonNull<u8>) -> u64 {
    ptr.as_ptr() as u64
}

// SAFETY: a stream's work runs in order, and its events happen in that order.
unsafe impl StreamBackend for Stream {
    fn device_id(&self) -> DeviceId {
        self.context.id()
    }

    unsafe fn copy_to_device(&self, dst: NonNull<u8>, src: NonNull<u8>, len: usize) -> Result<()> {
        let copy = self.context.driver().cuMemcpyHtoDAsync_v2;
        self.copied.fetch_add(len, Ordering::Relaxed);
        // SAFETY: both sides are valid until an event behind the copy is done, by the caller's promise.
        self.enqueue("cuMemcpyHtoDAsync", |stream| unsafe { copy(address(dst), src.as_ptr().cast(), len, stream) })
    }

    unsafe fn copy_to_host(&self, dst: NonNull<u8>, src: NonNull<u8>, len: usize) -> Result<()> {
        let copy = self.context.driver().cuMemcpyDtoHAsync_v2;
        self.copied.fetch_add(len, Ordering::Relaxed);
        // SAFETY: as above.
        self.enqueue("cuMemcpyDtoHAsync", |stream| unsafe { copy(dst.as_ptr().cast(), address(src), len, stream) })
    }

    unsafe fn copy_on_device(&self, dst: NonNull<u8>, src: NonNull<u8>, len: usize) -> Result<()> {
        let copy = self.context.driver().cuMemcpyDtoDAsync_v2;
        // SAFETY: as above.
        self.enqueue("cuMemcpyDtoDAsync", |stream| unsafe { copy(address(dst), address(src), len, stream) })
    }

    unsafe fn scatter(&self, dst: NonNull<u8>, src: NonNull<u8>, rows: &[ScatterRow]) -> Result<()> {
        // SAFETY: the caller's promise.
        if unsafe { self.launch_scatter(dst, src, rows) }? {
            return Ok(());
        }
        rows.iter().try_for_each(|row| {
            // SAFETY: the caller vouches for both sides of each row.
            unsafe { self.copy_to_device(row.destination(dst), src.add(row.from as usize), row.len as usize) }
        })
    }

    fn record(&self) -> Result<DeviceEvent> {
        let _entered = self.context.enter()?;
        self.check_not_capturing()?;
        let record = self.context.driver().cuEventRecord;
        let (number, copied) = (self.events.fetch_add(1, Ordering::Relaxed), self.copied.swap(0, Ordering::Relaxed));
        let place = Place { stream: self.number, number, copied };
        // SAFETY: event and stream are alive and belong to the same context.
        let event = Event::record(&self.context, Some(place), |event| unsafe { record(event, self.raw) })?;
        event.map(Event::into_device_event).map_err(|code| self.context.fail(code, "cuEventRecord"))
    }

    fn wait(&self, event: &DeviceEvent) -> Result<()> {
        if event.is_done()? {
            return Ok(());
        }
        let Some(event) = Event::of(event) else {
            return Err(Error::unsupported(
                "a CUDA stream can wait for events of CUDA streams only; wait for this one on the host",
            ));
        };
        let wait = self.context.driver().cuStreamWaitEvent;
        // SAFETY: event and stream are alive; the event may belong to another context.
        self.enqueue("cuStreamWaitEvent", |stream| unsafe { wait(stream, event.raw(), 0) })
    }

    fn is_capturing(&self) -> Result<bool> {
        let _entered = self.context.enter()?;
        let mut status = CAPTURE_STATUS_NONE;
        // SAFETY: a valid place for the result; the stream is alive.
        let code = unsafe { (self.context.driver().cuStreamIsCapturing)(self.raw, &mut status) };
        if code == CAPTURE_IMPLICIT {
            // The legacy stream cannot be used while a stream that synchronises with it is captured.
            return Ok(true);
        }
        self.context.check(code, "cuStreamIsCapturing")?;
        Ok(status != CAPTURE_STATUS_NONE)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let scratch = std::mem::take(&mut *lock(&self.scratch));
        if !scratch.is_empty() {
            scratch.free_after(&self.context, self.record());
        }
        match &mut self.origin {
            Origin::Own => self.context.give_stream(self.raw),
            // Destroying cudarc's stream may take long and changes what is current.
            Origin::Foreign(owner) => janitor::later({
                let owner = owner.take();
                move || drop(owner)
            }),
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = matches!(self.origin, Origin::Own);
        f.debug_struct("Stream")
            .field("device", &self.context.id())
            .field("number", &self.number)
            .field("own", &own)
            .finish_non_exhaustive()
    }
}
