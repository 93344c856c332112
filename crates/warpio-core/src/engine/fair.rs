use std::collections::VecDeque;

use super::batch::{Batch, Target};
use super::segment::Segment;

/// Segments that wait for a worker, handed out by turns between the batches: a small transfer waits for as many
/// segments as there are transfers before it, however large those are.
#[derive(Debug, Default)]
pub struct FairQueue {
    turns: VecDeque<Turn>,
    len: usize,
}

struct Turn {
    target: Target,
    segments: VecDeque<Segment>,
}

impl FairQueue {
    /// Adds a batch at the end of the row.
    pub fn push(&mut self, batch: Batch) {
        let (target, segments) = batch.into_parts();
        if !segments.is_empty() {
            self.len += segments.len();
            self.turns.push_back(Turn { target, segments: segments.into() });
        }
    }

    /// The next segment, of the batch whose turn it is.
    pub fn pop(&mut self) -> Option<(Target, Segment)> {
        let mut turn = self.turns.pop_front()?;
        let segment = turn.segments.pop_front()?;
        self.len -= 1;
        let target = turn.target.clone();
        if !turn.segments.is_empty() {
            self.turns.push_back(turn);
        }
        Some((target, segment))
    }

    /// How many segments wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no segment waits.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn").field("segments", &self.segments.len()).finish_non_exhaustive()
    }
}
