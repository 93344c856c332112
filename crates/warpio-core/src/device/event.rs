use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Result;

/// How long a blocking wait spins before it sleeps: a copy of a few KiB takes less.
const SPIN: Duration = Duration::from_micros(20);
/// How long it sleeps between two looks.
const NAP: Duration = Duration::from_micros(50);

/// A point in a stream's work.
///
/// # Safety
/// `is_done` must not return `Ok(true)` while work submitted to the stream before the event still runs, and
/// `synchronize` must not return at all: with an error only where the context failed and none of it touches memory any
/// more. Memory is used again after that.
pub unsafe trait EventBackend: Any + fmt::Debug + Send + Sync {
    /// Whether everything before the event has finished. Never blocks.
    fn is_done(&self) -> Result<bool>;

    /// Blocks the calling thread until everything before the event has finished. By default it asks again and again.
    fn synchronize(&self) -> Result<()> {
        ask(self, None).map(drop)
    }
}

/// Asks until the event has happened or `patience` is over, and returns whether it has.
fn ask<E: EventBackend + ?Sized>(event: &E, patience: Option<Duration>) -> Result<bool> {
    let start = Instant::now();
    while !event.is_done()? {
        let waited = start.elapsed();
        if patience.is_some_and(|patience| waited >= patience) {
            return Ok(false);
        }
        match waited < SPIN {
            true => std::hint::spin_loop(),
            false => std::thread::sleep(NAP),
        }
    }
    Ok(true)
}

/// A recorded point in a [`DeviceStream`](super::DeviceStream)'s work. Cheap to clone.
#[derive(Clone, Debug)]
pub struct DeviceEvent(Arc<dyn EventBackend>);

impl DeviceEvent {
    /// Wraps a backend's event.
    pub fn new(backend: Arc<dyn EventBackend>) -> Self {
        Self(backend)
    }

    /// The backend's event.
    pub fn backend(&self) -> &Arc<dyn EventBackend> {
        &self.0
    }

    /// The same for all handles to one event, and for no other event meanwhile.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<()>() as usize
    }

    /// Whether everything before the event has finished. Never blocks.
    ///
    /// # Errors
    /// What the device reports for that work, such as a lost context.
    pub fn is_done(&self) -> Result<bool> {
        self.0.is_done()
    }

    /// Blocks the calling thread until everything before the event has finished: for engines' own threads, never
    /// for a tokio worker, which can [await](super::Device::wait) it.
    ///
    /// # Errors
    /// What the device reports for that work.
    pub fn synchronize(&self) -> Result<()> {
        self.0.synchronize()
    }

    /// As [`synchronize`](Self::synchronize), for as long as `patience`. Returns whether the event has happened.
    ///
    /// # Errors
    /// As for [`synchronize`](Self::synchronize).
    pub fn wait_for(&self, patience: Duration) -> Result<bool> {
        ask(&*self.0, Some(patience))
    }
}
