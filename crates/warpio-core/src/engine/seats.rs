use std::fmt;
use std::mem;

use crate::sync::{Arc, Mutex, lock};

/// A queue, and seats for the tasks that serve it: there are never more tasks than seats, and none that waits for work.
///
/// A task gives its seat up when nothing is left for it. When it is dropped before that, as all tasks of a runtime that
/// ends are, the last one takes the queue along, so that nobody waits for tasks that are gone.
///
/// ```
/// use warpio_core::engine::Seats;
///
/// let seats = Seats::<Vec<u32>>::default();
/// seats.queue(|queue| queue.extend([1, 2, 3]));
/// let (mut seat, first) = seats.take(1, Vec::pop).expect("there is work, and a seat");
/// assert!(seats.take(1, Vec::pop).is_none(), "the only seat is taken");
/// assert_eq!((first, seat.next(1, Vec::pop), seat.next(1, Vec::pop)), (3, Some(2), Some(1)));
/// assert!(seat.next(1, Vec::pop).is_none(), "and the seat is given up");
/// ```
pub struct Seats<Q>(Arc<Mutex<State<Q>>>);

#[derive(Default)]
struct State<Q> {
    queue: Q,
    taken: usize,
}

/// A task's right to take from the queue of its [`Seats`].
pub struct Seat<Q: Default> {
    seats: Seats<Q>,
    given_up: bool,
}

impl<Q: Default> Seats<Q> {
    /// Looks at the queue, or adds to it. It is locked meanwhile.
    pub fn queue<T>(&self, look: impl FnOnce(&mut Q) -> T) -> T {
        look(&mut lock(&self.0).queue)
    }

    /// A seat for another task, with the first piece of work for it, which `next` takes out of the locked queue. `None`
    /// where `limit` seats are taken or there is no work.
    pub fn take<T>(&self, limit: usize, next: impl FnOnce(&mut Q) -> Option<T>) -> Option<(Seat<Q>, T)> {
        let mut state = lock(&self.0);
        if state.taken >= limit {
            return None;
        }
        let work = next(&mut state.queue)?;
        state.taken += 1;
        drop(state);
        Some((Seat { seats: self.clone(), given_up: false }, work))
    }
}

impl<Q: Default> Seat<Q> {
    /// More work, which `next` takes out of the locked queue. `None` where there is none, or where more than `limit`
    /// seats are taken, which may have become fewer: the task has given its seat up then.
    pub fn next<T>(&mut self, limit: usize, next: impl FnOnce(&mut Q) -> Option<T>) -> Option<T> {
        if self.given_up {
            return None;
        }
        let mut state = lock(&self.seats.0);
        let work = if state.taken > limit { None } else { next(&mut state.queue) };
        if work.is_none() {
            // Under the same lock: work that comes now finds a seat free.
            state.taken -= 1;
            self.given_up = true;
        }
        work
    }

    /// The queue, and all its seats.
    pub fn seats(&self) -> &Seats<Q> {
        &self.seats
    }
}

impl<Q: Default> Drop for Seat<Q> {
    fn drop(&mut self) {
        if self.given_up {
            return;
        }
        let orphans = {
            let mut state = lock(&self.seats.0);
            state.taken -= 1;
            if state.taken > 0 {
                return;
            }
            mem::take(&mut state.queue)
        };
        // Outside the lock: what waits there is told so.
        drop(orphans);
    }
}

impl<Q> Clone for Seats<Q> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Q: Default> Default for Seats<Q> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { queue: Q::default(), taken: 0 })))
    }
}

impl<Q> fmt::Debug for Seats<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seats").field("taken", &lock(&self.0).taken).finish_non_exhaustive()
    }
}

impl<Q: Default> fmt::Debug for Seat<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("given_up", &self.given_up).finish_non_exhaustive()
    }
}
