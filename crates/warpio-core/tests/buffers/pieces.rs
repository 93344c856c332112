//! Taking ranges apart and putting them together.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use warpio_core::{Device, DeviceBytesMut};

fn numbered(len: usize) -> DeviceBytesMut {
    DeviceBytesMut::from((0..len).map(|i| i as u8).collect::<Vec<_>>())
}

#[test]
fn split_off_keeps_the_head() {
    let mut head = numbered(10);
    let start = head.device_ptr();
    let tail = head.split_off(4);
    assert_eq!(head.as_slice(), Some(&[0, 1, 2, 3][..]));
    assert_eq!(tail.as_slice(), Some(&[4, 5, 6, 7, 8, 9][..]));
    assert_eq!((head.device_ptr(), tail.device_ptr()), (start, start + 4));
}

#[test]
fn split_to_keeps_the_tail() {
    let mut tail = numbered(10);
    let head = tail.split_to(4);
    assert_eq!(head.as_slice(), Some(&[0, 1, 2, 3][..]));
    assert_eq!(tail.as_slice(), Some(&[4, 5, 6, 7, 8, 9][..]));
}

#[test]
#[should_panic(expected = "split_off at 11 of a buffer of 10 bytes")]
fn split_off_behind_the_end_panics() {
    drop(numbered(10).split_off(11));
}

#[test]
fn neighbours_join_in_one_order_only() {
    let mut head = numbered(10);
    let tail = head.split_off(4);
    let (tail, head) = tail.unsplit(head).expect_err("the head does not follow the tail");
    let whole = head.unsplit(tail).expect("neighbours");
    assert_eq!(whole.as_slice(), numbered(10).as_slice());
}

#[test]
fn ranges_with_a_gap_do_not_join() {
    let mut head = numbered(10);
    let mut tail = head.split_off(4);
    drop(tail.split_to(1));
    assert!(head.unsplit(tail).is_err());
}

#[test]
fn neighbours_of_two_allocations_do_not_join() {
    let mut bytes = vec![0u8; 8];
    let middle = bytes.as_mut_ptr().wrapping_add(4);
    let [front, back] = [bytes.as_mut_ptr(), middle].map(|at| {
        // SAFETY: halves of one vector that outlives both and is not used otherwise.
        unsafe { DeviceBytesMut::from_raw_parts(&Device::host(), std::ptr::NonNull::new(at).unwrap(), 4, ()) }
    });
    assert!(front.unsplit(back).is_err(), "either may be released without the other");
}

#[test]
fn empty_pieces_are_allowed_everywhere() {
    let mut buffer = numbered(3);
    let front = buffer.split_to(0);
    let back = buffer.split_off(3);
    assert!(front.is_empty() && back.is_empty());
    let whole = front.unsplit(buffer).expect("neighbours").unsplit(back).expect("neighbours");
    assert_eq!(whole.len(), 3);
    assert!(Device::host().alloc(0).unwrap().is_empty());
}

#[test]
fn a_frozen_range_is_sliced_like_a_slice() {
    let data = numbered(10).freeze();
    let bytes: Vec<u8> = (0..10).collect();
    assert_eq!(data.slice(..).as_slice(), Some(&bytes[..]));
    assert_eq!(data.slice(3..).as_slice(), Some(&bytes[3..]));
    assert_eq!(data.slice(..=3).as_slice(), Some(&bytes[..=3]));
    assert_eq!(data.slice(2..5).slice(1..2).as_slice(), Some(&bytes[3..4]));
    let excluded = (std::ops::Bound::Excluded(2), std::ops::Bound::Included(4));
    assert_eq!(data.slice(excluded).as_slice(), Some(&bytes[3..=4]));
    assert!(data.slice(10..).is_empty());
}

#[test]
fn a_slice_that_does_not_fit_panics() {
    type Bounds = (std::ops::Bound<usize>, std::ops::Bound<usize>);
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let cases: [Bounds; 5] = [
        (Included(0), Excluded(11)),
        (Included(6), Excluded(5)),
        (Unbounded, Included(usize::MAX)),
        (Excluded(usize::MAX), Unbounded),
        (Included(11), Unbounded),
    ];
    for bounds in cases {
        let data = numbered(10).freeze();
        let panic = catch_unwind(AssertUnwindSafe(|| data.slice(bounds))).expect_err("it does not fit");
        let text = panic.downcast::<String>().expect("a message");
        assert!(text.contains("of a buffer of 10 bytes"), "{bounds:?}: {text}");
    }
}

#[test]
fn a_frozen_range_thaws_when_it_is_alone() {
    let data = numbered(10).freeze();
    let other = data.slice(2..4);
    let data = data.try_into_mut().expect_err("shared");
    drop(other);
    let mut data = data.try_into_mut().expect("alone");
    data.as_mut_slice().expect("host memory")[0] = 9;
    assert_eq!(data.len(), 10);
}

#[test]
fn a_frozen_half_thaws_while_the_other_half_lives() {
    let mut head = numbered(10);
    let tail = head.split_off(5).freeze();
    let tail = tail.try_into_mut().expect("its range is nobody else's");
    assert_eq!(head.unsplit(tail).expect("neighbours").len(), 10);
}

proptest! {
    #[test]
    fn pieces_in_any_shape_join_to_the_whole(cuts in prop::collection::vec(0usize..=64, 0..12)) {
        let mut rest = numbered(64);
        let mut pieces = Vec::new();
        for cut in cuts {
            pieces.push(rest.split_to(cut.min(rest.len())));
        }
        pieces.push(rest);
        prop_assert_eq!(pieces.iter().map(DeviceBytesMut::len).sum::<usize>(), 64);
        let whole = pieces.into_iter().reduce(|whole, piece| whole.unsplit(piece).expect("neighbours")).unwrap();
        prop_assert!(whole.as_slice() == numbered(64).as_slice());
    }
}
