//! One range cut into segments.

use proptest::prelude::*;
use warpio_core::plan::{Split, SplitSegment};

fn segments(task: usize, offset: u64, len: usize) -> Vec<SplitSegment> {
    Split::new(task).expect("not zero").segments(offset, len).collect()
}

/// Offsets of every size, those near the end of the number range included.
fn offsets() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..100_000, 0u64..=i64::MAX as u64 - 10_000]
}

proptest! {
    #[test]
    fn every_byte_lies_in_exactly_one_segment(task in 1usize..5000, offset in offsets(), len in 0usize..10_000) {
        let mut at = 0;
        for segment in segments(task, offset, len) {
            prop_assert_eq!(segment.buffer_offset, at, "no gap and no overlap in the buffer");
            prop_assert_eq!(segment.offset, offset + at as u64, "nor in the source");
            at += segment.len;
        }
        prop_assert_eq!(at, len);
    }

    #[test]
    fn no_segment_is_empty_or_too_long(task in 1usize..5000, offset in offsets(), len in 0usize..10_000) {
        for segment in segments(task, offset, len) {
            prop_assert!((1..=task).contains(&segment.len));
        }
    }

    #[test]
    fn segments_begin_and_end_at_multiples_of_the_task_size(
        task in 1usize..5000, offset in offsets(), len in 1usize..10_000,
    ) {
        let segments = segments(task, offset, len);
        for segment in &segments[1..] {
            prop_assert!(segment.offset.is_multiple_of(task as u64));
        }
        for segment in &segments[..segments.len() - 1] {
            prop_assert!((segment.offset + segment.len as u64).is_multiple_of(task as u64));
        }
    }

    #[test]
    fn the_count_is_told_beforehand(task in 1usize..5000, offset in offsets(), len in 0usize..10_000) {
        prop_assert_eq!(Split::new(task).unwrap().count(offset, len), segments(task, offset, len).len());
    }

    #[test]
    fn the_finer_of_two_splits_cuts_at_least_as_often(
        a in 1usize..5000, b in 1usize..5000, offset in offsets(), len in 0usize..10_000,
    ) {
        let (fine, coarse) = (Split::new(a.min(b)).unwrap(), Split::new(a.max(b)).unwrap());
        prop_assert_eq!(fine.min(coarse), fine);
        prop_assert_eq!(coarse.min(fine).task_size(), a.min(b));
        prop_assert!(fine.count(offset, len) + 1 >= coarse.count(offset, len));
    }
}

#[test]
fn segments_of_no_bytes_do_not_exist() {
    assert!(Split::new(0).is_none());
    assert_eq!(Split::new(4096).unwrap().count(u64::MAX, 0), 0);
    assert!(segments(4096, u64::MAX, 0).is_empty());
}

#[test]
fn a_hundred_gigabytes_are_counted_without_being_cut() {
    assert_eq!(Split::new(4 << 20).unwrap().count(1, 100 << 30), 25_601);
}

#[test]
fn the_last_byte_of_the_largest_file_can_be_read() {
    let end = i64::MAX as u64;
    let segments = segments(4096, end - 1, 1);
    assert_eq!(segments, [SplitSegment { offset: end - 1, buffer_offset: 0, len: 1 }]);
}
