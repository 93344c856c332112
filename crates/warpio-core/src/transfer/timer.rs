//! Deadlines, kept by one thread that is started with the first of them, so that they hold under any executor.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// What happens at a deadline: short, and on the timer's thread.
type Action = Box<dyn FnOnce() + Send>;

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
    action: Action,
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

/// Calls `action` at `at`; at once, if that is past or no thread can be had.
pub(crate) fn call_at(at: Instant, action: Action) {
    if at <= Instant::now() {
        return action();
    }
    let Some(timer) = timer() else { return action() };
    let mut queue = timer.queue.lock().unwrap_or_else(PoisonError::into_inner);
    let order = queue.next;
    queue.next += 1;
    let earliest = queue.entries.peek().is_none_or(|Reverse(first)| at < first.at);
    queue.entries.push(Reverse(Entry { at, order, action }));
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
            due.extend(queue.entries.pop().map(|Reverse(entry)| entry.action));
        }
        if !due.is_empty() {
            drop(queue);
            due.into_iter().for_each(|action| action());
            queue = timer.queue.lock().unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        queue = match queue.entries.peek().map(|Reverse(first)| first.at - now) {
            Some(wait) => timer.changed.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0,
            None => timer.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
        };
    }
}
