//! Long reads past the page cache, cut into the pieces that disks do best with.

use warpio_core::engine::{Batch, Direction, Segment};

use super::target::Mode;
use crate::alignment::COMMON_ALIGN;

/// A disk that copies is faster into little memory, and one that is asked for several pieces is not idle between them.
pub(super) const PIECE: usize = 2 << 20;

/// Cuts the long reads of a batch.
pub(super) fn cut(batch: Batch, mode: Mode) -> Batch {
    let is_to_be_cut = |segment: &Segment| first_piece(segment.offset(), segment.len()).is_some();
    let reads = batch.segments().first().is_some_and(|first| first.direction() == Direction::Read);
    if mode != Mode::Direct || !reads || !batch.segments().iter().any(is_to_be_cut) {
        return batch;
    }
    let (target, segments) = batch.into_parts();
    let mut pieces = Vec::with_capacity(2 * segments.len());
    for mut segment in segments {
        while let Some(len) = first_piece(segment.offset(), segment.len()) {
            let rest = segment.split_off(len);
            pieces.push(std::mem::replace(&mut segment, rest));
        }
        pieces.push(segment);
    }
    Batch::new(target, pieces)
}

/// How much of a read of more than a piece and a half is asked for by itself, so that the rest begins at a block.
fn first_piece(offset: u64, len: usize) -> Option<usize> {
    (len > PIECE + PIECE / 2).then(|| PIECE - (offset % u64::from(COMMON_ALIGN)) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(mut offset: u64, mut len: usize) -> Vec<usize> {
        let mut pieces = Vec::new();
        while let Some(piece) = first_piece(offset, len) {
            (offset, len) = (offset + piece as u64, len - piece);
            pieces.push(piece);
        }
        pieces.push(len);
        pieces
    }

    #[test]
    fn long_reads_are_cut_and_others_are_not() {
        assert_eq!(pieces(0, PIECE), [PIECE]);
        assert_eq!(pieces(0, PIECE + PIECE / 2), [PIECE + PIECE / 2]);
        assert_eq!(pieces(0, PIECE + PIECE / 2 + 1), [PIECE, PIECE / 2 + 1]);
        assert_eq!(pieces(0, 2 * PIECE), [PIECE; 2]);
        assert_eq!(pieces(8192, 3 * PIECE + 5), [PIECE, PIECE, PIECE + 5]);
    }

    #[test]
    fn what_follows_the_first_piece_begins_at_a_block() {
        assert_eq!(pieces(1, 2 * PIECE), [PIECE - 1, PIECE + 1]);
        assert_eq!(pieces(u64::from(COMMON_ALIGN) + 512, 4 * PIECE), [PIECE - 512, PIECE, PIECE, PIECE + 512]);
    }
}
