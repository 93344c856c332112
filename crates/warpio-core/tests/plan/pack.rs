use std::ops::Range;

use proptest::prelude::*;
use warpio_core::plan::pack;

fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
    prop::collection::vec((0..2000u64, 0..400u64).prop_map(|(start, len)| start..start + len), 0..40)
}

proptest! {
    #[test]
    fn every_byte_of_every_range_has_one_piece_in_a_read_that_holds_it(
        ranges in ranges(), gap in 0..100u64, max_run in 1..300u64,
    ) {
        let packed = pack(&ranges, gap, max_run);
        let mut served = vec![Vec::new(); ranges.len()];
        let mut behind = 0;
        for run in 0..packed.len() {
            let range = packed.range(run);
            prop_assert!(range.start < range.end && range.end - range.start <= max_run);
            prop_assert!(run == 0 || range.start >= packed.range(run - 1).end, "nothing is read twice");
            let of_run = packed.pieces_of(run);
            prop_assert_eq!(of_run.start, behind);
            prop_assert!(!of_run.is_empty());
            behind = of_run.end;
            // Byte by byte: which are wanted, and no gap is longer than allowed.
            let wanted = |at: &u64| ranges.iter().any(|range| range.contains(at));
            let mut unwanted = 0;
            for at in range.clone() {
                unwanted = if wanted(&at) { 0 } else { unwanted + 1 };
                prop_assert!(unwanted <= gap);
            }
            prop_assert!(wanted(&range.start) && wanted(&(range.end - 1)));
            for piece in &packed.pieces()[of_run] {
                prop_assert_eq!(range.start + piece.run_offset, ranges[piece.index].start + piece.range_offset);
                prop_assert!(piece.len > 0 && piece.run_offset + piece.len <= range.end - range.start);
                served[piece.index].push((piece.range_offset, piece.len));
            }
        }
        prop_assert_eq!(behind, packed.pieces().len());
        for (range, mut pieces) in ranges.iter().zip(served) {
            pieces.sort_unstable();
            let end = pieces.iter().try_fold(0, |at, &(start, len)| (at == start).then_some(at + len));
            prop_assert_eq!(end, Some(range.end - range.start));
        }
    }
}

#[test]
fn ranges_at_the_end_of_what_there_can_be_are_no_overflow() {
    let packed = pack(&[u64::MAX - 10..u64::MAX, u64::MAX - 3..u64::MAX], u64::MAX, u64::MAX);
    assert_eq!((packed.len(), packed.range(0), packed.pieces_of(0)), (1, u64::MAX - 10..u64::MAX, 0..2));
}
