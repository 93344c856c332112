use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Shared, State};

/// What takes longer does not come any more.
const PATIENCE: Duration = Duration::from_secs(30);

/// Holds a [`FakeGpu`](super::FakeGpu)'s work back, breaks it, and counts.
#[derive(Clone)]
pub struct GpuControl(pub(super) Arc<Shared>);

impl GpuControl {
    /// Runs nothing and pins nothing until [`release`](Self::release).
    pub fn hold(&self) {
        self.0.lock().held = true;
    }

    /// Runs what was held back, and goes on.
    pub fn release(&self) {
        self.0.lock().held = false;
        self.0.changed.notify_all();
    }

    /// Loses the context: everything fails from now on, and nothing touches memory any more.
    pub fn break_down(&self) {
        let mut state = self.0.lock();
        state.broken = true;
        self.0.changed.notify_all();
        drop(self.0.changed.wait_while(state, |state| state.copying).unwrap_or_else(PoisonError::into_inner));
    }

    /// Lets every stream say that it is being captured, or not.
    pub fn set_capturing(&self, capturing: bool) {
        self.0.lock().capturing = capturing;
    }

    /// Lets allocations fail when they exceed `bytes` together.
    pub fn limit_memory(&self, bytes: usize) {
        self.0.lock().memory_left = Some(bytes);
    }

    /// Lets allocations of staging memory fail when they exceed `bytes` together.
    pub fn limit_staging(&self, bytes: usize) {
        self.0.lock().staging_left = Some(bytes);
    }

    /// Lets the next `n` attempts to record an event fail, as a driver may at any time.
    pub fn fail_records(&self, n: usize) {
        self.0.lock().records_to_fail = n;
    }

    /// Live allocations of device memory.
    pub fn allocations(&self) -> usize {
        self.0.lock().allocations
    }

    /// Blocks until every allocation of device memory has been freed.
    ///
    /// # Panics
    /// When that takes unreasonably long: something holds on to its memory.
    pub fn wait_freed(&self) {
        self.wait_allocations(0);
    }

    /// Blocks until there are no more than `n` allocations of device memory.
    ///
    /// # Panics
    /// When that takes unreasonably long.
    pub fn wait_allocations(&self, n: usize) {
        let left = self.wait_while(|state| state.allocations > n).map_err(|state| state.allocations);
        assert!(left.is_ok(), "{left:?} allocations are still there");
    }

    /// Waits as long as `goes_on` holds; the state if that takes unreasonably long.
    fn wait_while(&self, mut goes_on: impl FnMut(&State) -> bool) -> Result<(), MutexGuard<'_, State>> {
        let waited = self.0.changed.wait_timeout_while(self.0.lock(), PATIENCE, |state| goes_on(state));
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() { Err(state) } else { Ok(()) }
    }

    /// Lets [`pin`](crate::device::DeviceBackend::pin) refuse, or not.
    pub fn refuse_pins(&self, refuse: bool) {
        self.0.lock().refuses_pins = refuse;
    }

    /// Registrations of the program's own memory.
    pub fn pins(&self) -> usize {
        self.0.lock().pins.len()
    }

    /// Blocks until memory is about to be pinned, which takes until [`release`](Self::release) after [`hold`](Self::hold).
    pub fn wait_pinning(&self) {
        let state = self.0.lock();
        drop(self.0.changed.wait_while(state, |state| state.pinning == 0).unwrap_or_else(PoisonError::into_inner));
    }

    /// Blocks until nothing of the program's own memory is pinned any more.
    ///
    /// # Panics
    /// When that takes unreasonably long.
    pub fn wait_unpinned(&self) {
        let left =
            self.wait_while(|state| !state.pins.is_empty() || state.pinning > 0).map_err(|state| state.pins.len());
        assert!(left.is_ok(), "{left:?} registrations are still there");
    }

    /// Live allocations of staging memory.
    pub fn staging_allocations(&self) -> usize {
        self.0.lock().staging
    }

    /// Blocks until something waits to be run, which work does while it is held back.
    ///
    /// # Panics
    /// When that takes unreasonably long: nothing comes.
    pub fn wait_queued(&self) {
        assert!(self.wait_while(|state| state.queue.is_empty()).is_ok(), "nothing is queued");
    }

    /// Blocks until so many copies have run.
    pub fn wait_copies(&self, n: usize) {
        let mut state = self.0.lock();
        while state.copies < n {
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Copies that ran.
    pub fn copies(&self) -> usize {
        self.0.lock().copies
    }
}

impl fmt::Debug for GpuControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuControl").finish_non_exhaustive()
    }
}
