//! Long reads past the page cache, cut into the pieces that disks do best with.

use warpio_core::engine::{Batch, Direction, Segment};

use super::target::Mode;

/// A disk that copies is faster into little memory, and one that is asked for several pieces is not idle between them.
const PIECE: usize = 2 << 20;
/// Pieces begin where those of any file system and disk do.
const ALIGN: u64 = 4096;

/// Cuts what is longer than a piece and a half.
pub(super) fn cut(batch: Batch, mode: Mode) -> Batch {
    if mode != Mode::Direct || !batch.segments().iter().any(is_to_be_cut) {
        return batch;
    }
    let (target, segments) = batch.into_parts();
    let mut pieces = Vec::with_capacity(2 * segments.len());
    for mut segment in segments {
        while is_to_be_cut(&segment) {
            let rest = segment.split_off(PIECE - (segment.offset() % ALIGN) as usize);
            pieces.push(std::mem::replace(&mut segment, rest));
        }
        pieces.push(segment);
    }
    Batch::new(target, pieces)
}

fn is_to_be_cut(segment: &Segment) -> bool {
    segment.direction() == Direction::Read && segment.len() > PIECE + PIECE / 2
}
