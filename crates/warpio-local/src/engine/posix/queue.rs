//! What waits for a thread: reads by turns between transfers, and files that have something to write.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use warpio_core::Error;
use warpio_core::engine::{Batch, Direction, FairQueue, Segment, Target};

use crate::engine::classes::{Class, ClassId, Classes, Need, may_begin};
use crate::engine::{OpenFile, RingTarget};

/// What a thread does next.
pub(super) enum Job {
    /// One segment to read.
    Read(Target, Segment),
    /// A file whose writes nobody serves yet.
    Writes(Arc<OpenFile>),
}

/// Which jobs a thread takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Any.
    Steady,
    /// Those of a class that the steady threads have no hand free for, as all of them are busy with others: they may
    /// wait for storage, or for a device, that has stopped answering.
    Spare,
}

/// Where a thread counts while it does a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    class: ClassId,
    role: Role,
}

/// Work for threads that may block, in classes by what it needs.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    steady: Condvar,
    spare: Condvar,
}

#[derive(Debug, Default)]
struct State {
    classes: Classes<Waiting>,
    /// Whose turn it is, so that neither kind starves the other.
    writes_next: bool,
    idle: usize,
    spares: Spares,
    closed: bool,
}

#[derive(Debug, Default)]
struct Spares {
    threads: usize,
    idle: usize,
    busy: usize,
}

/// What waits in one class.
#[derive(Debug, Default)]
struct Waiting {
    reads: FairQueue,
    /// Each file once: the kernel lets one thread at a time write to a file through the page cache, and others would
    /// only spin for its lock.
    writes: VecDeque<Arc<OpenFile>>,
    /// Spare threads at work.
    spares: usize,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty()
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A spare thread is there.
    pub(super) fn join_spare(&self) {
        self.lock().spares.threads += 1;
    }

    pub(super) fn submit(&self, batch: Batch) {
        let Some(first) = batch.segments().first() else { return };
        let (new, direction) = (batch.segments().len(), first.direction());
        let (Some(file), Some(target)) = (batch.target::<OpenFile>(), RingTarget::of(batch.target_ref())) else {
            return batch.fail(&Error::invalid_input("this engine serves open files only"));
        };
        let (need, slots) = Need::of(&batch, &target);
        let state = match direction {
            Direction::Read => {
                let mut state = self.lock();
                state.classes.queue(need, slots).reads.push(batch);
                state
            }
            Direction::Write => {
                if !file.writes().push(batch) {
                    return;
                }
                let mut state = self.lock();
                state.classes.queue(need, slots).writes.push_back(file);
                state
            }
        };
        let jobs = if direction == Direction::Read { new } else { 1 };
        let (steady, spare) = (state.idle.min(jobs), state.has_for_spares());
        drop(state);
        match steady {
            0 if spare => self.spare.notify_one(),
            0 => {}
            1 => self.steady.notify_one(),
            _ => self.steady.notify_all(),
        }
    }

    /// Lets a file wait for its next turn.
    pub(super) fn again(&self, file: Arc<OpenFile>, seat: Seat) {
        let mut state = self.lock();
        state.classes.get_mut(seat.class).queue.writes.push_back(file);
        self.wake(state);
    }

    /// Blocks until something is to do for a thread of this role, which leaves `seat`; `None`
    /// once the queue was closed and nothing is left.
    pub(super) fn next(&self, role: Role, seat: Option<Seat>) -> Option<(Job, Seat)> {
        let mut state = self.lock();
        if let Some(seat) = seat {
            state.end(seat);
        }
        loop {
            if let Some(job) = state.take(role) {
                self.wake(state);
                return Some(job);
            }
            if state.closed && state.classes.iter().all(|class| class.queue.is_empty()) {
                drop(state);
                self.wake_all();
                return None;
            }
            let sleepers = if role == Role::Steady { &self.steady } else { &self.spare };
            *state.idle_of(role) += 1;
            state = sleepers.wait(state).unwrap_or_else(PoisonError::into_inner);
            *state.idle_of(role) -= 1;
        }
    }

    /// Wakes whoever there is work for.
    fn wake(&self, state: MutexGuard<'_, State>) {
        let steady = state.idle > 0 && state.has_for_steady();
        let spare = !steady && state.has_for_spares();
        drop(state);
        if steady {
            self.steady.notify_one();
        } else if spare {
            self.spare.notify_one();
        }
    }

    fn wake_all(&self) {
        self.steady.notify_all();
        self.spare.notify_all();
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.wake_all();
    }
}

impl State {
    fn idle_of(&mut self, role: Role) -> &mut usize {
        match role {
            Role::Steady => &mut self.idle,
            Role::Spare => &mut self.spares.idle,
        }
    }

    fn has_for_steady(&self) -> bool {
        self.classes.iter().any(|class| may_take(&self.classes, class))
    }

    fn has_for_spares(&self) -> bool {
        self.spares.idle > 0
            && self.idle == 0
            && self.classes.iter().any(|class| may_spare(&self.classes, &self.spares, class))
    }

    fn take(&mut self, role: Role) -> Option<(Job, Seat)> {
        self.writes_next = !self.writes_next;
        let first = self.writes_next;
        self.take_kind(role, first).or_else(|| self.take_kind(role, !first))
    }

    fn take_kind(&mut self, role: Role, writes: bool) -> Option<(Job, Seat)> {
        let spares = &self.spares;
        let class = self.classes.turn(|classes, class| {
            let Waiting { reads, writes: files, .. } = &class.queue;
            let some = if writes { !files.is_empty() } else { !reads.is_empty() };
            some && match role {
                Role::Steady => may_take(classes, class),
                Role::Spare => may_spare(classes, spares, class),
            }
        })?;
        let waiting = &mut self.classes.get_mut(class).queue;
        let job = match writes {
            true => Job::Writes(waiting.writes.pop_front()?),
            false => waiting.reads.pop().map(|(target, segment)| Job::Read(target, segment))?,
        };
        if role == Role::Spare {
            waiting.spares += 1;
            self.spares.busy += 1;
        }
        self.classes.begin(class);
        Some((job, Seat { class, role }))
    }

    fn end(&mut self, seat: Seat) {
        self.classes.end(seat.class);
        if seat.role == Role::Spare {
            self.classes.get_mut(seat.class).queue.spares -= 1;
            self.spares.busy -= 1;
        }
    }
}

/// Whether a thread may begin something of this class: not where it would only wait for a slot of which others of the
/// same class have too many.
fn may_take(classes: &Classes<Waiting>, class: &Class<Waiting>) -> bool {
    !class.queue.is_empty() && classes.has_share_of_slots(class)
}

/// Whether a spare thread may: for a class that has not even a quarter of all threads, and on storage that leaves some
/// spare threads to others.
fn may_spare(classes: &Classes<Waiting>, spares: &Spares, class: &Class<Waiting>) -> bool {
    let on_its_storage = classes.iter().filter(|other| other.need.storage == class.need.storage);
    may_take(classes, class)
        && 4 * class.in_flight <= classes.in_flight()
        && may_begin(spares.threads, spares.busy, on_its_storage.map(|other| other.queue.spares).sum())
}

/// The writes that wait for one file.
#[derive(Debug, Default)]
pub(crate) struct FileWrites(Mutex<FileQueue>);

#[derive(Debug, Default)]
struct FileQueue {
    queue: FairQueue,
    /// A thread serves the file, or is going to.
    served: bool,
}

impl FileWrites {
    fn lock(&self) -> MutexGuard<'_, FileQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a batch. Returns whether the file now needs a thread.
    fn push(&self, batch: Batch) -> bool {
        let mut state = self.lock();
        state.queue.push(batch);
        !std::mem::replace(&mut state.served, true)
    }

    /// The next segment.
    pub(super) fn pop(&self) -> Option<Segment> {
        self.lock().queue.pop().map(|(_, segment)| segment)
    }

    /// Lets go of the file, unless it has more to write.
    pub(super) fn leave(&self) -> bool {
        let mut state = self.lock();
        state.served = !state.queue.is_empty();
        !state.served
    }
}
