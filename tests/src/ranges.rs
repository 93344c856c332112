//! Ranges for property tests of sources.

use std::ops::Range;

use proptest::prelude::*;

/// Up to `most` ranges of a source of `len` bytes: empty ones, some that are alike, next to each other or overlap, some
/// that reach past the end or lie behind it, and some longer than `long` bytes.
pub fn any_ranges(len: usize, long: u64, most: usize) -> impl Strategy<Value = Vec<Range<u64>>> {
    let end = len as u64;
    let start = prop_oneof![0..end + 9000, 0..5000u64, (0..end / 4096 + 1).prop_map(|page| page * 4096)];
    let len = prop_oneof![Just(0u64), Just(4096), 1..300u64, 1..9000u64, long..2 * long];
    prop::collection::vec((start, len).prop_map(|(start, len)| start..start + len), 0..most)
}
