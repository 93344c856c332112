use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::Result;

/// A point in a stream's work.
///
/// # Safety
/// `is_done` must not return `Ok(true)` while work submitted to the stream before the event still runs, and
/// `synchronize` must not return at all: with an error only where the context failed and none of it touches memory any
/// more. Memory is used again after that.
pub unsafe trait EventBackend: Any + fmt::Debug + Send + Sync {
    /// Whether everything before the event has finished. Never blocks.
    fn is_done(&self) -> Result<bool>;

    /// Blocks the calling thread until everything before the event has finished.
    fn synchronize(&self) -> Result<()>;
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
}
