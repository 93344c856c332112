//! Which part of a segment can go straight between storage and GPU.

/// What direct requests are multiples of: the logical block of storage, and the page of memory.
pub(crate) const ALIGN: usize = 4096;

/// A segment in three parts, by their lengths in bytes; what is left behind head and body is the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Before the first multiple of 4 KiB.
    pub(crate) head: usize,
    /// Whole blocks; never zero.
    pub(crate) body: usize,
}

/// Cuts `offset..offset + len`, whose memory begins at `address`. `None` if no whole block is in it, or if its blocks do
/// not lie on pages and have to (`on_pages`).
pub(crate) fn cut(offset: u64, address: usize, len: usize, on_pages: bool) -> Option<Cut> {
    let align = ALIGN as u64;
    let head = (offset.next_multiple_of(align) - offset) as usize;
    let body = len.checked_sub(head)? / ALIGN * ALIGN;
    let lies_well = !on_pages || address.wrapping_add(head).is_multiple_of(ALIGN);
    (body > 0 && lies_well).then_some(Cut { head, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aligned_segment_is_all_body() {
        assert_eq!(cut(8192, 0x1000, 12_288, true), Some(Cut { head: 0, body: 12_288 }));
    }

    #[test]
    fn edges_are_cut_off() {
        assert_eq!(cut(100, 0x1000 + 100, 10_000, true), Some(Cut { head: 3996, body: 4096 }));
        assert_eq!(cut(4096, 0x1000, 5000, true), Some(Cut { head: 0, body: 4096 }));
    }

    #[test]
    fn what_holds_no_whole_block_has_no_body() {
        for (offset, len) in [(0, 4095), (1, 4096), (4095, 4096), (1, 8190), (0, 0), (5, 3)] {
            assert_eq!(cut(offset, offset as usize, len, true), None, "{len} bytes at {offset}");
        }
    }

    #[test]
    fn memory_that_lies_across_pages_has_no_body_unless_it_may() {
        assert_eq!(cut(0, 0x1010, 8192, true), None);
        assert_eq!(cut(0, 0x1010, 8192, false), Some(Cut { head: 0, body: 8192 }));
    }

    #[test]
    fn the_parts_cover_the_segment_and_the_body_is_whole_blocks() {
        for offset in (0..20_000).step_by(511) {
            for len in (1..30_000).step_by(997) {
                let Some(Cut { head, body }) = cut(offset, 0x10_0000 + offset as usize, len, true) else { continue };
                assert!(head < ALIGN && head + body <= len && len - head - body < ALIGN);
                assert!((offset + head as u64).is_multiple_of(ALIGN as u64) && body.is_multiple_of(ALIGN));
            }
        }
    }
}
