//! Work that waits, in classes by what it needs: a file system that answers, and staging memory of a device in one of
//! its sizes. A class whose need cannot be met now holds up no other.

mod need;
mod share;

pub(super) use need::Need;
pub(super) use share::may_begin;

use need::SlotSize;
use warpio_core::DeviceId;

use crate::sys::statx::StorageId;

/// Queues of kind `Q`, one for each class, and how much of each is under way.
#[derive(Debug)]
pub(super) struct Classes<Q> {
    classes: Vec<Class<Q>>,
    /// The class whose turn is next.
    turn: usize,
    storages: Vec<Storage>,
    stagings: Vec<Staging>,
    /// Segments taken and not finished.
    in_flight: usize,
}

/// Names a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClassId(usize);

#[derive(Debug)]
pub(super) struct Class<Q> {
    pub(super) need: Need,
    pub(super) queue: Q,
    pub(super) in_flight: usize,
    /// An index in [`Classes::storages`].
    storage: usize,
    /// An index in [`Classes::stagings`].
    staging: Option<usize>,
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

impl<Q> Default for Classes<Q> {
    fn default() -> Self {
        Self { classes: Vec::new(), turn: 0, storages: Vec::new(), stagings: Vec::new(), in_flight: 0 }
    }
}

impl<Q: Default> Classes<Q> {
    /// The queue of those who need this; of the slots among it there can be `slots`.
    pub(super) fn queue(&mut self, need: Need, slots: usize) -> &mut Q {
        let class = self.class(need, slots);
        &mut self.classes[class].queue
    }

    fn class(&mut self, need: Need, slots: usize) -> usize {
        position_or_push(
            &mut self.classes,
            |class| class.need == need,
            || {
                let storage = position_or_push(
                    &mut self.storages,
                    |storage| storage.id == need.storage,
                    || Storage { id: need.storage, in_flight: 0 },
                );
                let staging = need.staging.map(|id| {
                    let new = || Staging { id, slots, in_flight: 0 };
                    position_or_push(&mut self.stagings, |staging| staging.id == id, new)
                });
                Class { need, queue: Q::default(), in_flight: 0, storage, staging }
            },
        )
    }
}

impl<Q> Classes<Q> {
    /// The next class, by turns, for which `may` holds.
    pub(super) fn turn(&mut self, may: impl Fn(&Self, &Class<Q>) -> bool) -> Option<ClassId> {
        let count = self.classes.len();
        let class = (0..count).map(|n| (self.turn + n) % count).find(|&n| may(self, &self.classes[n]))?;
        self.turn = class + 1;
        Some(ClassId(class))
    }

    /// Whether the file system of a class leaves enough of `capacity` to others.
    pub(super) fn has_share_of(&self, class: &Class<Q>, capacity: usize) -> bool {
        may_begin(capacity, self.in_flight, self.storages[class.storage].in_flight)
    }

    /// Whether a class leaves enough slots to others.
    pub(super) fn has_share_of_slots(&self, class: &Class<Q>) -> bool {
        class.staging.is_none_or(|staging| {
            let Staging { slots, in_flight, .. } = self.stagings[staging];
            may_begin(slots, in_flight, class.in_flight)
        })
    }

    /// What is under way, of all classes.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Something of a class begins.
    pub(super) fn begin(&mut self, class: ClassId) {
        self.count(class, 1);
    }

    /// It has ended.
    pub(super) fn end(&mut self, class: ClassId) {
        self.count(class, -1);
    }

    /// Counts, everywhere it counts.
    fn count(&mut self, class: ClassId, change: isize) {
        let class = &mut self.classes[class.0];
        let staging = class.staging.map(|staging| &mut self.stagings[staging].in_flight);
        let counts = [&mut self.in_flight, &mut self.storages[class.storage].in_flight, &mut class.in_flight];
        for count in counts.into_iter().chain(staging) {
            *count = count.saturating_add_signed(change);
        }
    }

    pub(super) fn get_mut(&mut self, class: ClassId) -> &mut Class<Q> {
        &mut self.classes[class.0]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Class<Q>> {
        self.classes.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (ClassId, &mut Class<Q>)> {
        self.classes.iter_mut().enumerate().map(|(id, class)| (ClassId(id), class))
    }
}

/// Where the item is for which `is` holds, after adding it if there was none.
fn position_or_push<T>(items: &mut Vec<T>, is: impl FnMut(&T) -> bool, new: impl FnOnce() -> T) -> usize {
    items.iter().position(is).unwrap_or_else(|| {
        items.push(new());
        items.len() - 1
    })
}
