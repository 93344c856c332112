use std::any::Any;
use std::ffi::c_int;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::CUevent;
use warpio_core::{DeviceEvent, EventBackend, Result};

use crate::context::Context;
use crate::driver::NOT_READY;

/// Where an event stands among those of one stream, which happen in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) stream: u64,
    pub(crate) number: u64,
    /// How much is copied between the event before and this one, in bytes.
    pub(crate) copied: usize,
}

/// A recorded event. Its handle is used again when it is dropped: the driver keeps what waits for the old record apart
/// from a new one.
pub(crate) struct Event {
    context: Arc<Context>,
    raw: CUevent,
    place: Option<Place>,
    /// It was seen to have happened, and need not be asked again.
    done: AtomicBool,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Records an event by `record`, which returns the driver's code; the inner error is that code. The caller has
    /// entered the context.
    pub(crate) fn record(
        context: &Arc<Context>,
        place: Option<Place>,
        record: impl FnOnce(CUevent) -> c_int,
    ) -> Result<Result<Self, c_int>> {
        let raw = context.take_event()?;
        let event = Self { context: context.clone(), raw, place, done: AtomicBool::new(false) };
        Ok(match record(raw) {
            0 => Ok(event),
            code => Err(code),
        })
    }

    /// The event behind a handle of the core, if it is one of CUDA.
    pub(crate) fn of(event: &DeviceEvent) -> Option<&Self> {
        (&**event.backend() as &dyn Any).downcast_ref()
    }

    pub(crate) fn raw(&self) -> CUevent {
        self.raw
    }

    pub(crate) fn place(&self) -> Option<Place> {
        self.place
    }

    pub(crate) fn into_device_event(self) -> DeviceEvent {
        DeviceEvent::new(Arc::new(self))
    }
}

// To wait by asking again and again burns less than the driver's own wait, which takes a core.
// SAFETY: the driver answers 0 only when all work ahead of the record has ended.
unsafe impl EventBackend for Event {
    fn is_done(&self) -> Result<bool> {
        if self.done.load(Ordering::Acquire) {
            return Ok(true);
        }
        self.context.check_usable()?;
        let _relaxed = self.context.relax();
        // SAFETY: the event lives until it is dropped; no context need be current.
        let code = unsafe { (self.context.driver().cuEventQuery)(self.raw) };
        if code == NOT_READY {
            return Ok(false);
        }
        self.context.check(code, "cuEventQuery")?;
        self.done.store(true, Ordering::Release);
        Ok(true)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.context.give_event(self.raw);
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = self.done.load(Ordering::Relaxed);
        f.debug_struct("Event").field("device", &self.context.id()).field("done", &done).finish_non_exhaustive()
    }
}
