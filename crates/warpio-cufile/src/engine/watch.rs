//! Looks after calls that do not return: what waits behind them goes another way.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A thread's call into the library, as others see it.
#[derive(Debug)]
pub(super) struct Call {
    base: Instant,
    /// When it began, in milliseconds since `base` and plus one; 0 between calls.
    since: AtomicU64,
}

impl Call {
    pub(super) fn new() -> Self {
        Self { base: Instant::now(), since: AtomicU64::new(0) }
    }

    fn now(&self) -> u64 {
        self.base.elapsed().as_millis() as u64 + 1
    }

    /// Marks the time that `call` takes.
    pub(super) fn during<T>(&self, call: impl FnOnce() -> T) -> T {
        self.since.store(self.now(), Ordering::Relaxed);
        let result = call();
        self.since.store(0, Ordering::Relaxed);
        result
    }

    /// Whether the thread has been in one call for this long.
    pub(super) fn is_longer_than(&self, limit: Duration) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        since != 0 && self.now().saturating_sub(since) > limit.as_millis() as u64
    }
}

/// How many pieces there are, and whether there is anything to look after.
#[derive(Debug, Default)]
pub(super) struct Load {
    pieces: AtomicUsize,
    /// Pieces that ever came.
    arrived: AtomicU64,
    /// Nothing more comes from outside.
    closed: AtomicBool,
    state: Mutex<Watching>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Watching {
    asleep: bool,
}

/// One piece of the [`Load`], for as long as it is there.
#[derive(Debug)]
pub(super) struct Work(Arc<Load>);

impl Load {
    pub(super) fn work(self: &Arc<Self>) -> Work {
        self.arrived.fetch_add(1, Ordering::Relaxed);
        if self.pieces.fetch_add(1, Ordering::SeqCst) == 0 {
            self.rouse();
        }
        Work(self.clone())
    }

    pub(super) fn pieces(&self) -> usize {
        self.pieces.load(Ordering::SeqCst)
    }

    /// Wakes the watch if it sleeps without end.
    fn rouse(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.asleep) {
            self.wake.notify_one();
        }
    }

    /// Wakes the watch however it sleeps.
    fn hurry(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).asleep = false;
        self.wake.notify_one();
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.hurry();
    }

    /// Calls `look` every `period` while there are pieces; sleeps without end when there were none for a whole period.
    /// Returns when the load is closed and nothing is left.
    pub(super) fn watch(&self, period: Duration, mut look: impl FnMut()) {
        let mut seen = 0;
        loop {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let arrived = self.arrived.load(Ordering::Relaxed);
            let idle = self.pieces() == 0;
            let closed = self.closed.load(Ordering::SeqCst);
            if idle && closed {
                return;
            }
            if idle && arrived == seen {
                state.asleep = true;
                while state.asleep {
                    state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                continue;
            }
            seen = arrived;
            drop(self.wake.wait_timeout(state, period).unwrap_or_else(PoisonError::into_inner));
            look();
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if self.0.pieces.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.closed.load(Ordering::SeqCst) {
            self.0.hurry();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_call_is_long_only_while_it_lasts() {
        let call = Call::new();
        assert!(!call.is_longer_than(Duration::ZERO));
        call.during(|| {
            while !call.is_longer_than(Duration::from_millis(2)) {
                std::thread::yield_now();
            }
            assert!(!call.is_longer_than(Duration::from_secs(3600)));
        });
        assert!(!call.is_longer_than(Duration::ZERO));
    }

    #[test]
    fn the_watch_looks_while_there_is_work_and_ends_with_it() {
        let load = Arc::new(Load::default());
        let work = load.work();
        let (looked, looks) = channel();
        let watched = load.clone();
        let watch =
            std::thread::spawn(move || watched.watch(Duration::from_millis(1), || looked.send(()).unwrap_or(())));
        looks.recv().unwrap();
        looks.recv().unwrap();
        drop(work);
        load.close();
        watch.join().unwrap();
    }

    #[test]
    fn the_watch_sleeps_without_work_and_wakes_for_it() {
        let load = Arc::new(Load::default());
        let (looked, looks) = channel();
        let watched = load.clone();
        let watch =
            std::thread::spawn(move || watched.watch(Duration::from_millis(1), || looked.send(()).unwrap_or(())));
        while !load.state.lock().unwrap().asleep {
            std::thread::yield_now();
        }
        assert!(looks.try_recv().is_err(), "nothing to look after");
        let work = load.work();
        looks.recv().unwrap();
        drop(work);
        load.close();
        watch.join().unwrap();
    }
}
