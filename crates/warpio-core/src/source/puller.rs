//! Carries segments out by futures on a tokio runtime: a bounded number of tasks that pull.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{Either, select};
use tokio::runtime::Handle;

use crate::engine::{Batch, Engine, FairQueue, LanePool, Seat, Seats, Segment};

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
    seats: Seats<FairQueue>,
}

impl<W: Work> Puller<W> {
    pub(super) fn new(work: Arc<W>, handle: Handle, limit: usize) -> Self {
        Self { work, handle, limit: limit.max(1), lanes: Arc::default(), seats: Seats::default() }
    }

    fn spawn(&self, mut seat: Seat<FairQueue>, first: Segment) {
        let (work, lanes, limit) = (self.work.clone(), self.lanes.clone(), self.limit);
        // On a runtime that has ended, the task is dropped here, and its seat with it.
        self.handle.spawn(async move {
            let mut next = Some(first);
            while let Some(segment) = next {
                if segment.is_moot() {
                    segment.skip();
                } else {
                    run(&work, segment, &lanes).await;
                    // A source that never waits would keep this worker from everything else.
                    tokio::task::yield_now().await;
                }
                next = seat.next(limit, pop);
            }
        });
    }
}

fn pop(queue: &mut FairQueue) -> Option<Segment> {
    queue.pop().map(|(_, segment)| segment)
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

impl<W: Work> Engine for Puller<W> {
    fn submit(&self, batch: Batch) {
        self.seats.queue(|queue| queue.push(batch));
        while let Some((seat, segment)) = self.seats.take(self.limit, pop) {
            self.spawn(seat, segment);
        }
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
