//! A fair queue for things that are lent and come back: first come, first served, whether the taker waits as a
//! future or as a thread.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::sync::{Arc, Mutex, lock};
use crate::{Error, Result};

/// Free items, and who waits for one. While somebody waits, no item is free: it is handed over directly, so that
/// nobody can overtake.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    free: Vec<T>,
    waiters: VecDeque<Arc<Mutex<Ticket<T>>>>,
    /// Roughly how many of the waiters have given up.
    given_up: usize,
}

/// Below this many waiters, those who gave up are not worth a search.
const FEW: usize = 32;

#[derive(Debug)]
enum Ticket<T> {
    Waiting(Waker),
    Granted(T),
    Failed(Error),
    /// Taken by its owner, or its owner gave up.
    Closed,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State { free: Vec::new(), waiters: VecDeque::new(), given_up: 0 }) }
    }
}

impl<T> Queue<T> {
    /// An item, if one is free.
    pub(crate) fn try_take(&self) -> Option<T> {
        lock(&self.state).free.pop()
    }

    /// The free item of the lowest `rank`, if one is free that is ranked below `limit`; the last that came back, among
    /// equals.
    pub(crate) fn try_take_best(&self, limit: u8, rank: impl Fn(&T) -> u8) -> Option<T> {
        let mut state = lock(&self.state);
        let mut best: Option<(usize, u8)> = None;
        for (at, item) in state.free.iter().enumerate().rev() {
            let rank = rank(item);
            if rank < best.map_or(limit, |(_, best)| best) {
                best = Some((at, rank));
            }
            if rank == 0 {
                break;
            }
        }
        // The order is that of coming back, and stays so.
        best.map(|(at, _)| state.free.remove(at))
    }

    /// Waits for an item. Dropping the future gives up the place in the queue, or the item if it was granted already.
    pub(crate) fn take(&self) -> Take<'_, T> {
        Take { queue: self, ticket: None }
    }

    /// Gives an item to whoever has waited longest, or keeps it.
    pub(crate) fn put(&self, item: T) {
        self.put_all([item]);
    }

    /// As [`put`](Self::put), for items of which nobody gets one before all are there.
    pub(crate) fn put_all(&self, items: impl IntoIterator<Item = T>) {
        let mut wakers = Vec::new();
        let mut state = lock(&self.state);
        for item in items {
            match state.grant(item) {
                Ok(waker) => wakers.push(waker),
                Err(item) => state.free.push(item),
            }
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Tells everybody who waits that no item will come.
    pub(crate) fn fail(&self, error: &Error) {
        let waiters = std::mem::take(&mut lock(&self.state).waiters);
        for waiter in waiters {
            let old = {
                let mut ticket = lock(&waiter);
                match &*ticket {
                    Ticket::Waiting(_) => std::mem::replace(&mut *ticket, Ticket::Failed(error.clone())),
                    _ => continue,
                }
            };
            if let Ticket::Waiting(waker) = old {
                waker.wake();
            }
        }
    }

    /// Forgets those who gave up, before they are the most of the queue.
    fn one_gave_up(&self) {
        let mut state = lock(&self.state);
        state.given_up += 1;
        if state.waiters.len() > FEW && state.given_up > state.waiters.len() / 2 {
            state.waiters.retain(|waiter| matches!(&*lock(waiter), Ticket::Waiting(_)));
            state.given_up = 0;
        }
    }

    /// Whether anybody waits.
    pub(crate) fn has_waiters(&self) -> bool {
        lock(&self.state).waiters.iter().any(|w| matches!(&*lock(w), Ticket::Waiting(_)))
    }

    /// Removes the free items for which `remove` is true, and returns them.
    pub(crate) fn remove_free(&self, mut remove: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut state = lock(&self.state);
        let (out, free) = std::mem::take(&mut state.free).into_iter().partition(|item| remove(item));
        state.free = free;
        out
    }

    /// Looks at the free items.
    pub(crate) fn for_each_free(&self, f: impl FnMut(&T)) {
        lock(&self.state).free.iter().for_each(f);
    }
}

impl<T> State<T> {
    /// Hands `item` to whoever has waited longest, or back if nobody waits.
    fn grant(&mut self, item: T) -> Result<Waker, T> {
        let mut item = item;
        while let Some(waiter) = self.waiters.pop_front() {
            match grant(&waiter, item) {
                Ok(waker) => return Ok(waker),
                Err(back) => item = back,
            }
        }
        Err(item)
    }
}

/// Hands `item` to a waiter, or back if the waiter gave up.
fn grant<T>(waiter: &Mutex<Ticket<T>>, item: T) -> Result<Waker, T> {
    let mut ticket = lock(waiter);
    if !matches!(&*ticket, Ticket::Waiting(_)) {
        return Err(item);
    }
    match std::mem::replace(&mut *ticket, Ticket::Granted(item)) {
        Ticket::Waiting(waker) => Ok(waker),
        _ => unreachable!("checked above, under the same lock"),
    }
}

/// The future of [`Queue::take`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub(crate) struct Take<'a, T> {
    queue: &'a Queue<T>,
    ticket: Option<Arc<Mutex<Ticket<T>>>>,
}

impl<T> Take<'_, T> {
    /// Joins the queue now, instead of at the first poll. Returns an item if one was free.
    pub(crate) fn enlist(&mut self, waker: &Waker) -> Option<T> {
        let mut state = lock(&self.queue.state);
        if let Some(item) = state.free.pop() {
            return Some(item);
        }
        let ticket = Arc::new(Mutex::new(Ticket::Waiting(waker.clone())));
        state.waiters.push_back(ticket.clone());
        drop(state);
        self.ticket = Some(ticket);
        None
    }
}

impl<T> Future for Take<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(shared) = self.ticket.clone() else {
            return match self.enlist(cx.waker()) {
                Some(item) => Poll::Ready(Ok(item)),
                None => Poll::Pending,
            };
        };
        let new = Ticket::Waiting(cx.waker().clone());
        let old = {
            let mut ticket = lock(&shared);
            match &*ticket {
                Ticket::Waiting(_) => std::mem::replace(&mut *ticket, new),
                _ => std::mem::replace(&mut *ticket, Ticket::Closed),
            }
        };
        // Wakers and items are foreign: they are dropped outside the lock.
        match old {
            Ticket::Granted(item) => Poll::Ready(Ok(item)),
            Ticket::Failed(error) => Poll::Ready(Err(error)),
            Ticket::Waiting(_) | Ticket::Closed => Poll::Pending,
        }
    }
}

impl<T> Drop for Take<'_, T> {
    fn drop(&mut self) {
        let Some(shared) = self.ticket.take() else { return };
        let ticket = std::mem::replace(&mut *lock(&shared), Ticket::Closed);
        match ticket {
            Ticket::Granted(item) => self.queue.put(item),
            Ticket::Waiting(_) => self.queue.one_gave_up(),
            Ticket::Failed(_) | Ticket::Closed => {}
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::task::Wake;

    use super::*;

    fn poll<T>(take: &mut Take<'_, T>, waker: &Waker) -> Poll<Result<T>> {
        Pin::new(take).poll(&mut Context::from_waker(waker))
    }

    #[test]
    fn those_who_gave_up_are_forgotten_before_anything_comes_back() {
        let queue = Queue::<u8>::default();
        let mut patient = queue.take();
        assert!(poll(&mut patient, Waker::noop()).is_pending());
        for _ in 0..10_000 {
            assert!(poll(&mut queue.take(), Waker::noop()).is_pending());
        }
        assert!(lock(&queue.state).waiters.len() <= 2 * FEW);
        queue.put(7);
        assert!(matches!(poll(&mut patient, Waker::noop()), Poll::Ready(Ok(7))));
    }

    #[test]
    fn a_waker_may_give_an_item_back_while_it_is_dropped() {
        struct GivesBack(Arc<Queue<u8>>);
        impl Wake for GivesBack {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for GivesBack {
            fn drop(&mut self) {
                self.0.put(7);
            }
        }
        let queue = Arc::new(Queue::default());
        let mut take = queue.take();
        assert!(poll(&mut take, &Waker::from(Arc::new(GivesBack(queue.clone())))).is_pending());
        // The take's ticket holds the last handle to the first waker, and lets go of it for the second.
        let _ = poll(&mut take, Waker::noop());
        assert!(matches!(poll(&mut take, Waker::noop()), Poll::Ready(Ok(7))));
    }

    #[test]
    fn whoever_gets_one_of_several_finds_the_others_there() {
        struct Counts(Arc<Queue<u8>>, Mutex<Vec<usize>>);
        impl Wake for Counts {
            fn wake(self: Arc<Self>) {
                let mut free = 0;
                self.0.for_each_free(|_| free += 1);
                lock(&self.1).push(free);
            }
        }
        let queue = Arc::new(Queue::default());
        let counts = Arc::new(Counts(queue.clone(), Mutex::default()));
        let waker = Waker::from(counts.clone());
        let (mut first, mut second) = (queue.take(), queue.take());
        assert!(poll(&mut first, &waker).is_pending() && poll(&mut second, &waker).is_pending());
        queue.put_all([1, 2, 3, 4, 5]);
        assert_eq!(*lock(&counts.1), [3, 3]);
        assert!(matches!(poll(&mut first, &waker), Poll::Ready(Ok(1))));
        assert!(matches!(poll(&mut second, &waker), Poll::Ready(Ok(2))));
    }

    #[test]
    fn a_failure_reaches_everybody_who_waits_and_nobody_later() {
        let queue = Queue::<u8>::default();
        let mut waiting = [queue.take(), queue.take()];
        assert!(waiting.iter_mut().all(|take| poll(take, Waker::noop()).is_pending()));
        queue.fail(&Error::new(crate::ErrorKind::OutOfMemory));
        assert!(waiting.iter_mut().all(|take| matches!(poll(take, Waker::noop()), Poll::Ready(Err(_)))));
        let mut later = queue.take();
        assert!(poll(&mut later, Waker::noop()).is_pending());
        assert!(queue.has_waiters());
        queue.put(1);
        assert!(matches!(poll(&mut later, Waker::noop()), Poll::Ready(Ok(1))));
    }
}
