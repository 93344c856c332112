//! What O_DIRECT asks of a transfer, as arithmetic.
//!
//! Nothing here touches a file: [`DirectAlign`] holds the two alignments that a file system names, and answers which
//! transfers may go as they are, which may go when widened, and which bytes in the middle of a range may.

use std::ops::Range;

/// The largest offset the kernel knows (`loff_t` is signed).
const MAX_OFFSET: u64 = i64::MAX as u64;

/// What is assumed where a file is not asked, in bytes: no disk in use has larger sectors and no file system asks for more,
/// save those whose device says so.
pub(crate) const COMMON_ALIGN: u32 = 4096;

/// The alignments that direct I/O on one file asks for, both powers of two, in bytes.
///
/// ```
/// use warpio_local::alignment::DirectAlign;
///
/// let align = DirectAlign::new(512, 4096).unwrap();
/// assert!(align.admits(0x1000, 8192, 4096));
/// assert!(!align.admits(0x1000, 100, 4096));
/// let span = align.widen(100, 50).unwrap();
/// assert_eq!((span.start, span.len, span.head), (0, 4096, 100));
/// assert!(DirectAlign::new(512, 1000).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DirectAlign {
    memory: u32,
    offset: u32,
}

/// A range widened to the alignment of its file: what to read, and where in it the wanted bytes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AlignedSpan {
    /// Where the aligned read begins in the file.
    pub start: u64,
    /// How many bytes it reads; a multiple of the offset alignment.
    pub len: u64,
    /// Unwanted bytes before the wanted ones.
    pub head: u64,
    /// Unwanted bytes after the wanted ones.
    pub tail: u64,
}

/// A range cut at the alignment of its file: only `body` may go direct without touching bytes outside the range.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Split {
    /// Before the first boundary; the whole range when no aligned block lies inside it.
    pub head: Range<u64>,
    /// The aligned middle.
    pub body: Range<u64>,
    /// After the last boundary.
    pub tail: Range<u64>,
}

/// How a segment can be read into a staging slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Directly, as it stands.
    Direct,
    /// Directly, as this wider span, which fits into the slot.
    Widened(AlignedSpan),
    /// Only through the page cache.
    Buffered,
}

impl DirectAlign {
    /// Takes the alignment of memory and that of offsets and lengths. `None` if either is not a power of two.
    pub const fn new(memory: u32, offset: u32) -> Option<Self> {
        if memory.is_power_of_two() && offset.is_power_of_two() { Some(Self { memory, offset }) } else { None }
    }

    /// What the address of the memory must be a multiple of.
    pub const fn memory(self) -> usize {
        self.memory as usize
    }

    /// What offset and length in the file must be multiples of.
    pub const fn offset(self) -> u64 {
        self.offset as u64
    }

    /// The alignment at which a transfer cut in two keeps both its memory and its offset aligned.
    pub const fn unit(self) -> u64 {
        if self.memory > self.offset { self.memory as u64 } else { self.offset as u64 }
    }

    /// Whether this transfer may go direct as it stands. An empty one may not: there is nothing to ask the disk for.
    pub const fn admits(self, address: usize, offset: u64, len: u64) -> bool {
        len > 0
            && address.is_multiple_of(self.memory())
            && offset.is_multiple_of(self.offset())
            && len.is_multiple_of(self.offset())
    }

    /// The smallest aligned span that holds `offset..offset + len`. `None` where it would pass the largest offset.
    pub const fn widen(self, offset: u64, len: u64) -> Option<AlignedSpan> {
        let Some(end) = offset.checked_add(len) else {
            return None;
        };
        let start = offset - offset % self.offset();
        let Some(stop) = end.checked_next_multiple_of(self.offset()) else {
            return None;
        };
        if stop > MAX_OFFSET {
            return None;
        }
        Some(AlignedSpan { start, len: stop - start, head: offset - start, tail: stop - end })
    }

    /// Cuts `offset..offset + len` into an aligned body and what surrounds it. `None` where the range passes the
    /// largest offset.
    pub const fn split(self, offset: u64, len: u64) -> Option<Split> {
        let end = match offset.checked_add(len) {
            Some(end) if end <= MAX_OFFSET => end,
            _ => return None,
        };
        let last = end - end % self.offset();
        let first = match offset.checked_next_multiple_of(self.offset()) {
            Some(first) if first < last => first,
            _ => {
                return Some(Split { head: offset..end, body: end..end, tail: end..end });
            }
        };
        Some(Split { head: offset..first, body: first..last, tail: last..end })
    }

    /// How `offset..offset + len` can be read into the `capacity` bytes of memory at `address`.
    pub const fn place(self, address: usize, capacity: usize, offset: u64, len: u64) -> Placement {
        if len <= capacity as u64 && self.admits(address, offset, len) {
            return Placement::Direct;
        }
        if len == 0 || !address.is_multiple_of(self.memory()) {
            return Placement::Buffered;
        }
        match self.widen(offset, len) {
            Some(span) if span.len <= capacity as u64 => Placement::Widened(span),
            _ => Placement::Buffered,
        }
    }
}

impl AlignedSpan {
    /// How many wanted bytes arrived when the read of the span returned `n`. Fewer than wanted means end of file.
    pub const fn wanted_of(&self, n: u64) -> u64 {
        let wanted = self.len - self.head - self.tail;
        let arrived = n.saturating_sub(self.head);
        if arrived < wanted { arrived } else { wanted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn align(memory: u32, offset: u32) -> DirectAlign {
        DirectAlign::new(memory, offset).unwrap()
    }

    fn any_align() -> impl Strategy<Value = DirectAlign> {
        (0u32..17, 0u32..17).prop_map(|(m, o)| align(1 << m, 1 << o))
    }

    #[test]
    fn only_powers_of_two_are_alignments() {
        assert!(DirectAlign::new(0, 512).is_none());
        assert!(DirectAlign::new(512, 0).is_none());
        assert!(DirectAlign::new(3, 512).is_none());
        assert!(DirectAlign::new(4, 6).is_none());
        assert_eq!(DirectAlign::new(4, 512).map(DirectAlign::unit), Some(512));
        assert_eq!(DirectAlign::new(4096, 512).map(DirectAlign::unit), Some(4096));
    }

    #[test]
    fn each_of_address_offset_and_length_can_forbid_direct() {
        let a = align(512, 4096);
        assert!(a.admits(512, 4096, 8192));
        assert!(!a.admits(256, 4096, 8192));
        assert!(!a.admits(512, 2048, 8192));
        assert!(!a.admits(512, 4096, 8191));
        assert!(!a.admits(512, 4096, 0));
    }

    #[test]
    fn a_range_within_one_block_has_no_body() {
        let s = align(1, 4096).split(4097, 4095).unwrap();
        assert_eq!(s.head, 4097..8192);
        assert!(s.body.is_empty() && s.tail.is_empty());
    }

    #[test]
    fn a_range_over_three_blocks_keeps_the_middle() {
        let s = align(1, 4096).split(4000, 9000).unwrap();
        assert_eq!((s.head, s.body, s.tail), (4000..4096, 4096..12288, 12288..13000));
    }

    #[test]
    fn offsets_past_the_signed_limit_are_refused() {
        let a = align(512, 512);
        assert!(a.widen(u64::MAX, 1).is_none());
        assert!(a.widen(MAX_OFFSET, 1).is_none());
        assert!(a.widen(MAX_OFFSET - 1, 1).is_none(), "rounding up passes the limit");
        assert!(a.split(MAX_OFFSET, 1).is_none());
        assert!(a.split(MAX_OFFSET - 1, 1).is_some());
        assert_eq!(a.place(0, 4096, MAX_OFFSET - 1, 1), Placement::Buffered);
    }

    #[test]
    fn a_widened_read_must_fit_the_slot() {
        let a = align(512, 4096);
        assert_eq!(a.place(0x1000, 8192, 4096, 8192), Placement::Direct);
        assert!(matches!(a.place(0x1000, 8192, 4000, 4096), Placement::Widened(s) if s.len == 8192));
        assert_eq!(a.place(0x1000, 8191, 4000, 4096), Placement::Buffered);
        assert_eq!(a.place(0x1000, 4096, 4096, 8192), Placement::Buffered);
        assert_eq!(a.place(0x1001, 8192, 4096, 4096), Placement::Buffered);
        assert_eq!(a.place(0x1000, 8192, 4096, 0), Placement::Buffered);
    }

    #[test]
    fn bytes_before_and_after_the_wanted_ones_do_not_count() {
        let span = align(1, 4096).widen(100, 50).unwrap();
        assert_eq!([0, 100, 101, 149, 150, 4096].map(|n| span.wanted_of(n)), [0, 0, 1, 49, 50, 50]);
    }

    proptest! {
        #[test]
        fn a_widened_span_is_aligned_tight_and_holds_the_range(
            a in any_align(), offset in 0u64..1 << 62, len in 0u64..1 << 40,
        ) {
            let s = a.widen(offset, len).unwrap();
            prop_assert_eq!(s.start % a.offset(), 0);
            prop_assert_eq!(s.len % a.offset(), 0);
            prop_assert_eq!(s.start + s.head, offset);
            prop_assert_eq!(s.start + s.len - s.tail, offset + len);
            prop_assert!(s.head < a.offset() && s.tail < a.offset());
            prop_assert_eq!(s.wanted_of(s.len), len);
        }

        #[test]
        fn a_split_covers_the_range_in_order_and_its_body_is_aligned(
            a in any_align(), offset in 0u64..1 << 62, len in 0u64..1 << 40,
        ) {
            let s = a.split(offset, len).unwrap();
            prop_assert_eq!(s.head.start, offset);
            prop_assert_eq!(s.head.end, s.body.start);
            prop_assert_eq!(s.body.end, s.tail.start);
            prop_assert_eq!(s.tail.end, offset + len);
            if s.body.is_empty() {
                prop_assert!(len < 2 * a.offset(), "a block lies inside");
            } else {
                prop_assert!(a.admits(0, s.body.start, s.body.end - s.body.start));
                prop_assert!(s.head.end - s.head.start < a.offset());
                prop_assert!(s.tail.end - s.tail.start < a.offset());
            }
        }

        #[test]
        fn a_placement_keeps_its_promise(
            a in any_align(), address in 0usize..1 << 20, capacity in 0usize..1 << 20,
            offset in 0u64..1 << 40, len in 0u64..1 << 20,
        ) {
            match a.place(address, capacity, offset, len) {
                Placement::Direct => {
                    prop_assert!(a.admits(address, offset, len) && len <= capacity as u64);
                }
                Placement::Widened(s) => {
                    prop_assert!(a.admits(address, s.start, s.len) && s.len <= capacity as u64);
                    prop_assert!(s.head + s.tail > 0);
                }
                Placement::Buffered => {
                    let fits = a.widen(offset, len).is_some_and(|s| s.len <= capacity as u64);
                    prop_assert!(len == 0 || address % a.memory() != 0 || !fits);
                }
            }
        }
    }
}
