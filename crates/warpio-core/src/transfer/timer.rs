//! Deadlines, kept by one thread that is started with the first of them, so that they hold under any executor.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::Instant;

use super::control::Control;

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
    fn push(&mut self, at: Instant, control: Weak<Control>) -> bool {
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|Reverse(entry)| entry.control.strong_count() > 0);
            self.sweep_at = FEW.max(2 * self.entries.len());
        }
        let earliest = self.entries.peek().is_none_or(|Reverse(first)| at < first.at);
        self.entries.push(Reverse(Entry { at, order: self.next, control }));
        self.next += 1;
        earliest
    }
}

struct Entry {
    at: Instant,
    order: u64,
    control: Weak<Control>,
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

/// Lets the transfer of `control` expire at `at`; at once, if that is past or no thread can be had.
pub(super) fn expire_at(at: Instant, control: &Arc<Control>) {
    if at <= Instant::now() {
        return control.expire();
    }
    let Some(timer) = timer() else { return control.expire() };
    let mut queue = timer.queue.lock().unwrap_or_else(PoisonError::into_inner);
    if queue.push(at, Arc::downgrade(control)) {
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
            due.extend(queue.entries.pop().map(|Reverse(entry)| entry.control));
        }
        if !due.is_empty() {
            drop(queue);
            for control in due.iter().filter_map(Weak::upgrade) {
                // A waker is foreign code, and its panic must not be the end of everybody's deadlines.
                let _ = catch_unwind(AssertUnwindSafe(|| control.expire()));
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

    use super::*;

    #[test]
    fn transfers_that_ended_are_not_kept_until_their_deadline() {
        let mut queue = Queue::default();
        let late = Instant::now() + Duration::from_secs(3600);
        let lasting = Control::new();
        queue.push(late, Arc::downgrade(&lasting));
        for _ in 0..100_000 {
            queue.push(late, Arc::downgrade(&Control::new()));
        }
        assert!(queue.entries.len() <= 2 * FEW, "{} entries", queue.entries.len());
        assert!(
            queue.entries.iter().any(|Reverse(entry)| entry.control.strong_count() > 0),
            "the lasting one is there"
        );
    }

    #[test]
    fn the_earliest_deadline_is_told() {
        let mut queue = Queue::default();
        let now = Instant::now();
        let earliest = [5, 7, 3, 3, 9, 1].map(|s| queue.push(now + Duration::from_secs(s), Weak::new()));
        assert_eq!(earliest, [true, false, true, false, false, true]);
    }
}
