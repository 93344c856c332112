use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::segment::Direction;
use crate::transfer::{PathBytes, PathKind};

/// Counts of the transfers of one runtime. Cheap to clone; the clones count together.
#[derive(Clone, Debug, Default)]
pub struct Stats(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    in_flight: AtomicUsize,
    finished: AtomicU64,
    failed: AtomicU64,
    read: PathBytes,
    written: PathBytes,
    closed: AtomicBool,
    idle: tokio::sync::Notify,
}

/// What [`Stats`] counted up to one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatsSnapshot {
    /// Transfers of which something may still touch memory.
    pub in_flight: usize,
    /// Transfers that ended well.
    pub finished: u64,
    /// Transfers that failed or were cancelled.
    pub failed: u64,
    /// Bytes read, by path.
    pub read: Vec<(PathKind, u64)>,
    /// Bytes written, by path.
    pub written: Vec<(PathKind, u64)>,
}

impl Stats {
    pub(super) fn begin(&self) {
        self.0.in_flight.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn end(&self, direction: Direction, report: &PathBytes, ok: bool) {
        let paths = match direction {
            Direction::Read => &self.0.read,
            Direction::Write => &self.0.written,
        };
        for path in PathKind::ALL {
            paths.add(path, report.get(path));
        }
        let outcome = if ok { &self.0.finished } else { &self.0.failed };
        outcome.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn released(&self) {
        if self.0.in_flight.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }

    /// Transfers of which something may still touch memory.
    pub fn in_flight(&self) -> usize {
        self.0.in_flight.load(Ordering::Acquire)
    }

    /// Waits until no transfer is in flight.
    pub async fn idle(&self) {
        loop {
            // Enlisted before the look, so that the last transfer cannot end in between unheard.
            let notified = self.0.idle.notified();
            let mut notified = std::pin::pin!(notified);
            notified.as_mut().enable();
            if self.in_flight() == 0 {
                return;
            }
            notified.await;
        }
    }

    /// Refuses new transfers, as [`Gone`](crate::ErrorKind::Gone).
    pub fn close(&self) {
        self.0.closed.store(true, Ordering::Release);
    }

    /// Whether new transfers are refused.
    pub fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }

    /// The counts now.
    pub fn snapshot(&self) -> StatsSnapshot {
        let inner = &self.0;
        let list = |paths: &PathBytes| {
            PathKind::ALL.into_iter().map(|path| (path, paths.get(path))).filter(|&(_, n)| n > 0).collect()
        };
        StatsSnapshot {
            in_flight: self.in_flight(),
            finished: inner.finished.load(Ordering::Relaxed),
            failed: inner.failed.load(Ordering::Relaxed),
            read: list(&inner.read),
            written: list(&inner.written),
        }
    }
}
