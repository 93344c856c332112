use crate::engine::{Batch, Engine, Segment};
use crate::sync::{Mutex, lock};
use crate::{Error, Result};

/// An engine that holds every segment until the test lets it go: for what happens when something is dropped, cancelled
/// or shut down in mid-flight.
#[derive(Debug, Default)]
pub struct HeldEngine {
    held: Mutex<Vec<Held>>,
}

/// A segment that is held back, as if the kernel were writing its memory.
#[derive(Debug)]
pub struct Held(Segment);

impl HeldEngine {
    /// The segments submitted since the last call, in order.
    pub fn take(&self) -> Vec<Held> {
        std::mem::take(&mut *lock(&self.held))
    }

    /// How many segments are held.
    pub fn len(&self) -> usize {
        lock(&self.held).len()
    }

    /// Whether no segment is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Engine for HeldEngine {
    fn submit(&self, batch: Batch) {
        lock(&self.held).extend(batch.into_parts().1.into_iter().map(Held));
    }

    fn name(&self) -> &'static str {
        "held"
    }
}

impl Held {
    /// The segment.
    pub fn segment(&self) -> &Segment {
        &self.0
    }

    /// The segment itself, to go on with as an engine does.
    pub fn into_segment(self) -> Segment {
        self.0
    }

    /// Writes `byte` all over the segment's host memory, as late as now, and finishes it in full. Under
    /// AddressSanitizer this shows that the memory is still there.
    pub fn fill(self, byte: u8) {
        let len = self.0.len();
        if let Some(memory) = self.0.host_memory() {
            // SAFETY: a segment's memory is valid for its length until it is finished.
            unsafe { memory.as_ptr().write_bytes(byte, len) };
        }
        self.0.finish(Ok(len));
    }

    /// Finishes the segment with this result.
    pub fn finish(self, result: Result<usize>) {
        self.0.finish(result);
    }

    /// Fails the segment.
    pub fn fail(self, error: Error) {
        self.0.finish(Err(error));
    }

    /// Drops the segment unfinished, as an engine does that ends.
    pub fn abandon(self) {
        drop(self.0);
    }
}
