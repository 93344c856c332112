use std::fmt;
use std::task::{Context, Poll};

use super::control::Control;
use super::outcome::{Failed, Outcome};
use super::report::PathKind;
use super::{Source, Transfer};
use crate::sync::{Mutex, lock};
use crate::{Error, ErrorKind};
use std::sync::Arc;

type Result<O> = std::result::Result<O, Failed<<O as Outcome>::Buffer>>;

struct Shared<O: Outcome> {
    result: Mutex<Option<Result<O>>>,
    control: Arc<Control>,
}

/// The end of a transfer that does the work. Dropped without [`complete`](Self::complete), the transfer fails as
/// [`Gone`](ErrorKind::Gone).
pub struct Completer<O: Outcome> {
    shared: Option<Arc<Shared<O>>>,
    control: Arc<Control>,
}

pub(super) fn channel<O: Outcome>() -> (Completer<O>, Transfer<O>) {
    let control = Control::new();
    let shared = Arc::new(Shared { result: Mutex::new(None), control: control.clone() });
    let transfer = Transfer::from_source(Receiver { shared: shared.clone(), done: false });
    (Completer { shared: Some(shared), control }, transfer)
}

impl<O: Outcome> Completer<O> {
    /// Resolves the transfer.
    pub fn complete(mut self, result: std::result::Result<O, Failed<O::Buffer>>) {
        self.finish(result);
    }

    fn finish(&mut self, result: Result<O>) {
        if let Some(shared) = self.shared.take() {
            *lock(&shared.result) = Some(result);
            shared.control.wake();
        }
    }

    /// Whether the transfer was cancelled or dropped: what has not begun need not begin.
    pub fn is_cancelled(&self) -> bool {
        self.control.is_cancelled()
    }

    /// Counts bytes that arrived by `path`, for [`Transfer::report`].
    pub fn count(&self, path: PathKind, bytes: u64) {
        self.control.report().add(path, bytes);
    }

    pub(crate) fn control(&self) -> &Arc<Control> {
        &self.control
    }
}

impl<O: Outcome> Drop for Completer<O> {
    fn drop(&mut self) {
        self.finish(Err(Failed { error: Error::new(ErrorKind::Gone), buffer: None }));
    }
}

impl<O: Outcome> fmt::Debug for Completer<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completer").field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}

struct Receiver<O: Outcome> {
    shared: Arc<Shared<O>>,
    done: bool,
}

impl<O: Outcome> Source<O> for Receiver<O> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<O>> {
        assert!(!self.done, "a transfer was polled after it had resolved");
        let control = &self.shared.control;
        // First the waker, then the look: a result that comes in between finds the waker.
        control.set_waker(cx.waker());
        let result = lock(&self.shared.result).take();
        // In this order: a result that comes of the deadline comes after it.
        let expired = control.is_expired();
        let result = match result {
            Some(result) => judge(result, control, expired),
            None if expired => Err(Failed { error: deadline(), buffer: None }),
            None => return Poll::Pending,
        };
        self.done = true;
        Poll::Ready(result)
    }

    fn each_control(&self, f: &mut dyn FnMut(&Arc<Control>)) {
        f(&self.shared.control);
    }
}

fn deadline() -> Error {
    Error::new(ErrorKind::DeadlineExceeded)
}

/// Says why a transfer was cut short, where the working side only knows that it was.
fn judge<O: Outcome>(result: Result<O>, control: &Control, expired: bool) -> Result<O> {
    let refusal = control.take_refusal();
    match (result, refusal) {
        (Ok(outcome), Some(error)) => Err(Failed { error, buffer: Some(outcome.into_buffer()) }),
        (Err(failed), Some(error)) => Err(Failed { error, ..failed }),
        (Err(failed), None) if expired && failed.error.kind() == ErrorKind::Cancelled => {
            Err(Failed { error: deadline(), ..failed })
        }
        (result, None) => result,
    }
}
