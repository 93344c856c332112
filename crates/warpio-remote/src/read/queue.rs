use std::collections::VecDeque;
use std::sync::Arc;

use warpio_core::engine::{Batch, Segment};

use super::object::Object;
use crate::server::Claim;

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
    /// Its bytes, counted among those that are coming.
    pub(super) claim: Option<Claim>,
    /// Of an object that is read in order, one part at a time: gives the turn to the next when it is dropped.
    pub(super) turn: Option<StreamTurn>,
}

/// The right to read an object that is read in order.
#[derive(Debug)]
pub(super) struct StreamTurn(Arc<Object>);

impl Drop for StreamTurn {
    fn drop(&mut self) {
        self.0.set_busy(false);
    }
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

    /// The next part, of about `len` bytes. `None` where all that waits is for objects that are read in order, and being
    /// read.
    pub(super) fn pop(&mut self, len: u64) -> Option<Part> {
        let ready = self.turns.iter().position(|turn| !(turn.object.is_stream() && turn.object.is_busy()))?;
        let mut turn = self.turns.remove(ready)?;
        // A stream is read in order, so that all of it goes to one reader.
        let streams = turn.object.is_stream();
        let len = if streams { u64::MAX } else { len };
        let reader = streams.then(|| {
            turn.object.set_busy(true);
            StreamTurn(turn.object.clone())
        });
        let mut part = Part { object: turn.object.clone(), segments: VecDeque::new(), claim: None, turn: reader };
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
