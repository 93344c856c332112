//! What waits for the ring threads, and which of them sleep.

mod need;
mod state;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use warpio_core::engine::{Batch, Segment, Target};
use warpio_core::{ErrorKind, Slot};

use super::pieces;
use super::target::RingTarget;
use need::Need;
use state::{Member, Rest, State};

/// Segments that wait for a ring thread, of all batches of an engine.
///
/// They wait in classes by what they need: a file system, room for long reads of it, and staging memory of a device in
/// one of its sizes. Threads take them by turns between the classes, and within a class between the batches. A class whose
/// need cannot be met now holds up no other, and a file system that has stopped answering keeps neither all room of the
/// rings nor all staging memory.
#[derive(Debug, Default)]
pub(in crate::engine) struct Queue {
    state: Mutex<State>,
    /// Counts what has come, for threads that look for it without the lock.
    news: AtomicUsize,
}

/// A segment that was taken from the queue.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) ticket: Ticket,
    pub(super) target: Target,
    pub(super) segment: Segment,
    /// The slot that its bytes lie in, if it is a write from a device and they do.
    pub(super) slot: Option<Slot>,
}

/// Names a class in what a thread tells the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClassId(usize);

/// What a segment counts for while it is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) class: ClassId,
    /// Bytes to read, if it is a long read.
    bytes: usize,
    /// The kernel was asked for them.
    was_asked: bool,
}

impl Ticket {
    /// The kernel is being asked for it, now or before.
    pub(super) fn ask(&mut self) {
        self.was_asked = true;
    }
}

/// What a thread has to tell the queue.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Segments that are finished.
    pub(super) finished: Vec<Ticket>,
    /// Classes for which a slot is waited for from now on, or no longer.
    pub(super) waiting: Vec<(ClassId, bool)>,
}

/// What there is to do for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Outlook {
    /// Operations to submit.
    Busy,
    /// Nothing; but it is likely that something comes at once. The thread counts as awake and is not woken for it, so it
    /// must look again before it rests.
    Soon,
    /// Nothing, until an operation has finished or the thread is woken.
    Idle,
    /// Nothing, ever again.
    End,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes whenever something comes.
    pub(super) fn news(&self) -> usize {
        self.news.load(Ordering::Relaxed)
    }

    /// A thread whose ring has room for `depth` operations joins those that serve the queue. Returns its number.
    pub(in crate::engine) fn join(&self, waker: Waker, depth: usize) -> usize {
        let mut state = self.lock();
        state.capacity += depth;
        state.members.push(Member { waker, depth, rest: Rest::Awake });
        state.members.len() - 1
    }

    /// A thread ends, perhaps before its time. After the last one nothing is served: what waits is dropped.
    pub(super) fn leave(&self, member: usize, finished: &[Ticket]) {
        let (orphans, waker) = {
            let mut state = self.lock();
            finished.iter().for_each(|&ticket| state.finish(ticket));
            state.capacity -= std::mem::take(&mut state.members[member].depth);
            state.members[member].rest = Rest::Ended;
            let orphans = if state.is_deserted() { state.clear() } else { Vec::new() };
            (orphans, state.wake_one())
        };
        drop(orphans);
        wake(waker);
    }

    /// Takes a batch, and wakes a thread if all of them sleep.
    pub(in crate::engine) fn submit(&self, batch: Batch) {
        let Some(first) = batch.segments().first() else { return };
        let Some(target) = RingTarget::of(batch.target_ref()) else {
            let error = first.error(ErrorKind::InvalidInput);
            return batch.fail(&error.with_message("this engine serves open files only"));
        };
        let batch = pieces::cut(batch, target.mode());
        let (need, slots) = Need::of(&batch, &target);
        let waker = {
            let mut state = self.lock();
            if state.is_deserted() {
                drop(state);
                return drop(batch);
            }
            state.push(batch, need, slots);
            self.news.fetch_add(1, Ordering::Relaxed);
            state.wake_if_nobody_looks()
        };
        wake(waker);
    }

    /// Lets the threads end once everything is done that was submitted.
    pub(in crate::engine) fn close(&self) {
        let wakers = {
            let mut state = self.lock();
            state.closed = true;
            self.news.fetch_add(1, Ordering::Relaxed);
            state.wake_all()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Wakes a thread whenever it rests, for what it alone waits for.
    pub(super) fn nudge(&self, member: usize) {
        let waker = {
            let mut state = self.lock();
            let member = &mut state.members[member];
            matches!(member.rest, Rest::Asleep | Rest::Full).then(|| member.wake())
        };
        wake(waker);
    }

    /// A segment whose bytes have arrived in its slot.
    pub(super) fn staged(&self, work: Work) {
        let waker = {
            let mut state = self.lock();
            state.staged.push_back(work);
            self.news.fetch_add(1, Ordering::Relaxed);
            state.wake_if_nobody_looks()
        };
        wake(waker);
    }

    /// A segment has ended that no thread holds.
    pub(super) fn ended(&self, ticket: Ticket) {
        let waker = {
            let mut state = self.lock();
            state.finish(ticket);
            self.news.fetch_add(1, Ordering::Relaxed);
            if state.has_next() { state.wake_if_nobody_looks() } else { None }
        };
        wake(waker);
    }

    /// Keeps the threads from ending for as long as something is on its way back here.
    pub(super) fn expect(self: &Arc<Self>) -> Expected {
        self.lock().pending += 1;
        Expected(self.clone())
    }

    /// What thread `member` does between its operations: it tells what has become of them and takes up to `room` new
    /// segments into `taken`. If there are none it counts as resting from here on, unless it expects some `soon`; it must
    /// not rest without. `holds` says whether it has any segments left.
    pub(super) fn exchange(
        &self,
        member: usize,
        report: &mut Report,
        room: usize,
        holds: bool,
        soon: bool,
        taken: &mut Vec<Work>,
    ) -> Outlook {
        let (outlook, waker) = {
            let mut state = self.lock();
            report.finished.drain(..).for_each(|ticket| state.finish(ticket));
            report.waiting.drain(..).for_each(|(class, waiting)| state.set_waiting(class, waiting));
            taken.extend(std::iter::from_fn(|| state.next()).take(room));
            let (outlook, rest) = if !taken.is_empty() {
                // With no room left it may wait for what it has before it looks again.
                (Outlook::Busy, if taken.len() < room { Rest::Awake } else { Rest::Full })
            } else if room == 0 {
                (Outlook::Idle, Rest::Full)
            } else if soon && !state.closed {
                (Outlook::Soon, Rest::Awake)
            } else if state.closed && !holds && state.is_drained() {
                (Outlook::End, Rest::Ended)
            } else {
                (Outlook::Idle, Rest::Asleep)
            };
            state.members[member].rest = rest;
            (outlook, if state.has_next() { state.wake_one() } else { None })
        };
        wake(waker);
        outlook
    }
}

/// Something is on its way back to the queue.
#[derive(Debug)]
pub(super) struct Expected(Arc<Queue>);

impl Expected {
    pub(super) fn queue(&self) -> &Arc<Queue> {
        &self.0
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        let wakers = {
            let mut state = self.0.lock();
            state.pending -= 1;
            // Those who wait for the end have to look again.
            if state.closed { state.wake_all() } else { Vec::new() }
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// A waker may run any code: never under the lock.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
