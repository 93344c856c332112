//! Waking a thread that waits for its ring.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd of which the ring has a read in flight.
#[derive(Debug)]
pub(super) struct Bell(OwnedFd);

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        // Not non-blocking: a ring would answer EAGAIN instead of waiting.
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC)?))
    }

    pub(super) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // It cannot fail: the descriptor is open, and the count far from the largest.
        let _ = rustix::io::write(self.0.as_fd(), &1u64.to_ne_bytes());
    }
}
