//! The queue's state, which its lock guards. Nothing here calls what may take another lock.

use std::collections::VecDeque;
use std::task::Waker;

use warpio_core::engine::{Batch, FairQueue};

use super::Work;
use crate::engine::classes::{Class, ClassId, Classes, Need};

#[derive(Debug, Default)]
pub(super) struct State {
    classes: Classes<Waiting>,
    /// What is on its way back to the queue.
    pub(super) pending: usize,
    /// Writes from a device whose bytes have arrived in a slot.
    pub(super) staged: VecDeque<Work>,
    pub(super) members: Vec<Member>,
    /// Operations that all rings together have room for.
    pub(super) capacity: usize,
    pub(super) closed: bool,
}

/// What waits in one class.
#[derive(Debug, Default)]
struct Waiting {
    queue: FairQueue,
    /// A thread waits for a slot on behalf of this class.
    for_a_slot: bool,
}

/// A ring thread.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) waker: Waker,
    /// Operations that its ring has room for.
    pub(super) depth: usize,
    pub(super) rest: Rest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// It will look at the queue before it sleeps.
    Awake,
    /// It has to be woken.
    Asleep,
    /// It has no room; it looks at the queue when an operation has finished.
    Full,
    Ended,
}

impl State {
    /// Adds a batch to those who need the same; of the slots among it there can be `slots`.
    pub(super) fn push(&mut self, batch: Batch, need: Need, slots: usize) {
        self.classes.queue(need, slots).queue.push(batch);
    }

    /// Whether [`next`](Self::next) has something.
    pub(super) fn has_next(&self) -> bool {
        let may_begin = |class| may_begin(&self.classes, class, self.capacity);
        !self.staged.is_empty() || self.classes.iter().any(may_begin)
    }

    /// The next segment that may be taken.
    pub(super) fn next(&mut self) -> Option<Work> {
        if let Some(work) = self.staged.pop_front() {
            return Some(work);
        }
        let capacity = self.capacity;
        let class = self.classes.turn(|classes, class| may_begin(classes, class, capacity))?;
        let (target, segment) = self.classes.get_mut(class).queue.queue.pop()?;
        self.classes.begin(class);
        Some(Work { class, target, segment, slot: None })
    }

    /// A segment is finished.
    pub(super) fn finish(&mut self, class: ClassId) {
        self.classes.end(class);
    }

    /// A slot is waited for on behalf of a class, or no longer.
    pub(super) fn set_waiting(&mut self, class: ClassId, waiting: bool) {
        self.classes.get_mut(class).queue.for_a_slot = waiting;
    }

    /// Whether nothing waits and nothing comes back.
    pub(super) fn is_drained(&self) -> bool {
        self.pending == 0 && self.staged.is_empty() && self.classes.iter().all(|class| class.queue.queue.is_empty())
    }

    /// Whether no thread is left. Before the first one has joined, there will be some.
    pub(super) fn is_deserted(&self) -> bool {
        !self.members.is_empty() && self.members.iter().all(|member| member.rest == Rest::Ended)
    }

    /// Takes all that waits out.
    pub(super) fn clear(&mut self) -> Vec<Work> {
        let mut waiting: Vec<_> = self.staged.drain(..).collect();
        for (id, class) in self.classes.iter_mut() {
            while let Some((target, segment)) = class.queue.queue.pop() {
                waiting.push(Work { class: id, target, segment, slot: None });
            }
        }
        waiting
    }

    pub(super) fn wake_if_nobody_looks(&mut self) -> Option<Waker> {
        let somebody_looks = self.members.iter().any(|member| member.rest == Rest::Awake);
        if somebody_looks { None } else { self.wake_one() }
    }

    pub(super) fn wake_one(&mut self) -> Option<Waker> {
        self.members.iter_mut().find(|member| member.rest == Rest::Asleep).map(Member::wake)
    }

    pub(super) fn wake_all(&mut self) -> Vec<Waker> {
        let resting = self.members.iter_mut().filter(|member| matches!(member.rest, Rest::Asleep | Rest::Full));
        resting.map(Member::wake).collect()
    }
}

impl Member {
    /// Counts as awake from here on; the caller has to call the waker.
    pub(super) fn wake(&mut self) -> Waker {
        self.rest = Rest::Awake;
        self.waker.clone()
    }
}

/// Whether a segment of this class may be taken now.
fn may_begin(classes: &Classes<Waiting>, class: &Class<Waiting>, capacity: usize) -> bool {
    let Waiting { queue, for_a_slot } = &class.queue;
    !for_a_slot && !queue.is_empty() && classes.has_share_of(class, capacity) && classes.has_share_of_slots(class)
}
