use std::fmt;

use tokio::sync::Notify;

use crate::sync::{Arc, Mutex, lock};
use crate::{Error, Result};

/// What the writes through one sink came to: how many are under way, and why the first of those failed that did. A
/// sink asks it before it publishes, as whoever made a write may not have looked at its outcome. Cheap to clone; the
/// clones are one.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    failure: Option<Error>,
    closed: bool,
}

impl Ledger {
    /// Remembers a failure of something else than a write, such as of making the bytes durable.
    pub fn note(&self, error: &Error) {
        let mut state = lock(&self.0.state);
        if state.failure.is_none() {
            state.failure = Some(error.clone());
        }
    }

    /// Refuses further writes.
    pub fn close(&self) {
        lock(&self.0.state).closed = true;
    }

    /// Waits until no write is under way.
    ///
    /// # Errors
    /// The first error of a write that failed, was refused or was cancelled.
    pub async fn settle(&self) -> Result<()> {
        loop {
            // Enlisted before the look, so that the last write cannot end in between unheard.
            let mut ended = std::pin::pin!(self.0.ended.notified());
            ended.as_mut().enable();
            if let Some(result) = self.result() {
                return result;
            }
            ended.await;
        }
    }

    /// What the writes came to, if all have ended.
    fn result(&self) -> Option<Result<()>> {
        let state = lock(&self.0.state);
        (state.under_way == 0).then(|| state.failure.clone().map_or(Ok(()), Err))
    }

    /// A write begins, or something else that changes the sink. It is under way until the entry is dropped.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) once further writes are refused.
    pub fn begin(&self) -> Result<Entry> {
        let mut state = lock(&self.0.state);
        if state.closed {
            return Err(finished());
        }
        state.under_way += 1;
        Ok(Entry { ledger: self.clone() })
    }
}

/// Why a sink cannot be finished after an earlier failure.
pub fn unfinished(name: &str, first: Error) -> Error {
    Error::new(first.kind())
        .with_operation("finish")
        .with_source_name(name)
        .with_message("not finished, because an earlier write failed")
        .with_cause(first)
}

fn finished() -> Error {
    Error::invalid_input("the sink was finished already")
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ledger").field(&*lock(&self.0.state)).finish()
    }
}

/// A write that is under way, until this is dropped.
#[derive(Debug)]
#[must_use = "dropped, the write has ended"]
pub struct Entry {
    ledger: Ledger,
}

impl Entry {
    /// The write has failed.
    pub fn fail(&self, error: &Error) {
        self.ledger.note(error);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let last = {
            let mut state = lock(&self.ledger.0.state);
            state.under_way -= 1;
            state.under_way == 0
        };
        if last {
            self.ledger.0.ended.notify_waiters();
        }
    }
}
