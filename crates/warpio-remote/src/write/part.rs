//! Where an object is cut into the parts that are uploaded.

/// Parts double after so many, so that any object fits in the 10,000 that stores take. All parts of one that is not
/// large are of one length, as some stores want it.
const DOUBLE_AFTER: u64 = 1000;

/// Stores take no smaller part but the last.
pub(super) const LEAST: u64 = 5 << 20;

/// The length of part `index`, in bytes, where the first has `first`.
pub(super) fn length(index: u64, first: u64) -> u64 {
    first.saturating_mul(1 << (index / DOUBLE_AFTER).min(32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_object_fits_in_the_parts_that_a_store_takes() {
        let whole: u64 = (0..10_000).map(|index| length(index, 8 << 20)).sum();
        assert!(whole > 5 << 40, "{whole}");
        assert!((0..10_000).all(|index| length(index, 8 << 20) <= 5 << 30), "no part is longer than a store takes");
        assert_eq!((length(0, 9), length(999, 9), length(1000, 9)), (9, 9, 18));
    }
}
