//! Bytes on their way from a device into a slot, before they are written.

use std::sync::Arc;

use warpio_core::Slot;
use warpio_core::engine::{Lane, Segment, Target};

use super::queue::{Expected, Queue, Ticket, Work};

/// Starts the copy of a segment's bytes into `slot`; the queue gets the segment back when they lie there.
pub(super) fn copy_out(queue: &Arc<Queue>, ticket: Ticket, target: Target, segment: Segment, lane: &Lane, slot: Slot) {
    let delivery = Delivery { expected: queue.expect(), ticket, target: Some(target) };
    // If nothing was enqueued, or the device fails, the segment has ended and the delivery is dropped.
    if let Some(outgoing) = segment.copy_out(lane, slot) {
        outgoing.then(move |segment, slot| delivery.deliver(segment, slot));
    }
}

/// Brings a segment back to the queue, or tells it that the segment has ended.
struct Delivery {
    expected: Expected,
    ticket: Ticket,
    target: Option<Target>,
}

impl Delivery {
    fn deliver(mut self, segment: Segment, slot: Slot) {
        if let Some(target) = self.target.take() {
            self.expected.queue().staged(Work { ticket: self.ticket, target, segment, slot: Some(slot) });
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if self.target.is_some() {
            self.expected.queue().ended(self.ticket);
        }
    }
}
