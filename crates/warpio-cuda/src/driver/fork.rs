//! Notices that the process is a forked child of the one that initialised CUDA.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static CHILD: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    CHILD.store(true, Ordering::Relaxed);
}

/// Marks children that are forked from now on. A flag costs nothing to read, whereas `getpid` is a system call, and
/// every device call asks.
pub(super) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only stores to an atomic, which is allowed after a fork.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if failed != 0 {
            tracing::warn!("forked children will not notice that they must not use CUDA");
        }
    });
}

/// Whether this process was forked after [`watch`].
pub(super) fn is_child() -> bool {
    CHILD.load(Ordering::Relaxed)
}
