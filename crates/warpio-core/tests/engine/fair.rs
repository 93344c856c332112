//! Segments are handed out by turns between transfers.

use std::sync::Arc;

use proptest::prelude::*;
use warpio_core::engine::{Batch, FairQueue, Segment};
use warpio_core::{Device, Transfer};

use crate::support::{held, read};

/// The segments of a transfer of `segments` of them.
fn batch(segments: usize) -> (Transfer, Batch) {
    let (engine, starter) = held(&Device::host(), 1);
    let transfer = read(&starter, segments);
    let segments: Vec<Segment> = engine.take().into_iter().map(|held| held.into_segment()).collect();
    (transfer, Batch::new(Arc::new(segments.len()), segments))
}

/// Which transfer, by its size, the next segment belongs to.
fn pop(queue: &mut FairQueue) -> Option<usize> {
    queue.pop().map(|(_, segment)| segment.transfer_len())
}

#[test]
fn a_small_transfer_waits_for_one_segment_of_each_before_it() {
    let (_large, large) = batch(25_000);
    let (_small, small) = batch(1);
    let mut queue = FairQueue::default();
    queue.push(large);
    for _ in 0..3 {
        assert_eq!(pop(&mut queue), Some(25_000));
    }
    queue.push(small);
    assert_eq!(queue.len(), 24_998);
    let next: Vec<_> = std::iter::from_fn(|| pop(&mut queue)).take(3).collect();
    assert_eq!(next, [25_000, 1, 25_000]);
}

#[test]
fn segments_of_one_transfer_come_in_order_with_their_target() {
    let (_transfer, batch) = batch(5);
    let mut queue = FairQueue::default();
    queue.push(batch);
    for offset in 0..5 {
        let (target, segment) = queue.pop().unwrap();
        assert_eq!(segment.offset(), offset);
        assert_eq!(*target.downcast::<usize>().unwrap(), 5);
    }
    assert!(queue.pop().is_none() && queue.is_empty());
}

#[test]
fn a_batch_of_nothing_takes_no_turn() {
    let mut queue = FairQueue::default();
    queue.push(Batch::new(Arc::new(()), Vec::new()));
    assert!(queue.is_empty() && queue.pop().is_none());
}

#[test]
fn a_target_is_only_what_it_is() {
    let (_transfer, batch) = batch(2);
    assert_eq!(batch.target::<usize>().as_deref(), Some(&2));
    assert!(batch.target::<u8>().is_none());
    assert_eq!(batch.segments().len(), 2);
}

proptest! {
    #[test]
    fn nothing_is_lost_and_everybody_gets_as_many_turns(sizes in prop::collection::hash_set(1usize..40, 1..8)) {
        let mut queue = FairQueue::default();
        let mut transfers = Vec::new();
        let mut taken = std::collections::HashMap::new();
        for size in sizes {
            let (transfer, batch) = batch(size);
            queue.push(batch);
            transfers.push(transfer);
            taken.insert(size, 0);
        }
        let total: usize = taken.keys().sum();
        for popped in 1..=total {
            *taken.get_mut(&pop(&mut queue).unwrap()).unwrap() += 1;
            let waiting = || taken.iter().filter(|&(&size, &n)| n < size).map(|(_, &n)| n);
            prop_assert!(waiting().max().unwrap_or(0) - waiting().min().unwrap_or(0) <= 1, "{:?}", taken);
            prop_assert_eq!(queue.len(), total - popped);
        }
        prop_assert!(queue.is_empty());
        prop_assert!(taken.iter().all(|(&size, &n)| n == size));
    }
}
