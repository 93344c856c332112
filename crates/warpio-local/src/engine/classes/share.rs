//! How much of what is shared one file system may take.

/// Whether one more operation may begin for a file system that has `mine` of `all` operations in flight, where there is
/// room for `capacity`: each may have three times what it leaves free. One alone gets three quarters, two get three
/// sevenths each, and those that have stopped answering leave something for the next.
pub(in crate::engine) const fn may_begin(capacity: usize, all: usize, mine: usize) -> bool {
    let free = capacity.saturating_sub(all);
    match mine {
        0 => free > 0,
        _ => free > 1 && mine < 3 * (free - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::RingOptions;
    use proptest::prelude::*;

    /// How many operations a file system gets that asks until it is refused.
    fn fill(capacity: usize, all: usize) -> usize {
        let mut mine = 0;
        while may_begin(capacity, all + mine, mine) {
            mine += 1;
        }
        mine
    }

    #[test]
    fn one_alone_gets_three_quarters() {
        assert_eq!([1, 2, 4, 256].map(|capacity| fill(capacity, 0)), [1, 1, 3, 192]);
    }

    #[test]
    fn the_depth_of_one_file_system_fits_the_ring() {
        for depth in [1, 2, 3, 8, 32, 100, 128, 256, 4096] {
            let options = RingOptions { depth, ..RingOptions::default() };
            assert!(fill(options.ring_depth(), 0) >= depth, "{depth}");
        }
    }

    #[test]
    fn three_that_never_finish_leave_a_default_ring_usable() {
        let capacity = RingOptions::default().ring_depth();
        let stuck = (0..3).fold(0, |all, _| all + fill(capacity, all));
        assert!(fill(capacity, stuck) >= 2, "{stuck} of {capacity} are stuck");
    }

    proptest! {
        #[test]
        fn room_is_never_exceeded_and_the_next_gets_some(capacity in 1usize..2000, all in 0usize..2000) {
            let got = fill(capacity, all);
            prop_assert!(got + all <= capacity.max(all));
            prop_assert_eq!(got > 0, all < capacity);
        }
    }
}
