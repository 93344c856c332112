//! The synchronisation primitives of this crate: the standard library's, or loom's when a model is checked.

//!
//! `Arc` is always the standard library's: loom's neither holds a `dyn Trait` nor makes a `Waker`, and the counting is
//! not ours to check.

#[cfg(feature = "loom")]
pub(crate) use loom::sync::{Mutex, MutexGuard, atomic};
pub(crate) use std::sync::Arc;
#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

/// Runs `f` on a thread of its own. Whether one could be had.
#[cfg(not(feature = "loom"))]
pub(crate) fn spawn(name: &str, f: impl FnOnce() + Send + 'static) -> bool {
    std::thread::Builder::new().name(name.into()).spawn(f).is_ok()
}

/// Runs `f` on a thread of the model.
#[cfg(feature = "loom")]
pub(crate) fn spawn(_name: &str, f: impl FnOnce() + Send + 'static) -> bool {
    loom::thread::spawn(f);
    true
}

/// Locks, and goes on with the data of a lock whose holder panicked: every structure here is valid between
/// statements, and a panic on one thread must not turn into a panic on every other.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
