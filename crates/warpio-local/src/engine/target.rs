use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

use super::posix::FileWrites;
use crate::sys::close::close;

/// An open file as the engines see it: what every segment of a batch is about. It is closed when the last segment and
/// the last handle are gone.
pub struct OpenFile {
    fd: ManuallyDrop<OwnedFd>,
    closed: Mutex<Option<oneshot::Sender<io::Result<()>>>>,
    writes: FileWrites,
}

impl OpenFile {
    /// Takes the descriptor.
    pub fn new(fd: OwnedFd) -> Self {
        Self { fd: ManuallyDrop::new(fd), closed: Mutex::new(None), writes: FileWrites::default() }
    }

    /// The writes through the page cache that wait for a thread.
    pub(super) fn writes(&self) -> &FileWrites {
        &self.writes
    }

    /// Learns what `close(2)` says, once the last user is gone.
    pub(crate) fn on_close(&self) -> oneshot::Receiver<io::Result<()>> {
        let (tx, rx) = oneshot::channel();
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = Some(tx);
        rx
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // SAFETY: taken once, here; the field is not used afterwards.
        let result = close(unsafe { ManuallyDrop::take(&mut self.fd) });
        let listener = self.closed.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        match (listener, result) {
            (Some(listener), result) => drop(listener.send(result)),
            (None, Err(error)) => tracing::warn!(%error, "closing a file failed; what was written may be lost"),
            (None, Ok(())) => {}
        }
    }
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFile").field("fd", &*self.fd).finish_non_exhaustive()
    }
}
