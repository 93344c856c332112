//! Notices that the process is a forked child of one that used cuFile: the library's threads and locks are not there.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static CHILD: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    CHILD.store(true, Ordering::Relaxed);
}

/// Marks children that are forked from now on.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only stores to an atomic, which is allowed after a fork.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if failed != 0 {
            tracing::warn!("forked children will not notice that they must not use cuFile");
        }
    });
}

/// Whether this process was forked after [`watch`].
pub(crate) fn is_child() -> bool {
    CHILD.load(Ordering::Relaxed)
}
