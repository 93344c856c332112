//! What waits for the ring threads, and which of them sleep.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use warpio_core::engine::{Batch, Direction, FairQueue, Segment, Target};
use warpio_core::{DeviceId, ErrorKind, Slot};

use super::share::may_begin;
use super::target::{Mode, RingTarget};
use crate::sys::statx::StorageId;

/// The alignment that every transfer without need of staging has, whatever the file asks for.
const COMMON_ALIGN: usize = 4096;

/// Segments that wait for a ring thread, of all batches of an engine.
///
/// They wait in classes by what they need: a file system, and staging memory of a device in one of its sizes. Threads
/// take them by turns between the classes, and within a class between the batches. A class whose need cannot be met
/// now holds up no other, and a file system that has stopped answering keeps neither all room of the rings nor all
/// staging memory.
#[derive(Debug, Default)]
pub(in crate::engine) struct Queue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    classes: Vec<Class>,
    turn: usize,
    storages: Vec<Storage>,
    stagings: Vec<Staging>,
    /// Segments taken and not finished.
    in_flight: usize,
    /// Segments whose bytes are on their way from a device into a slot.
    copying: usize,
    /// Those whose bytes have arrived there.
    staged: VecDeque<Work>,
    members: Vec<Member>,
    /// Operations that all rings together have room for.
    capacity: usize,
    closed: bool,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Need {
    storage: Option<StorageId>,
    staging: Option<(DeviceId, SlotSize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotSize {
    Small,
    Large,
}

#[derive(Debug)]
struct Storage {
    id: Option<StorageId>,
    in_flight: usize,
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
struct Member {
    waker: Waker,
    depth: usize,
    rest: Rest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// It will look here before it sleeps.
    Awake,
    /// It has to be woken.
    Asleep,
    /// It has no room; it looks here when an operation has finished.
    Full,
    Ended,
}

/// A segment that was taken from the queue.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) class: ClassId,
    pub(super) target: Target,
    pub(super) segment: Segment,
    /// The slot that its bytes lie in, if it is a write from a device and they do.
    pub(super) slot: Option<Slot>,
}

/// Names a class in what a thread tells the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClassId(usize);

/// What a thread has to tell the queue.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Segments that are finished, by their class.
    pub(super) finished: Vec<ClassId>,
    /// Classes for which a slot is waited for from now on, or no longer.
    pub(super) waiting: Vec<(ClassId, bool)>,
}

/// What there is to do for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Outlook {
    /// Operations to submit.
    Busy,
    /// Nothing, until an operation has finished or the thread is woken.
    Idle,
    /// Nothing, ever again.
    End,
}

impl Queue {
    /// A thread whose ring has room for `depth` operations joins those that serve the queue. Returns its number.
    pub(in crate::engine) fn join(&self, waker: Waker, depth: usize) -> usize {
        let mut state = self.lock();
        state.capacity += depth;
        state.members.push(Member { waker, depth, rest: Rest::Awake });
        state.members.len() - 1
    }

    /// A thread ends before its time. After the last one nothing is served: what waits is dropped.
    pub(super) fn leave(&self, member: usize, finished: &[ClassId]) {
        let (orphans, waker) = {
            let mut state = self.lock();
            finished.iter().for_each(|&class| state.finish(class));
            state.capacity -= std::mem::take(&mut state.members[member].depth);
            state.members[member].rest = Rest::Ended;
            let orphans = if state.is_deserted() { state.clear() } else { Vec::new() };
            (orphans, state.wake_one())
        };
        drop(orphans);
        wake(waker);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a batch, and wakes a thread if all of them sleep.
    pub(in crate::engine) fn submit(&self, batch: Batch) {
        let Some(first) = batch.segments().first() else { return };
        let Some(target) = RingTarget::of(batch.target_ref()) else {
            let error = first.error(ErrorKind::InvalidInput);
            return batch.fail(&error.with_message("this engine serves open files only"));
        };
        let (need, slots) = Need::of(&batch, &target);
        let waker = {
            let mut state = self.lock();
            if state.is_deserted() {
                drop(state);
                return drop(batch);
            }
            let class = state.class(need, slots);
            state.classes[class].queue.push(batch);
            state.wake_if_nobody_looks()
        };
        wake(waker);
    }

    /// Lets the threads end once everything is done that was submitted.
    pub(in crate::engine) fn close(&self) {
        let wakers = {
            let mut state = self.lock();
            state.closed = true;
            state.wake_all()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Wakes a thread whenever it rests, for what it alone waits for.
    pub(super) fn nudge(&self, member: usize) {
        let waker = {
            let mut state = self.lock();
            let member = &mut state.members[member];
            (member.rest != Rest::Awake).then(|| {
                member.rest = Rest::Awake;
                member.waker.clone()
            })
        };
        wake(waker);
    }

    /// A segment's bytes are on their way into a slot; [`staged`](Self::staged) follows, or
    /// [`copy_failed`](Self::copy_failed).
    pub(super) fn copying(&self) {
        self.lock().copying += 1;
    }

    /// They have arrived.
    pub(super) fn staged(&self, work: Work) {
        let waker = {
            let mut state = self.lock();
            state.copying -= 1;
            state.staged.push_back(work);
            state.wake_if_nobody_looks()
        };
        wake(waker);
    }

    /// They never will, and the segment has ended.
    pub(super) fn copy_failed(&self, class: ClassId) {
        let wakers = {
            let mut state = self.lock();
            state.copying -= 1;
            state.finish(class);
            // Those who wait for the end have to look again.
            if state.closed { state.wake_all() } else { state.wake_if_nobody_looks().into_iter().collect() }
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// What thread `member` does between its operations: it tells what has become of them and takes up to `room` new
    /// segments into `taken`. If there are none it counts as resting from here on; it must not rest without. `holds`
    /// says whether it has any segments left.
    pub(super) fn exchange(
        &self,
        member: usize,
        report: &mut Report,
        room: usize,
        holds: bool,
        taken: &mut Vec<Work>,
    ) -> Outlook {
        let (outlook, waker) = {
            let mut state = self.lock();
            for class in report.finished.drain(..) {
                state.finish(class);
            }
            for (class, waiting) in report.waiting.drain(..) {
                state.classes[class.0].waiting = waiting;
            }
            for _ in 0..room {
                let Some(work) = state.next() else { break };
                taken.push(work);
            }
            let more = state.has_next();
            let (outlook, rest) = if !taken.is_empty() {
                (Outlook::Busy, Rest::Awake)
            } else if room == 0 {
                (Outlook::Idle, Rest::Full)
            } else if state.closed && !holds && state.is_drained() {
                (Outlook::End, Rest::Ended)
            } else {
                (Outlook::Idle, Rest::Asleep)
            };
            state.members[member].rest = rest;
            (outlook, if more { state.wake_one() } else { None })
        };
        wake(waker);
        outlook
    }
}

impl State {
    /// The class of those who need this; of the slots among it there can be `slots`.
    fn class(&mut self, need: Need, slots: usize) -> usize {
        if let Some(known) = self.classes.iter().position(|class| class.need == need) {
            return known;
        }
        let storage = self.storages.iter().position(|storage| storage.id == need.storage).unwrap_or_else(|| {
            self.storages.push(Storage { id: need.storage, in_flight: 0 });
            self.storages.len() - 1
        });
        let staging = need.staging.map(|id| {
            self.stagings.iter().position(|staging| staging.id == id).unwrap_or_else(|| {
                self.stagings.push(Staging { id, slots, in_flight: 0 });
                self.stagings.len() - 1
            })
        });
        let queue = FairQueue::default();
        self.classes.push(Class { need, storage, staging, queue, in_flight: 0, waiting: false });
        self.classes.len() - 1
    }

    fn may_begin(&self, class: &Class) -> bool {
        !class.waiting
            && !class.queue.is_empty()
            && may_begin(self.capacity, self.in_flight, self.storages[class.storage].in_flight)
            && class.staging.is_none_or(|staging| {
                let Staging { slots, in_flight, .. } = self.stagings[staging];
                may_begin(slots, in_flight, class.in_flight)
            })
    }

    fn has_next(&self) -> bool {
        !self.staged.is_empty() || self.classes.iter().any(|class| self.may_begin(class))
    }

    fn next(&mut self) -> Option<Work> {
        if let Some(work) = self.staged.pop_front() {
            return Some(work);
        }
        let count = self.classes.len();
        let class = (0..count).map(|n| (self.turn + n) % count).find(|&n| self.may_begin(&self.classes[n]))?;
        self.turn = class + 1;
        let (target, segment) = self.classes[class].queue.pop()?;
        self.count(class, 1);
        Some(Work { class: ClassId(class), target, segment, slot: None })
    }

    fn finish(&mut self, class: ClassId) {
        self.count(class.0, -1);
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

    /// Whether no thread is left. Before the first one has joined, there will be some.
    fn is_deserted(&self) -> bool {
        !self.members.is_empty() && self.members.iter().all(|member| member.rest == Rest::Ended)
    }

    /// Takes all that waits out.
    fn clear(&mut self) -> Vec<Work> {
        let mut waiting: Vec<_> = self.staged.drain(..).collect();
        for (id, class) in self.classes.iter_mut().enumerate() {
            while let Some((target, segment)) = class.queue.pop() {
                waiting.push(Work { class: ClassId(id), target, segment, slot: None });
            }
        }
        waiting
    }

    fn is_drained(&self) -> bool {
        self.copying == 0 && self.staged.is_empty() && self.classes.iter().all(|class| class.queue.is_empty())
    }

    fn wake_if_nobody_looks(&mut self) -> Option<Waker> {
        let somebody_looks = self.members.iter().any(|member| member.rest == Rest::Awake);
        if somebody_looks { None } else { self.wake_one() }
    }

    fn wake_one(&mut self) -> Option<Waker> {
        let member = self.members.iter_mut().find(|member| member.rest == Rest::Asleep)?;
        member.rest = Rest::Awake;
        Some(member.waker.clone())
    }

    fn wake_all(&mut self) -> Vec<Waker> {
        let resting = self.members.iter_mut().filter(|member| matches!(member.rest, Rest::Asleep | Rest::Full));
        resting
            .map(|member| {
                member.rest = Rest::Awake;
                member.waker.clone()
            })
            .collect()
    }
}

/// A waker may run any code: never under the lock.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Need {
    /// What the segments of a batch need, and how many slots of that kind there can be.
    fn of(batch: &Batch, target: &RingTarget) -> (Self, usize) {
        let segments = batch.segments();
        let longest = segments.iter().map(Segment::len).max().unwrap_or(0);
        let staging = segments.iter().find(|segment| needs_staging(segment, target.mode())).map(|segment| {
            let (device, pool) = (segment.device(), segment.device().staging());
            // Widened at both ends.
            match longest + 2 * COMMON_ALIGN <= pool.small_slot_len() {
                true => ((device.id(), SlotSize::Small), pool.max_small_slots()),
                false => ((device.id(), SlotSize::Large), pool.max_slots()),
            }
        });
        let need = Self { storage: target.file().storage(), staging: staging.map(|(id, _)| id) };
        (need, staging.map_or(0, |(_, slots)| slots))
    }
}

/// Whether a segment may need a slot. Segments that do after all wait in the wrong class, which harms only that class.
fn needs_staging(segment: &Segment, mode: Mode) -> bool {
    let Some(memory) = segment.host_memory() else { return true };
    let aligned = (memory.as_ptr().addr() | segment.offset() as usize | segment.len()).is_multiple_of(COMMON_ALIGN);
    mode == Mode::Direct && segment.direction() == Direction::Read && !aligned
}
