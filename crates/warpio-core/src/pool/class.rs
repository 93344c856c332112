//! The slots of one size.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use super::queue::Queue;
use crate::device::DeviceBackend;
use crate::sync::{Arc, Mutex, lock};
use crate::{Error, ErrorKind, Result};

/// Memory that was allocated at once and is cut into slots.
pub(super) struct Slab {
    backend: Arc<dyn DeviceBackend>,
    base: NonNull<u8>,
    len: usize,
    pub(super) id: u64,
}

// SAFETY: raw memory; who may touch which part is governed by the slots.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: allocated with this length by `Class::grow`; the slots that lay in it hold the slab alive.
        unsafe { self.backend.free_staging(self.base, self.len) }
    }
}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slab").field("id", &self.id).field("len", &self.len).finish_non_exhaustive()
    }
}

/// One slot's memory.
#[derive(Debug)]
pub(super) struct SlotMemory {
    pub(super) slab: Arc<Slab>,
    pub(super) offset: usize,
    /// The worker that used it last, whose processor's caches may still hold it.
    pub(super) home: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Class {
    pub(super) slot_len: usize,
    pub(super) queue: Queue<SlotMemory>,
    slab_len: usize,
    growth: Mutex<Growth>,
}

#[derive(Debug)]
struct Growth {
    /// Slots in existence, those included that will never be lent again.
    slots: usize,
    leaked: usize,
    max_slots: usize,
    next_slab: u64,
    /// Somebody is allocating a slab.
    growing: bool,
}

impl Class {
    pub(super) fn new(slot_len: usize, budget: usize, slab_len: usize) -> Self {
        let max_slots = budget.checked_div(slot_len).unwrap_or(0);
        let growth = Growth { slots: 0, leaked: 0, max_slots, next_slab: 0, growing: false };
        Self { slot_len, queue: Queue::default(), slab_len, growth: Mutex::new(growth) }
    }

    /// Bytes in existence.
    pub(super) fn bytes(&self) -> usize {
        lock(&self.growth).slots * self.slot_len
    }

    pub(super) fn max_slots(&self) -> usize {
        lock(&self.growth).max_slots
    }

    /// A free slot that worker `home` used last, or else one that nobody has used, or else any; but rather than take
    /// one that another worker will come back for, `None` while the class has fewer than `enough` slots and can grow.
    pub(super) fn try_take_near(&self, home: usize, enough: usize) -> Option<SlotMemory> {
        const MINE: u8 = 0;
        const NOBODYS: u8 = 1;
        const OTHERS: u8 = 2;
        let may_grow = {
            let growth = lock(&self.growth);
            growth.slots < enough.min(growth.max_slots)
        };
        let limit = if may_grow { OTHERS } else { OTHERS + 1 };
        let mut memory = self.queue.try_take_best(limit, |slot| match slot.home {
            Some(other) if other == home => MINE,
            Some(_) => OTHERS,
            None => NOBODYS,
        })?;
        memory.home = Some(home);
        Some(memory)
    }

    /// Takes the right to allocate the next slab, if there is room and nobody else has it.
    pub(super) fn begin_growth(&self) -> bool {
        let mut growth = lock(&self.growth);
        let may = !growth.growing && growth.slots < growth.max_slots;
        growth.growing |= may;
        may
    }

    /// Why nobody will ever get a slot, if that is so.
    pub(super) fn hopeless(&self) -> Option<Error> {
        let growth = lock(&self.growth);
        if growth.growing || growth.slots < growth.max_slots || growth.slots > growth.leaked {
            return None;
        }
        let message = match growth.slots {
            0 => format!("the staging budget has no room for a slot of {} bytes", self.slot_len),
            n => format!("all {n} staging slots of {} bytes are leaked: the device may still use them", self.slot_len),
        };
        Some(Error::new(ErrorKind::OutOfMemory).with_message(message))
    }

    /// One of the slots lent will not come back.
    pub(super) fn one_leaked(&self) {
        lock(&self.growth).leaked += 1;
        if let Some(error) = self.hopeless() {
            self.queue.fail(&error);
        }
    }

    /// Allocates slabs, with the right that [`begin_growth`](Self::begin_growth) gave, until nobody waits or the
    /// budget is used up.
    pub(super) fn grow(&self, backend: &Arc<dyn DeviceBackend>) {
        loop {
            let more = self.add_slab(backend);
            let mut growth = lock(&self.growth);
            match more {
                Ok(()) if growth.slots < growth.max_slots && self.queue.has_waiters() => {}
                Ok(()) => return growth.growing = false,
                Err(error) => {
                    growth.growing = false;
                    // Those who wait get the slots that exist, one after another; without any they would wait for ever.
                    if growth.slots == growth.leaked {
                        drop(growth);
                        self.queue.fail(&error);
                    } else {
                        growth.max_slots = growth.slots;
                        tracing::warn!(%error, bytes = growth.slots * self.slot_len, "staging memory cannot grow");
                    }
                    return;
                }
            }
        }
    }

    fn add_slab(&self, backend: &Arc<dyn DeviceBackend>) -> Result<(), Error> {
        let (count, id) = {
            let mut growth = lock(&self.growth);
            let per_slab = (self.slab_len / self.slot_len).max(1);
            growth.next_slab += 1;
            (per_slab.min(growth.max_slots - growth.slots), growth.next_slab)
        };
        let len = count * self.slot_len;
        // A panic here would leave everybody waiting who waits for this growth.
        let base = catch_unwind(AssertUnwindSafe(|| backend.alloc_staging(len)))
            .unwrap_or_else(|_| Err(Error::new(ErrorKind::Device).with_message("the allocation panicked")))?;
        let slab = Arc::new(Slab { backend: backend.clone(), base, len, id });
        lock(&self.growth).slots += count;
        let slot = |n| SlotMemory { slab: slab.clone(), offset: n * self.slot_len, home: None };
        self.queue.put_all((0..count).map(slot));
        Ok(())
    }

    /// The slabs of which a slot is free, in the order of their addresses.
    pub(super) fn slabs(&self) -> Vec<Arc<Slab>> {
        let mut slabs = std::collections::BTreeMap::new();
        self.queue.for_each_free(|slot| {
            slabs.entry(slot.slab.base()).or_insert_with(|| slot.slab.clone());
        });
        slabs.into_values().collect()
    }

    /// Gives back slabs of which every slot is free and that nobody else holds. Returns the bytes released.
    pub(super) fn trim(&self) -> usize {
        // Who finds nothing free meanwhile waits at this lock, and then learns that there is room to grow again.
        let mut growth = lock(&self.growth);
        let mut free: HashMap<u64, usize> = HashMap::new();
        self.queue.for_each_free(|slot| *free.entry(slot.slab.id).or_default() += 1);
        let slot_len = self.slot_len;
        let removed = self.queue.remove_free(|slot| {
            let slots = slot.slab.len() / slot_len;
            let held_elsewhere = Arc::strong_count(&slot.slab) > slots;
            free.get(&slot.slab.id).is_some_and(|&n| n == slots) && !held_elsewhere
        });
        let mut by_slab: HashMap<u64, Vec<SlotMemory>> = HashMap::new();
        for slot in removed {
            by_slab.entry(slot.slab.id).or_default().push(slot);
        }
        let (mut released, mut incomplete) = (0, Vec::new());
        for slots in by_slab.into_values() {
            let (count, whole) = (slots.len(), slots.first().map_or(0, |slot| slot.slab.len()));
            if count * slot_len == whole {
                // Freed before it is counted out, so that the budget holds at every moment.
                drop(slots);
                growth.slots -= count;
                released += whole;
            } else {
                // A slot was taken between the two looks.
                incomplete.extend(slots);
            }
        }
        drop(growth);
        self.queue.put_all(incomplete);
        released
    }
}
