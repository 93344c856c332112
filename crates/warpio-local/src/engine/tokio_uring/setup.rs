//! Making a runtime with as much as the kernel grants.

use std::io;
use std::panic::catch_unwind;

use io_uring_06::{IoUring, opcode};
use tokio_uring::Runtime;

use crate::engine::ring::Unavailable;

/// A runtime whose ring has room for `entries` operations.
pub(super) fn build(entries: u32) -> Result<Runtime, Unavailable> {
    // tokio-uring would panic, or wait for ever, where a ring can be made and not be used.
    probe()?;
    let mut refusal = None;
    // Never with deferred task work: tokio-uring waits for its ring by epoll, which does not run it.
    for (coop_taskrun, single_issuer) in [(true, true), (true, false), (false, false)] {
        let mut ring = tokio_uring::uring_builder();
        ring.dontfork();
        if coop_taskrun {
            ring.setup_coop_taskrun();
        }
        if single_issuer {
            ring.setup_single_issuer();
        }
        match new_runtime(entries, &ring) {
            Ok(runtime) => return Ok(runtime),
            // An older kernel does not know a flag.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refusal = Some(error),
            Err(error) => return Err(Unavailable::refused(error)),
        }
    }
    Err(refusal.map_or_else(|| Unavailable::because("no ring"), Unavailable::refused))
}

fn new_runtime(entries: u32, ring: &io_uring_06::Builder) -> io::Result<Runtime> {
    // `tokio_uring::start` would panic where rings are refused; this panics only where epoll is.
    catch_unwind(|| Runtime::new(tokio_uring::builder().entries(entries).uring_builder(ring)))
        .unwrap_or_else(|_| Err(io::Error::other("tokio-uring cannot watch its ring")))
}

/// Whether a ring can be had, and used: a filter may let it be made and forbid its use.
pub(super) fn probe() -> Result<(), Unavailable> {
    let mut ring = IoUring::new(8).map_err(Unavailable::refused)?;
    // SAFETY: an operation that does nothing refers to nothing.
    let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
    if pushed.is_err() {
        return Err(Unavailable::because("a ring has no room"));
    }
    loop {
        match ring.submit_and_wait(1) {
            Ok(_) => return Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) => return Err(Unavailable::refused(error)),
        }
    }
}

/// Lets the kernel have as many threads as there may be operations for what the calling thread submits and cannot be
/// done at once, so that those that wait for storage that does not answer cannot keep others from being done.
///
/// The threads are the calling thread's, shared by all its rings, so that any ring will do for saying so; tokio-uring
/// does not give its own away.
pub(super) fn allow_kernel_threads(count: u32) {
    if let Ok(ring) = IoUring::new(1) {
        let _ = ring.submitter().register_iowq_max_workers(&mut [count, 0]);
    }
}
