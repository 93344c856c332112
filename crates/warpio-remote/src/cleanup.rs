use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Objects of this process that were given up, and whose parts are being taken away.
static LEFT: Mutex<usize> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, usize> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks until nothing is left of the objects that this process began and dropped before they were finished, or until
/// `limit` is over. Whether nothing is left. For programs that are about to end: nobody else need wait for it.
///
/// ```
/// assert!(warpio_remote::wait_for_cleanup(std::time::Duration::ZERO), "nothing was begun");
/// ```
pub fn wait_for_cleanup(limit: Duration) -> bool {
    let wait = CHANGED.wait_timeout_while(lock(), limit, |left| *left > 0);
    let (left, _) = wait.unwrap_or_else(PoisonError::into_inner);
    *left == 0
}

/// One object that is being given up.
pub(crate) struct Cleanup(());

impl Cleanup {
    pub(crate) fn begin() -> Self {
        *lock() += 1;
        Self(())
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        *lock() -= 1;
        CHANGED.notify_all();
    }
}
