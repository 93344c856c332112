//! Registrations that the engine makes by itself: of allocations that are used more than once, the least recently used
//! ones taken back when there are too many.
//!
//! Registering happens on the engine's threads and taking back on the janitor's, never under a lock: memory is released
//! on threads that must not wait for either.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, Weak};

use warpio_core::engine::{Attachment, Segment};
use warpio_cuda::CudaDeviceExt;

use super::register::{pin, unpin};
use crate::driver::{Driver, lock};
use crate::error::{CuFileError, Failure};
use crate::janitor;
use crate::sys::OpError;

/// The allocations of one engine.
#[derive(Debug)]
pub(crate) struct Cache {
    driver: Driver,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The most bytes to keep registered.
    budget: u64,
    /// The bytes registered, and those that are about to be.
    used: u64,
    clock: u64,
    registered: HashMap<usize, Arc<Entry>>,
}

/// One allocation, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Entry {
    cache: Weak<Cache>,
    base: usize,
    len: usize,
    status: Mutex<Status>,
}

#[derive(Debug)]
struct Status {
    phase: Phase,
    /// Bytes moved to or from it: more than it has means that it is used again.
    moved: u64,
    in_use: usize,
    last_use: u64,
}

#[derive(Debug)]
enum Phase {
    Idle,
    /// A thread registers it.
    Pinning,
    Registered(Driver),
    /// The janitor has it on its list.
    Leaving,
    /// It cannot be registered.
    Refused,
}

/// A registration while an operation uses it.
#[derive(Debug)]
pub(crate) struct Pin {
    entry: Arc<Entry>,
}

impl Pin {
    pub(crate) fn base(&self) -> usize {
        self.entry.base
    }

    /// Whether all of `address..address + len` is registered.
    pub(crate) fn covers(&self, address: usize, len: usize) -> bool {
        let (base, whole) = (self.entry.base, self.entry.len);
        address.checked_sub(base).is_some_and(|at| at <= whole && len <= whole - at)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        lock(&self.entry.status).in_use -= 1;
    }
}

impl Cache {
    /// At most `budget` bytes are kept registered; none for zero.
    pub(crate) fn new(driver: Driver, budget: u64) -> Arc<Self> {
        let state = State { budget, used: 0, clock: 0, registered: HashMap::new() };
        Arc::new(Self { driver, state: Mutex::new(state) })
    }

    /// The registration of the memory that a segment lies in, made now if the memory has proved to be used again, with
    /// the `len` bytes that are about to be moved. The segment's context must be current. This may block.
    pub(crate) fn pin(self: &Arc<Self>, segment: &Segment, len: usize) -> Option<Pin> {
        let moved = len as u64;
        if lock(&self.state).budget == 0 {
            return None;
        }
        let block = segment.memory_block()?;
        let (base, len) = (block.base().as_ptr() as usize, block.len());
        let entry = block.attachment(Arc::as_ptr(self) as usize, || {
            let status = Status { phase: Phase::Idle, moved: 0, in_use: 0, last_use: 0 };
            Arc::new(Entry { cache: Arc::downgrade(self), base, len, status: Mutex::new(status) })
        });
        let evicted = {
            let mut state = lock(&self.state);
            state.clock += 1;
            let mut status = lock(&entry.status);
            let used_before = std::mem::replace(&mut status.last_use, state.clock);
            status.moved = status.moved.saturating_add(moved);
            match status.phase {
                Phase::Registered(_) => {
                    status.in_use += 1;
                    drop(status);
                    return Some(Pin { entry });
                }
                Phase::Idle if status.moved > len as u64 => {}
                _ => return None,
            }
            let evicted = state.make_room(len as u64, used_before)?;
            status.phase = Phase::Pinning;
            state.used += len as u64;
            evicted
        };
        // The room is there once the registrations are gone.
        let gone: Vec<_> = evicted.into_iter().map(take_back).collect();
        gone.into_iter().for_each(|gone| gone.recv().unwrap_or_default());
        self.register(entry)
    }

    fn register(&self, entry: Arc<Entry>) -> Option<Pin> {
        let pinned = pin(&self.driver, entry.base, entry.len);
        let mut state = lock(&self.state);
        let mut status = lock(&entry.status);
        match pinned {
            Ok(()) => {
                status.phase = Phase::Registered(self.driver.clone());
                status.in_use += 1;
                state.registered.insert(entry.base, entry.clone());
                drop(status);
                Some(Pin { entry })
            }
            Err(error) => {
                tracing::debug!(%error, len = entry.len, "memory is used without being registered");
                status.phase = Phase::Refused;
                state.used -= entry.len as u64;
                if is_limit(&error) {
                    // So much can be pinned on this machine, and no more.
                    state.budget = state.used;
                }
                None
            }
        }
    }

    /// How many bytes are registered.
    pub(crate) fn registered(&self) -> u64 {
        lock(&self.state).used
    }
}

/// Whether this says that no more memory can be pinned.
fn is_limit(error: &CuFileError) -> bool {
    let limits = [OpError::INVALID_MAPPING_SIZE, OpError::GPU_MEMORY_PINNING_FAILED];
    matches!(error.failure(), Failure::Code(code) if limits.contains(&code))
}

impl State {
    /// Takes out what was used least recently and is not in use, until `len` bytes fit; `None` if they cannot.
    ///
    /// Only what was last used before `used_before` goes: memory that is used in turns would otherwise be registered
    /// anew at every use.
    fn make_room(&mut self, len: u64, used_before: u64) -> Option<Vec<(Arc<Entry>, Driver)>> {
        let mut idle: Vec<_> = self
            .registered
            .values()
            .filter_map(|entry| {
                let status = lock(&entry.status);
                (status.in_use == 0 && status.last_use < used_before).then_some((
                    status.last_use,
                    entry.base,
                    entry.len,
                ))
            })
            .collect();
        idle.sort_unstable();
        let mut needed = (self.used + len).saturating_sub(self.budget);
        let mut bases = Vec::new();
        for (_, base, len) in idle {
            if needed == 0 {
                break;
            }
            needed = needed.saturating_sub(len as u64);
            bases.push(base);
        }
        (needed == 0).then(|| bases.into_iter().filter_map(|base| self.leave(base)).collect())
    }

    /// Takes an entry out; whoever gets it takes its registration back.
    fn leave(&mut self, base: usize) -> Option<(Arc<Entry>, Driver)> {
        let entry = self.registered.remove(&base)?;
        self.used -= entry.len as u64;
        let driver = entry.begin_to_leave()?;
        Some((entry, driver))
    }
}

impl Entry {
    fn begin_to_leave(&self) -> Option<Driver> {
        let mut status = lock(&self.status);
        match std::mem::replace(&mut status.phase, Phase::Leaving) {
            Phase::Registered(driver) => Some(driver),
            other => {
                status.phase = other;
                None
            }
        }
    }
}

/// Takes a registration back, later; says when.
fn take_back((entry, driver): (Arc<Entry>, Driver)) -> Receiver<()> {
    let (told, gone) = channel();
    janitor::later(move || {
        leave_driver(&driver, entry.base);
        lock(&entry.status).phase = Phase::Idle;
        // Nobody may be waiting.
        let _ = told.send(());
    });
    gone
}

fn leave_driver(driver: &Driver, base: usize) {
    // In whatever context: the library goes by the address.
    if let Err(error) = driver.device().in_context(|| unpin(driver, base)) {
        tracing::debug!(%error, "the registration went with the context");
    }
}

impl Attachment for Entry {
    fn detach(self: Arc<Self>, release: Box<dyn FnOnce() + Send>) {
        let driver = match self.cache.upgrade() {
            Some(cache) => lock(&cache.state).leave(self.base).map(|(_, driver)| driver),
            None => None,
        };
        match driver {
            Some(driver) => janitor::later(move || {
                leave_driver(&driver, self.base);
                release();
            }),
            // Behind the job that takes the registration back.
            None if matches!(lock(&self.status).phase, Phase::Leaving) => janitor::later(release),
            None => release(),
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        for entry in std::mem::take(&mut state.registered).into_values() {
            if let Some(driver) = entry.begin_to_leave() {
                drop(take_back((entry, driver)));
            }
        }
    }
}
