use std::collections::VecDeque;
use std::sync::Arc;

use warpio_core::engine::{Batch, Segment};

use super::object::Object;

/// Segments that wait for a request, by turns between the transfers: a small one waits for as many parts as there are
/// transfers before it, however large those are.
#[derive(Debug, Default)]
pub(super) struct PartQueue {
    turns: VecDeque<Turn>,
    bytes: u64,
}

#[derive(Debug)]
struct Turn {
    object: Arc<Object>,
    segments: VecDeque<Segment>,
}

/// Neighbouring segments of one transfer, for one request.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) object: Arc<Object>,
    pub(super) segments: VecDeque<Segment>,
}

impl PartQueue {
    /// Adds a transfer. One of another engine's is dropped, and fails as gone.
    pub(super) fn push(&mut self, batch: Batch) {
        let Some(object) = batch.target::<Object>() else { return };
        let segments = VecDeque::from(batch.into_parts().1);
        if !segments.is_empty() {
            self.bytes += segments.iter().map(|segment| segment.len() as u64).sum::<u64>();
            self.turns.push_back(Turn { object, segments });
        }
    }

    /// The next part, of about `len` bytes.
    pub(super) fn pop(&mut self, len: u64) -> Option<Part> {
        let mut turn = self.turns.pop_front()?;
        // A stream is read in order, so that all of it goes to one reader.
        let len = if turn.object.is_stream() { u64::MAX } else { len };
        let mut part = Part { object: turn.object.clone(), segments: VecDeque::new() };
        let (mut end, mut bytes) = (None, 0);
        while let Some(segment) = turn.segments.front() {
            let more = segment.len() as u64;
            let fits = part.segments.is_empty() || (end == Some(segment.offset()) && bytes + more <= len);
            if !fits {
                break;
            }
            end = Some(segment.offset() + more);
            bytes += more;
            part.segments.extend(turn.segments.pop_front());
        }
        self.bytes -= bytes;
        if !turn.segments.is_empty() {
            self.turns.push_back(turn);
        }
        Some(part)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// How much waits.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}
