//! The queue's state, which its lock guards. Nothing here calls what may take another lock.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Instant;

use warpio_core::DeviceId;
use warpio_core::engine::{Batch, FairQueue};

use super::need::{Need, SlotSize, is_long_read};
use super::{ClassId, Ticket, Work};
use crate::engine::ring::share::may_begin;
use crate::engine::ring::window::Window;
use crate::sys::statx::StorageId;

#[derive(Debug, Default)]
pub(super) struct State {
    classes: Vec<Class>,
    /// The class whose turn is next.
    turn: usize,
    storages: Vec<Storage>,
    stagings: Vec<Staging>,
    /// Segments taken and not finished.
    in_flight: usize,
    /// What is on its way back to the queue.
    pub(super) pending: usize,
    /// Writes from a device whose bytes have arrived in a slot.
    pub(super) staged: VecDeque<Work>,
    pub(super) members: Vec<Member>,
    /// Operations that all rings together have room for.
    pub(super) capacity: usize,
    pub(super) closed: bool,
}

#[derive(Debug)]
struct Class {
    need: Need,
    /// An index in [`State::storages`].
    storage: usize,
    /// An index in [`State::stagings`].
    staging: Option<usize>,
    queue: FairQueue,
    in_flight: usize,
    /// A thread waits for a slot on behalf of this class.
    waiting: bool,
}

#[derive(Debug)]
struct Storage {
    id: Option<StorageId>,
    in_flight: usize,
    /// For long reads.
    window: Window,
}

/// Slots of one size of one device.
#[derive(Debug)]
struct Staging {
    id: (DeviceId, SlotSize),
    /// How many there can be.
    slots: usize,
    in_flight: usize,
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
        let class = self.class(need, slots);
        self.classes[class].queue.push(batch);
    }

    fn class(&mut self, need: Need, slots: usize) -> usize {
        position_or_push(
            &mut self.classes,
            |class| class.need == need,
            || {
                let storage = position_or_push(
                    &mut self.storages,
                    |storage| storage.id == need.storage,
                    || Storage { id: need.storage, in_flight: 0, window: Window::new(Instant::now()) },
                );
                let staging = need.staging.map(|id| {
                    let new = || Staging { id, slots, in_flight: 0 };
                    position_or_push(&mut self.stagings, |staging| staging.id == id, new)
                });
                Class { need, storage, staging, queue: FairQueue::default(), in_flight: 0, waiting: false }
            },
        )
    }

    /// Whether a segment of this class may be taken now.
    fn may_begin(&self, class: &Class) -> bool {
        let storage = &self.storages[class.storage];
        !class.waiting
            && !class.queue.is_empty()
            && (!class.need.room || storage.window.has_room())
            && may_begin(self.capacity, self.in_flight, storage.in_flight)
            && class.staging.is_none_or(|staging| {
                let Staging { slots, in_flight, .. } = self.stagings[staging];
                may_begin(slots, in_flight, class.in_flight)
            })
    }

    /// Whether [`next`](Self::next) has something.
    pub(super) fn has_next(&self) -> bool {
        !self.staged.is_empty() || self.classes.iter().any(|class| self.may_begin(class))
    }

    /// The next segment that may be taken.
    pub(super) fn next(&mut self) -> Option<Work> {
        if let Some(work) = self.staged.pop_front() {
            return Some(work);
        }
        let count = self.classes.len();
        let class = (0..count).map(|n| (self.turn + n) % count).find(|&n| self.may_begin(&self.classes[n]))?;
        self.turn = class + 1;
        let (target, segment) = self.classes[class].queue.pop()?;
        let bytes = if is_long_read(&segment) { segment.len() } else { 0 };
        if bytes > 0 {
            self.storages[self.classes[class].storage].window.begin(bytes, Instant::now());
        }
        let ticket = Ticket { class: ClassId(class), bytes, was_asked: false };
        self.count(class, 1);
        Some(Work { ticket, target, segment, slot: None })
    }

    /// A segment is finished.
    pub(super) fn finish(&mut self, ticket: Ticket) {
        let class = ticket.class.0;
        self.count(class, -1);
        if ticket.bytes > 0 {
            let window = &mut self.storages[self.classes[class].storage].window;
            match ticket.was_asked {
                true => window.end(ticket.bytes, Instant::now()),
                false => window.give_up(ticket.bytes),
            }
        }
    }

    /// A slot is waited for on behalf of a class, or no longer.
    pub(super) fn set_waiting(&mut self, class: ClassId, waiting: bool) {
        self.classes[class.0].waiting = waiting;
    }

    /// Counts segments in flight, everywhere they count.
    fn count(&mut self, class: usize, change: isize) {
        let class = &mut self.classes[class];
        let staging = class.staging.map(|staging| &mut self.stagings[staging].in_flight);
        let counts = [&mut self.in_flight, &mut self.storages[class.storage].in_flight, &mut class.in_flight];
        for count in counts.into_iter().chain(staging) {
            *count = count.saturating_add_signed(change);
        }
    }

    /// Whether nothing waits and nothing comes back.
    pub(super) fn is_drained(&self) -> bool {
        self.pending == 0 && self.staged.is_empty() && self.classes.iter().all(|class| class.queue.is_empty())
    }

    /// Whether no thread is left. Before the first one has joined, there will be some.
    pub(super) fn is_deserted(&self) -> bool {
        !self.members.is_empty() && self.members.iter().all(|member| member.rest == Rest::Ended)
    }

    /// Takes all that waits out.
    pub(super) fn clear(&mut self) -> Vec<Work> {
        let mut waiting: Vec<_> = self.staged.drain(..).collect();
        for (id, class) in self.classes.iter_mut().enumerate() {
            while let Some((target, segment)) = class.queue.pop() {
                let ticket = Ticket { class: ClassId(id), bytes: 0, was_asked: false };
                waiting.push(Work { ticket, target, segment, slot: None });
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

/// Where the item is for which `is` holds, after adding it if there was none.
fn position_or_push<T>(items: &mut Vec<T>, is: impl FnMut(&T) -> bool, new: impl FnOnce() -> T) -> usize {
    items.iter().position(is).unwrap_or_else(|| {
        items.push(new());
        items.len() - 1
    })
}
