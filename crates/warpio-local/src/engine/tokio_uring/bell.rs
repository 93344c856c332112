//! Waking the task that drives a ring.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use futures::task::AtomicWaker;

/// Wakes the task, from any thread.
#[derive(Debug, Default)]
pub(super) struct Bell(AtomicWaker);

impl Bell {
    pub(super) fn register(&self, waker: &Waker) {
        self.0.register(waker);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake();
    }
}

/// The operations that have finished since the task last looked. tokio-uring calls their wakers while its own state is
/// borrowed, so they do no more than this.
#[derive(Debug, Default)]
pub(super) struct Finished {
    tokens: Mutex<Vec<u32>>,
    bell: Arc<Bell>,
}

impl Finished {
    pub(super) fn new(bell: Arc<Bell>) -> Arc<Self> {
        Arc::new(Self { tokens: Mutex::default(), bell })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Exchanges the list for an empty one.
    pub(super) fn take(&self, tokens: &mut Vec<u32>) {
        std::mem::swap(tokens, &mut self.lock());
    }

    /// The waker of an operation.
    pub(super) fn waker(self: &Arc<Self>, token: u32) -> Waker {
        Arc::new(Operation { token, finished: self.clone() }).into()
    }
}

struct Operation {
    token: u32,
    finished: Arc<Finished>,
}

impl Wake for Operation {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let first = {
            let mut tokens = self.finished.lock();
            tokens.push(self.token);
            tokens.len() == 1
        };
        if first {
            self.finished.bell.wake_by_ref();
        }
    }
}
