use std::fmt;

use super::segment::Segment;
use crate::Result;
use crate::device::DeviceEvent;
use crate::pool::Slot;

/// A segment whose bytes are being copied from the device into a slot. Dropped early, segment and slot live on until
/// the copy has ended.
pub struct Outgoing {
    parts: Option<(Segment, Slot)>,
    event: DeviceEvent,
}

impl Outgoing {
    pub(super) fn new(segment: Segment, slot: Slot, event: DeviceEvent) -> Self {
        Self { parts: Some((segment, slot)), event }
    }

    /// The length of the segment in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.parts.as_ref().map_or(0, |(segment, _)| segment.len())
    }

    /// Blocks until the bytes lie in the slot: for engines' own threads. `None` if the device failed; the segment has
    /// then ended with its error.
    pub fn wait(mut self) -> Option<(Segment, Slot)> {
        let result = self.event.synchronize();
        let (segment, slot) = self.parts.take()?;
        land(segment, slot, result)
    }

    /// Calls `then` when the bytes lie in the slot, on the device's reactor; not at all if the device failed.
    pub fn then(mut self, then: impl FnOnce(Segment, Slot) + Send + 'static) {
        if let Some((segment, slot)) = self.parts.take() {
            let device = segment.device().clone();
            device.backend().watch(
                self.event.clone(),
                Box::new(move |result| {
                    if let Some((segment, slot)) = land(segment, slot, result) {
                        then(segment, slot);
                    }
                }),
            );
        }
    }
}

fn land(segment: Segment, slot: Slot, result: Result<()>) -> Option<(Segment, Slot)> {
    match result {
        Ok(()) => Some((segment, slot)),
        Err(error) => {
            drop(slot);
            segment.finish(Err(error));
            None
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if let Some((segment, slot)) = self.parts.take() {
            let device = segment.device().clone();
            device.backend().watch(self.event.clone(), Box::new(move |_| drop((segment, slot))));
        }
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("event", &self.event).finish_non_exhaustive()
    }
}
