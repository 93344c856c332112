//! Deadlines, kept by one thread that is started with the first of them, so that they hold under any executor.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::Instant;

/// Somebody with a deadline.
pub(crate) trait Expire: Send + Sync {
    /// The deadline has come. Short, as it runs on the timer's thread.
    fn expire(&self);
}

struct Timer {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    entries: BinaryHeap<Reverse<Entry>>,
    next: u64,
    /// At this many entries, those whose transfers are gone are thrown out: most transfers end long before their
    /// deadline.
    sweep_at: usize,
}

const FEW: usize = 1024;

impl Queue {
    /// Adds a deadline. Whether it is now the earliest.
    fn push(&mut self, at: Instant, waiter: Weak<dyn Expire>) -> bool {
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|Reverse(entry)| entry.waiter.strong_count() > 0);
            self.sweep_at = FEW.max(2 * self.entries.len());
        }
        let earliest = self.entries.peek().is_none_or(|Reverse(first)| at < first.at);
        self.entries.push(Reverse(Entry { at, order: self.next, waiter }));
        self.next += 1;
        earliest
    }
}

struct Entry {
    at: Instant,
    order: u64,
    waiter: Weak<dyn Expire>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Lets `waiter` expire at `at`; at once, if that is past or no thread can be had. Not at all once it is gone.
pub(crate) fn expire_at<E: Expire + 'static>(at: Instant, waiter: &Arc<E>) {
    if at <= Instant::now() {
        return waiter.expire();
    }
    let Some(timer) = timer() else { return waiter.expire() };
    let waiter: Arc<dyn Expire> = waiter.clone();
    let mut queue = timer.queue.lock().unwrap_or_else(PoisonError::into_inner);
    if queue.push(at, Arc::downgrade(&waiter)) {
        timer.changed.notify_one();
    }
}

fn timer() -> Option<&'static Timer> {
    static TIMER: OnceLock<Timer> = OnceLock::new();
    static STARTED: OnceLock<bool> = OnceLock::new();
    let timer = TIMER.get_or_init(|| Timer { queue: Mutex::default(), changed: Condvar::new() });
    let started = STARTED
        .get_or_init(|| std::thread::Builder::new().name("warpio-timer".into()).spawn(move || run(timer)).is_ok());
    started.then_some(timer)
}

fn run(timer: &Timer) {
    let mut queue = timer.queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let now = Instant::now();
        let mut due = Vec::new();
        while queue.entries.peek().is_some_and(|Reverse(first)| first.at <= now) {
            due.extend(queue.entries.pop().map(|Reverse(entry)| entry.waiter));
        }
        if !due.is_empty() {
            drop(queue);
            for waiter in due.iter().filter_map(Weak::upgrade) {
                // A waker is foreign code, and its panic must not be the end of everybody's deadlines.
                let _ = catch_unwind(AssertUnwindSafe(|| waiter.expire()));
            }
            queue = timer.queue.lock().unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        queue = match queue.entries.peek().map(|Reverse(first)| first.at - now) {
            Some(wait) => timer.changed.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0,
            None => timer.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
        };
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::time::Duration;

    use super::super::control::Control;
    use super::*;

    struct Nobody;

    impl Expire for Nobody {
        fn expire(&self) {}
    }

    #[test]
    fn transfers_that_ended_are_not_kept_until_their_deadline() {
        let mut queue = Queue::default();
        let late = Instant::now() + Duration::from_secs(3600);
        let lasting: Arc<dyn Expire> = Control::new();
        queue.push(late, Arc::downgrade(&lasting));
        for _ in 0..100_000 {
            let ended: Arc<dyn Expire> = Control::new();
            queue.push(late, Arc::downgrade(&ended));
        }
        assert!(queue.entries.len() <= 2 * FEW, "{} entries", queue.entries.len());
        assert!(queue.entries.iter().any(|Reverse(entry)| entry.waiter.strong_count() > 0), "the lasting one is there");
    }

    #[test]
    fn the_earliest_deadline_is_told() {
        let mut queue = Queue::default();
        let now = Instant::now();
        let earliest = [5, 7, 3, 3, 9, 1].map(|s| queue.push(now + Duration::from_secs(s), Weak::<Nobody>::new()));
        assert_eq!(earliest, [true, false, true, false, false, true]);
    }
}
