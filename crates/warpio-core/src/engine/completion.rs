use std::fmt;
use std::sync::Arc;

use super::operation::Operation;
use crate::pool::Slot;
use crate::{Error, ErrorKind, Result};

/// A copy that was enqueued and has not been seen to end. Dropped instead of finished, it leaks its slot and the
/// transfer's buffer rather than let either be used again.
pub struct Completion {
    operation: Arc<Operation>,
    slot: Option<Slot>,
}

impl Completion {
    pub(super) fn new(operation: Arc<Operation>, slot: Slot) -> Self {
        Self { operation, slot: Some(slot) }
    }

    /// The event behind the copy has happened, or the context failed and the copy will not run.
    pub fn done(mut self, result: Result<()>) {
        drop(self.slot.take());
        if let Err(error) = result {
            self.operation.fail(error);
        }
        self.operation.one_done();
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            slot.leak();
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
