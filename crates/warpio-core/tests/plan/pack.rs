//! Many ranges joined into few reads.

use std::ops::Range;

use proptest::prelude::*;
use warpio_core::plan::{Piece, pack};

/// Ranges in a space small enough to be looked at byte by byte; some are empty, some end before they start.
fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
    prop::collection::vec((0u64..300, 0u64..60).prop_map(|(start, len)| start..start + len), 0..25).prop_map(
        |mut ranges| {
            if let Some(range) = ranges.get_mut(7) {
                *range = range.end + 1..range.start;
            }
            ranges
        },
    )
}

fn wanted(ranges: &[Range<u64>]) -> Vec<u64> {
    (0..400).filter(|byte| ranges.iter().any(|range| range.contains(byte))).collect()
}

/// The same, one byte at a time.
fn model(ranges: &[Range<u64>], gap: u64, max_run: u64) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for byte in wanted(ranges) {
        match runs.last_mut() {
            Some(run) if byte - run.end <= gap && byte - run.start < max_run => run.end = byte + 1,
            _ => runs.push(byte..byte + 1),
        }
    }
    runs
}

/// The reads, each with the pieces that it serves.
fn runs(ranges: &[Range<u64>], gap: u64, max_run: u64) -> Vec<(Range<u64>, Vec<Piece>)> {
    let packed = pack(ranges, gap, max_run);
    let runs: Vec<_> =
        (0..packed.len()).map(|run| (packed.range(run), packed.pieces()[packed.pieces_of(run)].to_vec())).collect();
    assert_eq!(packed.is_empty(), runs.is_empty());
    assert!(runs.iter().all(|(_, pieces)| !pieces.is_empty()), "nothing is read for nobody");
    assert_eq!(runs.iter().map(|(_, pieces)| pieces.len()).sum::<usize>(), packed.pieces().len());
    runs
}

fn extents(ranges: &[Range<u64>], gap: u64, max_run: u64) -> Vec<Range<u64>> {
    runs(ranges, gap, max_run).into_iter().map(|(range, _)| range).collect()
}

proptest! {
    #[test]
    fn runs_are_those_of_the_model(ranges in ranges(), gap in 0u64..40, max_run in 1u64..200) {
        prop_assert_eq!(extents(&ranges, gap, max_run), model(&ranges, gap, max_run));
    }

    #[test]
    fn every_byte_of_every_range_lies_in_exactly_one_piece(
        ranges in ranges(), gap in 0u64..40, max_run in 1u64..200,
    ) {
        let mut found: Vec<Vec<u64>> = ranges.iter().map(|_| Vec::new()).collect();
        for (run, pieces) in runs(&ranges, gap, max_run) {
            for piece in pieces {
                prop_assert!(piece.len > 0);
                prop_assert!(piece.run_offset + piece.len <= run.end - run.start);
                for i in 0..piece.len {
                    let byte = run.start + piece.run_offset + i;
                    prop_assert_eq!(byte, ranges[piece.index].start + piece.range_offset + i);
                    found[piece.index].push(byte);
                }
            }
        }
        for (range, mut bytes) in ranges.into_iter().zip(found) {
            bytes.sort_unstable();
            prop_assert_eq!(bytes, range.collect::<Vec<_>>());
        }
    }

    #[test]
    fn runs_are_sorted_apart_and_bounded(ranges in ranges(), gap in 0u64..40, max_run in 1u64..200) {
        let runs = extents(&ranges, gap, max_run);
        for pair in runs.windows(2) {
            prop_assert!(pair[0].end <= pair[1].start);
        }
        for run in runs {
            prop_assert!(run.start < run.end && run.end - run.start <= max_run);
        }
    }

    #[test]
    fn no_gap_longer_than_allowed_is_read(ranges in ranges(), gap in 0u64..40, max_run in 1u64..200) {
        let wanted = wanted(&ranges);
        for run in extents(&ranges, gap, max_run) {
            let mut unwanted = 0;
            for byte in run.clone() {
                unwanted = if wanted.contains(&byte) { 0 } else { unwanted + 1 };
                prop_assert!(unwanted <= gap, "{run:?} reads more than {gap} bytes in vain");
            }
            prop_assert_eq!(unwanted, 0, "{:?} ends with bytes that nobody wants", run);
        }
    }

    #[test]
    fn bytes_are_read_once_however_often_they_are_wanted(ranges in ranges(), max_run in 1u64..200) {
        let read: u64 = extents(&ranges, 0, max_run).iter().map(|run| run.end - run.start).sum();
        prop_assert_eq!(read, wanted(&ranges).len() as u64);
    }
}

#[test]
fn equal_ranges_are_one_read_with_a_piece_each() {
    let runs = runs(&[5..10, 5..10, 5..10], 0, 100);
    assert_eq!((runs.len(), &runs[0].0), (1, &(5..10)));
    assert_eq!(runs[0].1.iter().map(|piece| piece.index).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn the_gap_counts_to_the_byte() {
    assert_eq!(extents(&[0..10, 15..20], 5, 100), [0..20]);
    assert_eq!(extents(&[0..10, 15..20], 4, 100), [0..10, 15..20]);
}

#[test]
fn a_range_longer_than_a_run_has_several_pieces() {
    let runs = runs(std::slice::from_ref(&(0..25)), 0, 10);
    let found: Vec<_> = runs.iter().map(|(run, pieces)| (run.clone(), pieces[0].range_offset)).collect();
    assert_eq!(found, [(0..10, 0), (10..20, 10), (20..25, 20)]);
}

#[test]
fn nothing_wanted_is_nothing_read() {
    assert!(runs(&[], 10, 10).is_empty());
    assert!(runs(&[7..7, Range { start: 9, end: 3 }], 10, 10).is_empty());
}

#[test]
fn ranges_at_the_end_of_the_number_range_do_not_overflow() {
    let max = u64::MAX;
    assert_eq!(extents(&[max - 10..max, 0..1], max, max), [0..max]);
    assert_eq!(extents(&[max - 10..max, max - 3..max], 0, 4), [max - 10..max - 6, max - 6..max - 2, max - 2..max]);
    assert_eq!(extents(std::slice::from_ref(&(0..2)), 0, 0), [0..1, 1..2], "a run has at least a byte");
}
