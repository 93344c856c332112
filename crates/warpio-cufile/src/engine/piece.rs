use std::sync::Arc;

use warpio_core::engine::{Direction, Segment};
use warpio_core::{Error, PathKind};

use super::target::CuFileTarget;
use super::watch::Work;

/// A segment on its way through cuFile.
pub(super) struct Piece {
    segment: Segment,
    pub(super) target: Arc<CuFileTarget>,
    /// Bytes that are in their place.
    pub(super) done: usize,
    /// It failed as an entry of a batch, on a stream, or in a call with others, and goes by a call of its own now.
    pub(super) alone: bool,
    /// Signals that came in between.
    pub(super) interruptions: u32,
    _work: Work,
}

impl Piece {
    pub(super) fn new(segment: Segment, target: Arc<CuFileTarget>, work: Work) -> Self {
        Self { segment, target, done: 0, alone: false, interruptions: 0, _work: work }
    }

    pub(super) fn segment(&self) -> &Segment {
        &self.segment
    }

    pub(super) fn direction(&self) -> Direction {
        self.segment.direction()
    }

    /// Where in the file its next byte goes.
    pub(super) fn offset(&self) -> u64 {
        self.segment.offset() + self.done as u64
    }

    /// Where in memory its next byte goes.
    pub(super) fn address(&self) -> usize {
        self.segment.device_memory().as_ptr() as usize + self.done
    }

    /// How many bytes are still to move.
    pub(super) fn left(&self) -> usize {
        self.segment.len() - self.done
    }

    /// Whether `next` goes on where this one ends, in the file and in memory, and both may be moved by one request.
    pub(super) fn is_followed_by(&self, next: &Self) -> bool {
        !self.alone
            && !next.alone
            && Arc::ptr_eq(self.target.file(), next.target.file())
            && self.direction() == next.direction()
            && self.segment.device() == next.segment.device()
            && self.offset() + self.left() as u64 == next.offset()
            && self.address() + self.left() == next.address()
            && self.target.is_strict() == next.target.is_strict()
            && self.shares_allocation_with(next)
    }

    /// Neighbours in memory may be allocations of their own. The library takes none for a part of the other, and refuses
    /// a request that goes over the end of what is registered.
    fn shares_allocation_with(&self, other: &Self) -> bool {
        let base = |piece: &Self| piece.segment.memory_block().map(|block| block.base());
        base(self) == base(other)
    }

    /// Ends it with what is done so far.
    pub(super) fn finish(mut self, path: PathKind) {
        self.segment.set_path(path);
        guarded(|| self.segment.finish(Ok(self.done)));
    }

    pub(super) fn fail(self, error: Error) {
        guarded(|| self.segment.finish(Err(error)));
    }

    pub(super) fn skip(self) {
        guarded(|| self.segment.skip());
    }

    /// Ends it although its memory may be touched for ever.
    pub(super) fn abandon(self, error: Error) {
        guarded(|| self.segment.abandon(error));
    }

    /// Gives it to the engine that does what cuFile does not, from its beginning.
    pub(super) fn hand_over(self) -> Result<(), Self> {
        let Self { segment, target, _work, .. } = self;
        match target.hand_over(vec![segment]) {
            Ok(()) => Ok(()),
            Err(mut segments) => match segments.pop() {
                Some(segment) => Err(Self::new(segment, target, _work)),
                None => Ok(()),
            },
        }
    }
}

/// A waker is the caller's code and may panic; the thread serves others too.
fn guarded(end: impl FnOnce()) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(end)).is_err() {
        tracing::error!("a waker or callback of a transfer panicked on a thread for cuFile");
    }
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Piece").field("segment", &self.segment).field("done", &self.done).finish_non_exhaustive()
    }
}
