//! Deadlines, kept by one thread that is started with the first of them, so that they hold under any executor.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
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
    let order = queue.next;
    queue.next += 1;
    let earliest = queue.entries.peek().is_none_or(|Reverse(first)| at < first.at);
    queue.entries.push(Reverse(Entry { at, order, control: Arc::downgrade(control) }));
    if earliest {
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
            due.iter().filter_map(Weak::upgrade).for_each(|control| control.expire());
            queue = timer.queue.lock().unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        queue = match queue.entries.peek().map(|Reverse(first)| first.at - now) {
            Some(wait) => timer.changed.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0,
            None => timer.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
        };
    }
}
