//! Tasks that serve a queue.

use std::sync::Arc;

use warpio_core::engine::Seats;

#[test]
fn no_more_seats_are_taken_than_there_are_nor_without_work() {
    let seats = Seats::<Vec<u32>>::default();
    assert!(seats.take(5, Vec::pop).is_none(), "no work");
    seats.queue(|queue| queue.extend(0..10));
    let taken: Vec<_> = std::iter::from_fn(|| seats.take(3, Vec::pop)).collect();
    assert_eq!(taken.iter().map(|(_, work)| *work).collect::<Vec<_>>(), [9, 8, 7]);
    assert_eq!(seats.queue(|queue| queue.len()), 7);
    drop(taken);
}

#[test]
fn a_seat_is_free_again_when_nothing_is_left_for_its_task() {
    let seats = Seats::<Vec<u32>>::default();
    seats.queue(|queue| queue.extend([1, 2]));
    let (mut seat, _) = seats.take(1, Vec::pop).unwrap();
    assert_eq!((seat.next(1, Vec::pop), seat.next(1, Vec::pop)), (Some(1), None));
    seats.queue(|queue| queue.extend([3, 4]));
    assert_eq!(seat.next(1, Vec::pop), None, "it was given up");
    let (other, work) = seats.take(1, Vec::pop).unwrap();
    drop(seat);
    assert_eq!((work, seats.queue(|queue| queue.clone())), (4, vec![3]), "the work of others stays");
    drop(other);
}

#[test]
fn where_seats_become_fewer_those_too_many_are_given_up() {
    let seats = Seats::<Vec<u32>>::default();
    seats.queue(|queue| queue.extend(0..10));
    let mut taken: Vec<_> = std::iter::from_fn(|| seats.take(3, Vec::pop)).map(|(seat, _)| seat).collect();
    assert_eq!(taken[0].next(2, Vec::pop), None);
    assert_eq!((taken[1].next(2, Vec::pop), taken[2].next(2, Vec::pop)), (Some(6), Some(5)));
}

#[test]
fn the_last_task_that_is_dropped_takes_the_queue_along() {
    let (seats, work) = (Seats::<Vec<Arc<()>>>::default(), Arc::new(()));
    seats.queue(|queue| queue.resize(5, work.clone()));
    let (first, _) = seats.take(2, Vec::pop).unwrap();
    let (second, _) = seats.take(2, Vec::pop).unwrap();
    drop(first);
    assert_eq!(seats.queue(|queue| queue.len()), 3, "there is somebody left for it");
    drop(second);
    assert_eq!(seats.queue(|queue| queue.len()), 0);
    assert_eq!(Arc::strong_count(&work), 1, "nobody waits for it any more");
    seats.queue(|queue| queue.push(work));
    assert!(seats.take(1, Vec::pop).is_some(), "and all can go on");
}

#[test]
fn what_the_last_task_drops_may_look_at_the_queue() {
    struct Curious(Seats<Vec<Self>>);
    impl Drop for Curious {
        fn drop(&mut self) {
            assert_eq!(self.0.queue(|queue| queue.len()), 0);
        }
    }
    let seats = Seats::<Vec<Curious>>::default();
    seats.queue(|queue| queue.extend([Curious(seats.clone()), Curious(seats.clone())]));
    drop(seats.take(1, Vec::pop));
}
