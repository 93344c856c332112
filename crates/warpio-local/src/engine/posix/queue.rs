//! What waits for a thread: reads by turns between transfers, and files that have something to write.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use warpio_core::Error;
use warpio_core::engine::{Batch, Direction, FairQueue, Gather, GatherTask, Segment, Target};

use crate::engine::OpenFile;

/// What a thread does next.
pub(super) enum Job {
    /// A batch of reads whose uncached part is to be asked for first.
    Sort(Batch),
    /// One segment to read.
    Read(Target, Segment),
    /// A read of many ranges that is to be cut into tasks.
    Plan(Target, Gather),
    /// One task of such a read.
    Gather(Target, GatherTask),
    /// A file whose writes nobody serves yet.
    Writes(Arc<OpenFile>),
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    unsorted: VecDeque<Batch>,
    reads: FairQueue,
    /// Reads of many ranges, which take turns.
    gathers: VecDeque<Many>,
    /// Each file once: the kernel lets one thread at a time write to a file through the page cache, and others would
    /// only spin for its lock.
    writes: VecDeque<Arc<OpenFile>>,
    /// Whose turn it is, so that no kind starves the others.
    turn: usize,
    idle: usize,
    closed: bool,
}

/// A read of many ranges.
enum Many {
    Unplanned(Target, Gather),
    Tasks(Target, VecDeque<GatherTask>),
}

impl std::fmt::Debug for Many {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unplanned(_, gather) => gather.fmt(f),
            Self::Tasks(_, tasks) => tasks.fmt(f),
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn submit(&self, batch: Batch) {
        let Some(first) = batch.segments().first() else { return };
        let (new, direction) = (batch.segments().len(), first.direction());
        let sleepers = match direction {
            Direction::Read => {
                let mut state = self.lock();
                state.reads.push(batch);
                state.idle.min(new)
            }
            Direction::Write => {
                let Some(file) = batch.target::<OpenFile>() else {
                    return batch.fail(&Error::invalid_input("this engine serves open files only"));
                };
                if !file.writes().push(batch) {
                    return;
                }
                let mut state = self.lock();
                state.writes.push_back(file);
                state.idle.min(1)
            }
        };
        self.rouse(sleepers);
    }

    pub(super) fn submit_unsorted(&self, batch: Batch) {
        let sleepers = {
            let mut state = self.lock();
            state.unsorted.push_back(batch);
            state.idle.min(1)
        };
        self.rouse(sleepers);
    }

    pub(super) fn submit_gather(&self, target: Target, gather: Gather) {
        self.push_gather(Many::Unplanned(target, gather), 1);
    }

    pub(super) fn submit_tasks(&self, target: Target, tasks: Vec<GatherTask>) {
        let new = tasks.len();
        if new > 0 {
            self.push_gather(Many::Tasks(target, tasks.into()), new);
        }
    }

    fn push_gather(&self, many: Many, new: usize) {
        let sleepers = {
            let mut state = self.lock();
            state.gathers.push_back(many);
            state.idle.min(new)
        };
        self.rouse(sleepers);
    }

    fn rouse(&self, sleepers: usize) {
        match sleepers {
            0 => {}
            1 => self.wake.notify_one(),
            _ => self.wake.notify_all(),
        }
    }

    /// Lets a file wait for its next turn.
    pub(super) fn again(&self, file: Arc<OpenFile>) {
        let sleepers = {
            let mut state = self.lock();
            state.writes.push_back(file);
            state.idle.min(1)
        };
        self.rouse(sleepers);
    }

    /// Blocks until something is to do; `None` once the queue was closed and nothing is left.
    pub(super) fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.pop() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_all();
    }
}

impl State {
    fn pop(&mut self) -> Option<Job> {
        const KINDS: [fn(&mut State) -> Option<Job>; 3] = [State::pop_read, State::pop_write, State::pop_gather];
        // Storage idles until it is done, and it takes no time.
        if let Some(batch) = self.unsorted.pop_front() {
            return Some(Job::Sort(batch));
        }
        self.turn += 1;
        (0..KINDS.len()).find_map(|kind| KINDS[(self.turn + kind) % KINDS.len()](self))
    }

    fn pop_gather(&mut self) -> Option<Job> {
        match self.gathers.pop_front()? {
            Many::Unplanned(target, gather) => Some(Job::Plan(target, gather)),
            Many::Tasks(target, mut tasks) => {
                let task = tasks.pop_front()?;
                if !tasks.is_empty() {
                    self.gathers.push_back(Many::Tasks(target.clone(), tasks));
                }
                Some(Job::Gather(target, task))
            }
        }
    }

    fn pop_read(&mut self) -> Option<Job> {
        self.reads.pop().map(|(target, segment)| Job::Read(target, segment))
    }

    fn pop_write(&mut self) -> Option<Job> {
        self.writes.pop_front().map(Job::Writes)
    }
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
