//! Carries segments out by futures on a tokio runtime: a bounded number of tasks that pull.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{Either, select};
use tokio::runtime::Handle;

use crate::engine::{Batch, Engine, FairQueue, LanePool, Segment};
use crate::sync::{Mutex, lock};

/// What a task does with one segment. Its future is dropped when the segment is not wanted any more.
pub(super) trait Work: Send + Sync + 'static {
    fn run(self: Arc<Self>, segment: Segment, lanes: Arc<LanePool>) -> impl Future<Output = ()> + Send;
    fn name(&self) -> &'static str;
}

pub(super) struct Puller<W> {
    work: Arc<W>,
    handle: Handle,
    limit: usize,
    lanes: Arc<LanePool>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    queue: FairQueue,
    tasks: usize,
}

impl<W: Work> Puller<W> {
    pub(super) fn new(work: Arc<W>, handle: Handle, limit: usize) -> Self {
        Self { work, handle, limit: limit.max(1), lanes: Arc::default(), state: Arc::default() }
    }

    fn spawn(&self) {
        let seat = Seat { state: self.state.clone(), ended: false };
        let (work, lanes) = (self.work.clone(), self.lanes.clone());
        // On a runtime that has ended, the task is dropped here, and its seat with it.
        self.handle.spawn(async move {
            while let Some(segment) = seat.next() {
                if segment.is_moot() {
                    segment.skip();
                } else {
                    run(&work, segment, &lanes).await;
                    // A source that never waits would keep this worker from everything else.
                    tokio::task::yield_now().await;
                }
            }
            seat.end();
        });
    }
}

/// Works on one segment until that is done or nobody wants it any more. A source that panics fails the transfer that it
/// was working for, and no other.
async fn run<W: Work>(work: &Arc<W>, segment: Segment, lanes: &Arc<LanePool>) {
    let moot = pin!(segment.moot());
    let done = pin!(AssertUnwindSafe(work.clone().run(segment, lanes.clone())).catch_unwind());
    if let Either::Right((Err(_), _)) = select(moot, done).await {
        tracing::error!(source = work.name(), "a source panicked");
    }
}

/// A task's right to pull. When the task is dropped before its end, the last one takes the queue along, so that nobody
/// waits for a runtime that is gone.
struct Seat {
    state: Arc<Mutex<State>>,
    ended: bool,
}

impl Seat {
    fn next(&self) -> Option<Segment> {
        let mut state = lock(&self.state);
        match state.queue.pop() {
            Some((_, segment)) => Some(segment),
            None => {
                // Under the same lock: a batch that comes now finds a seat free.
                state.tasks -= 1;
                None
            }
        }
    }

    fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let orphans = {
            let mut state = lock(&self.state);
            state.tasks -= 1;
            if state.tasks > 0 {
                return;
            }
            std::mem::take(&mut state.queue)
        };
        drop(orphans);
    }
}

impl<W: Work> Engine for Puller<W> {
    fn submit(&self, batch: Batch) {
        let new = {
            let mut state = lock(&self.state);
            state.queue.push(batch);
            let new = state.queue.len().min(self.limit.saturating_sub(state.tasks));
            state.tasks += new;
            new
        };
        (0..new).for_each(|_| self.spawn());
    }

    fn name(&self) -> &'static str {
        self.work.name()
    }
}

impl<W> std::fmt::Debug for Puller<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Puller").field("limit", &self.limit).finish_non_exhaustive()
    }
}
