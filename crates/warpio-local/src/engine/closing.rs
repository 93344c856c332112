//! Closing files away from threads that must not wait: the last handle of a file may go on a ring thread, and to close
//! it may wait for a server or free the blocks of a file that was removed.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use tokio::sync::oneshot;

use crate::sys::close::close;

thread_local! {
    static MUST_NOT_WAIT: Cell<bool> = const { Cell::new(false) };
}

/// A file that nobody uses any more.
pub(super) struct Closing {
    pub(super) fd: OwnedFd,
    /// The descriptor for direct I/O, if there was one.
    pub(super) direct: Option<OwnedFd>,
    /// Who wants to hear what `close(2)` says.
    pub(super) listener: Option<oneshot::Sender<io::Result<()>>>,
}

impl Closing {
    /// Closes it here, or on a thread for that if this one must not wait.
    pub(super) fn close(self) {
        if !MUST_NOT_WAIT.get() {
            return self.close_here();
        }
        match closer() {
            Some(closer) => drop(closer.send(self).map_err(|unsent| unsent.0.close_here())),
            None => self.close_here(),
        }
    }

    fn close_here(self) {
        drop(self.direct);
        match (self.listener, close(self.fd)) {
            (Some(listener), result) => drop(listener.send(result)),
            (None, Err(error)) => tracing::warn!(%error, "closing a file failed; what was written may be lost"),
            (None, Ok(())) => {}
        }
    }
}

/// Lets the calling thread leave the closing of files to another one from now on.
pub(super) fn leave_to_others() {
    MUST_NOT_WAIT.set(true);
}

/// The thread that closes files for others, started when it is first needed.
fn closer() -> Option<&'static Sender<Closing>> {
    static CLOSER: OnceLock<Option<Sender<Closing>>> = OnceLock::new();
    let start = || {
        let (tx, rx) = channel::<Closing>();
        let thread = std::thread::Builder::new().name("warpio-close".into());
        thread.spawn(move || rx.into_iter().for_each(Closing::close_here)).ok().map(|_| tx)
    };
    CLOSER.get_or_init(start).as_ref()
}
