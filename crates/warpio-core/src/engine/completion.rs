use std::fmt;
use std::sync::Arc;

use super::operation::Operation;
use crate::pool::Slot;
use crate::{Error, ErrorKind, Result};

/// A copy that was enqueued and has not been seen to end. Dropped instead of finished, it leaks its slot and the
/// transfer's buffer rather than let either be used again.
pub struct Completion {
    operation: Arc<Operation>,
    /// Where the bytes come from, unless that is memory that its transfer's source holds.
    slot: Option<Slot>,
    observed: bool,
}

impl Completion {
    pub(super) fn new(operation: Arc<Operation>, slot: Option<Slot>) -> Self {
        Self { operation, slot, observed: false }
    }

    /// The event behind the copy has happened, or the context failed and the copy will not run.
    pub fn done(mut self, result: Result<()>) {
        self.observed = true;
        drop(self.slot.take());
        if let Err(error) = result {
            self.operation.fail(error);
        }
        self.operation.one_done();
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if !self.observed {
            if let Some(slot) = self.slot.take() {
                slot.leak();
            }
            self.operation.taint();
            self.operation.fail(Error::new(ErrorKind::Gone));
            self.operation.one_done();
        }
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").finish_non_exhaustive()
    }
}
