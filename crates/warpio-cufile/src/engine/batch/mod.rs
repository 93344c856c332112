//! Batches: many small requests at once.
//!
//! One thread submits, because that may block for milliseconds, and one asks for events, because that is where the
//! library copies bytes in some modes. Both work on one batch of the library, which is replaced when it is lost: one
//! bad entry is enough for the library to forget all the others. Nothing is ever cancelled, as the library then sends
//! no events.

mod entry;
mod handle;
mod poll;
mod slab;
mod submit;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::shared::Shared;
use super::watch::Call;
use crate::error::CuFileError;
use entry::Entry;
use handle::BatchHandle;
use slab::Slab;

/// The state that the two threads share.
#[derive(Debug)]
pub(super) struct Batches {
    state: Mutex<State>,
    changed: Condvar,
    submitting: Call,
    polling: Call,
    /// Batches cannot be had, or a call for them hangs.
    out: AtomicBool,
    depth: usize,
}

#[derive(Debug)]
struct State {
    handle: Option<Arc<BatchHandle>>,
    entries: Slab<Entry>,
    /// The submitting thread is in the library.
    in_submit: bool,
    /// The batch is lost, and why.
    lost: Option<CuFileError>,
    closed: bool,
}

impl Batches {
    pub(super) fn new(depth: usize) -> Self {
        Self {
            state: Mutex::new(State {
                handle: None,
                entries: Slab::new(depth),
                in_submit: false,
                lost: None,
                closed: false,
            }),
            changed: Condvar::new(),
            submitting: Call::new(),
            polling: Call::new(),
            out: AtomicBool::new(false),
            depth,
        }
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn start(shared: &Arc<Shared>) -> std::io::Result<()> {
        let (submit, poll) = (shared.clone(), shared.clone());
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
        };
        spawn("warpio-cufile-s", Box::new(move || submit::run(&submit)))?;
        spawn("warpio-cufile-p", Box::new(move || poll::run(&poll))).inspect_err(|_| shared.batches.go_out())
    }

    /// Whether entries may be submitted.
    pub(super) fn work(&self) -> bool {
        !self.out.load(Ordering::Acquire)
    }

    fn go_out(&self) {
        self.out.store(true, Ordering::Release);
    }

    /// Whether a call hangs, and those that wait behind it are to go another way.
    pub(super) fn look(&self, stall: Duration) -> bool {
        let hangs = self.submitting.is_longer_than(stall) || self.polling.is_longer_than(stall);
        if hangs && !self.out.swap(true, Ordering::AcqRel) {
            tracing::warn!(?stall, "a call for a batch of cuFile hangs; requests go by calls of their own");
        }
        !self.work()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}
