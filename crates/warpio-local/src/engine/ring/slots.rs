//! Waiting for staging slots without blocking a ring thread.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use warpio_core::{Result, Slot, StagingPool};

use super::queue::{Queue, Work};

/// Segments for which no slot was free.
pub(super) struct Parking {
    parked: Vec<Parked>,
    bell: Arc<Bell>,
    waker: Waker,
}

struct Parked {
    work: Work,
    slot: Pin<Box<dyn Future<Output = Result<Slot>> + Send>>,
}

/// Remembers that a slot has come, and wakes the thread for it.
struct Bell {
    rung: AtomicBool,
    queue: Arc<Queue>,
    member: usize,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.queue.nudge(self.member);
    }
}

impl Parking {
    pub(super) fn new(queue: &Arc<Queue>, member: usize) -> Self {
        let bell = Arc::new(Bell { rung: AtomicBool::new(false), queue: queue.clone(), member });
        Self { parked: Vec::new(), waker: bell.clone().into(), bell }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parked.is_empty()
    }

    /// Whether [`arrived`](Self::arrived) may have something.
    pub(super) fn has_rung(&self) -> bool {
        self.bell.rung.load(Ordering::Acquire)
    }

    /// Waits for a slot of `len` bytes for `work`; returns both at once if one has come up.
    pub(super) fn wait(&mut self, work: Work, pool: StagingPool, len: usize) -> Option<(Work, Result<Slot>)> {
        let mut slot: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(async move { pool.acquire(len).await });
        match slot.as_mut().poll(&mut Context::from_waker(&self.waker)) {
            Poll::Ready(slot) => Some((work, slot)),
            Poll::Pending => {
                self.parked.push(Parked { work, slot });
                None
            }
        }
    }

    /// A segment whose slot has come.
    pub(super) fn arrived(&mut self) -> Option<(Work, Result<Slot>)> {
        // Cleared before the look, so that what comes during it rings again.
        if !self.bell.rung.swap(false, Ordering::AcqRel) {
            return None;
        }
        let mut cx = Context::from_waker(&self.waker);
        for at in 0..self.parked.len() {
            if let Poll::Ready(slot) = self.parked[at].slot.as_mut().poll(&mut cx) {
                // There may be more.
                self.bell.rung.store(true, Ordering::Release);
                return Some((self.parked.swap_remove(at).work, slot));
            }
        }
        None
    }
}
