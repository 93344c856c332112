//! Which reads and writes a segment comes to.

use crate::alignment::{DirectAlign, Placement};

/// One read or write of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Where its bytes lie in memory, from the segment's first.
    pub(super) at: usize,
    /// Where they lie in the file.
    pub(super) offset: u64,
    pub(super) len: usize,
    /// What direct I/O asks for, if it goes past the page cache.
    pub(super) direct: Option<DirectAlign>,
}

/// A read of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) part: Part,
    /// Bytes that come before the wanted ones.
    pub(super) head: usize,
}

/// The read of `offset..offset + len` into the `capacity` bytes at `address`.
pub(super) fn read(align: Option<DirectAlign>, address: usize, capacity: usize, offset: u64, len: usize) -> Read {
    let as_it_stands = |direct| Read { part: Part { at: 0, offset, len, direct }, head: 0 };
    match align.map(|align| align.place(address, capacity, offset, len as u64)) {
        None | Some(Placement::Buffered) => as_it_stands(None),
        Some(Placement::Direct) => as_it_stands(align),
        Some(Placement::Widened(span)) => {
            let part = Part { at: 0, offset: span.start, len: span.len as usize, direct: align };
            Read { part, head: span.head as usize }
        }
    }
}

/// How long a slot must be so that `offset..offset + len` can be read past the page cache.
pub(super) fn widened_len(align: DirectAlign, offset: u64, len: usize) -> Option<usize> {
    usize::try_from(align.widen(offset, len as u64)?.len).ok()
}

/// The writes of `offset..offset + len` from memory at `address`, in this order.
///
/// What goes direct is whole pages: a page of which a part is written through the cache must not be written past it at
/// the same time. And it goes first, because it throws cached pages out.
pub(super) fn write(
    align: Option<DirectAlign>,
    page: u32,
    address: usize,
    offset: u64,
    len: usize,
) -> impl Iterator<Item = Part> {
    let whole = Part { at: 0, offset, len, direct: None };
    let parts = align.and_then(|align| direct_write(align, page, address, whole)).unwrap_or([Some(whole), None, None]);
    parts.into_iter().flatten()
}

fn direct_write(align: DirectAlign, page: u32, address: usize, whole: Part) -> Option<[Option<Part>; 3]> {
    let pages = DirectAlign::new(align.memory() as u32, page.max(align.offset() as u32))?;
    let split = pages.split(whole.offset, whole.len as u64)?;
    let part = |range: std::ops::Range<u64>, direct| {
        let (at, len) = ((range.start - whole.offset) as usize, (range.end - range.start) as usize);
        (len > 0).then_some(Part { at, offset: range.start, len, direct })
    };
    let body = part(split.body, Some(align))?;
    let admitted = align.admits(address + body.at, body.offset, body.len as u64);
    admitted.then(|| [Some(body), part(split.head, None), part(split.tail, None)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_align() -> impl Strategy<Value = Option<DirectAlign>> {
        prop::option::of((0u32..13, 0u32..14).prop_map(|(m, o)| DirectAlign::new(1 << m, 1 << o).unwrap()))
    }

    #[test]
    fn a_read_without_direct_io_stands_as_it_is() {
        let read = read(None, 3, 10, 5, 10);
        assert_eq!(read, Read { part: Part { at: 0, offset: 5, len: 10, direct: None }, head: 0 });
    }

    #[test]
    fn a_write_of_whole_pages_between_two_edges_is_three_parts() {
        let align = DirectAlign::new(4, 512);
        let parts: Vec<_> = write(align, 4096, 0x1000, 512, 9000).map(|p| (p.at, p.offset, p.len)).collect();
        assert_eq!(parts, [(3584, 4096, 4096), (0, 512, 3584), (7680, 8192, 1320)]);
        // The same bytes where no page could go direct, for the memory's sake.
        assert_eq!(write(align, 4096, 0x1001, 512, 9000).count(), 1);
    }

    proptest! {
        #[test]
        fn a_read_holds_the_wanted_bytes_and_fits(
            align in any_align(), address in 0usize..1 << 16, spare in 0usize..1 << 15, offset in 0u64..1 << 40,
            len in 1usize..1 << 20,
        ) {
            let Read { part, head } = read(align, address, len + spare, offset, len);
            prop_assert!(part.len <= len + spare);
            prop_assert_eq!(part.offset + head as u64, offset);
            prop_assert!(part.len >= head + len);
            if let Some(align) = part.direct {
                prop_assert!(align.admits(address, part.offset, part.len as u64));
            }
        }

        #[test]
        fn writes_cover_the_segment_once_and_share_no_page(
            align in any_align(), address in 0usize..1 << 16, offset in 0u64..1 << 40, len in 1usize..1 << 20,
        ) {
            let mut parts: Vec<_> = write(align, 4096, address, offset, len).collect();
            prop_assert!(parts.iter().skip(1).all(|part| part.direct.is_none()), "direct first");
            parts.sort_by_key(|part| part.at);
            let mut at = 0;
            for part in parts {
                prop_assert_eq!((part.at, part.offset), (at, offset + at as u64));
                at += part.len;
                if let Some(align) = part.direct {
                    prop_assert!(align.admits(address + part.at, part.offset, part.len as u64));
                    prop_assert!(part.offset % 4096 == 0 && part.len % 4096 == 0);
                }
            }
            prop_assert_eq!(at, len);
        }
    }
}
