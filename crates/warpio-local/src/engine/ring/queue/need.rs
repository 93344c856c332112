//! What the segments of a batch need beside a place in a ring.

use warpio_core::DeviceId;
use warpio_core::engine::{Batch, Direction, Segment};

use crate::alignment::COMMON_ALIGN;
use crate::engine::ring::target::{Mode, RingTarget};
use crate::engine::ring::window::Window;
use crate::sys::statx::StorageId;

/// A file system that answers, a staging slot, and that storage is not asked for too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) storage: Option<StorageId>,
    pub(super) staging: Option<(DeviceId, SlotSize)>,
    /// Some of them are long reads, which wait until storage has done with others.
    pub(super) room: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotSize {
    Small,
    Large,
}

impl Need {
    /// What the segments of a batch need, and how many slots of that kind there can be.
    pub(super) fn of(batch: &Batch, target: &RingTarget) -> (Self, usize) {
        let segments = batch.segments();
        let longest = segments.iter().map(Segment::len).max().unwrap_or(0);
        let staging = segments.iter().find(|segment| needs_staging(segment, target.mode())).map(|segment| {
            let (device, pool) = (segment.device(), segment.device().staging());
            // Widened at both ends.
            match longest + 2 * COMMON_ALIGN as usize <= pool.small_slot_len() {
                true => ((device.id(), SlotSize::Small), pool.max_small_slots()),
                false => ((device.id(), SlotSize::Large), pool.max_slots()),
            }
        });
        let room = segments.iter().any(is_long_read);
        let need = Self { storage: target.file().storage(), staging: staging.map(|(id, _)| id), room };
        (need, staging.map_or(0, |(_, slots)| slots))
    }
}

/// Whether a segment may need a slot. Segments that do after all wait in the wrong class, which harms only that class.
fn needs_staging(segment: &Segment, mode: Mode) -> bool {
    let Some(memory) = segment.host_memory() else { return true };
    let aligned =
        (memory.as_ptr().addr() | segment.offset() as usize | segment.len()).is_multiple_of(COMMON_ALIGN as usize);
    mode == Mode::Direct && segment.direction() == Direction::Read && !aligned
}

/// Whether it counts for how much its storage is asked for.
pub(super) fn is_long_read(segment: &Segment) -> bool {
    segment.direction() == Direction::Read && segment.len() >= Window::LEAST_READ
}
