//! A device that counts its staging memory, and lets a test stop, fail or break its allocations.

use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex};

use warpio_core::{
    Device, DeviceBackend, DeviceEvent, DeviceId, DeviceStream, Error, ErrorKind, PoolConfig, Result, WatchDone,
};

use crate::support::LONG;

/// What the next allocations of staging memory do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Mode {
    #[default]
    Succeed,
    Fail,
    Panic,
    /// Waits until the mode is another one.
    Wait,
}

#[derive(Debug, Default)]
struct State {
    mode: Mode,
    live: usize,
    peak: usize,
    calls: usize,
}

#[derive(Debug)]
struct Backend {
    host: Arc<dyn DeviceBackend>,
    shared: Arc<(Mutex<State>, Condvar)>,
}

/// What the device's staging memory comes to.
#[derive(Clone)]
pub(crate) struct Memory(Arc<(Mutex<State>, Condvar)>);

impl Memory {
    pub(crate) fn set(&self, mode: Mode) {
        self.0.0.lock().unwrap().mode = mode;
        self.0.1.notify_all();
    }

    /// Bytes that are allocated now.
    pub(crate) fn live(&self) -> usize {
        self.0.0.lock().unwrap().live
    }

    /// The most bytes that were ever allocated at once.
    pub(crate) fn peak(&self) -> usize {
        self.0.0.lock().unwrap().peak
    }

    /// How often memory was asked for.
    pub(crate) fn calls(&self) -> usize {
        self.0.0.lock().unwrap().calls
    }

    /// Blocks until memory was asked for `n` times.
    pub(crate) fn wait_for_calls(&self, n: usize) {
        let state = self.0.0.lock().unwrap();
        let (_state, timeout) = self.0.1.wait_timeout_while(state, LONG, |state| state.calls < n).unwrap();
        assert!(!timeout.timed_out());
    }
}

pub(crate) fn device(pool: PoolConfig) -> (Device, Memory) {
    let shared = Arc::new((Mutex::new(State::default()), Condvar::new()));
    let backend = Backend { host: Device::host().backend().clone(), shared: shared.clone() };
    (Device::new(Arc::new(backend), pool), Memory(shared))
}

// SAFETY: everything but the counting is the host's.
unsafe impl DeviceBackend for Backend {
    fn id(&self) -> DeviceId {
        DeviceId { kind: "counted", ordinal: 0, context: 0 }
    }

    fn host_visible(&self) -> bool {
        true
    }

    fn alloc(&self, len: usize) -> Result<NonNull<u8>> {
        self.host.alloc(len)
    }

    unsafe fn free(&self, ptr: NonNull<u8>, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.host.free(ptr, len) }
    }

    fn alloc_staging(&self, len: usize) -> Result<NonNull<u8>> {
        let (state, changed) = &*self.shared;
        let mode = {
            let mut state = state.lock().unwrap();
            state.calls += 1;
            changed.notify_all();
            changed.wait_timeout_while(state, LONG, |state| state.mode == Mode::Wait).unwrap().0.mode
        };
        match mode {
            Mode::Fail => return Err(Error::new(ErrorKind::OutOfMemory)),
            Mode::Panic => panic!("a driver that panics"),
            Mode::Succeed | Mode::Wait => {}
        }
        let memory = self.host.alloc_staging(len)?;
        let mut state = state.lock().unwrap();
        state.live += len;
        state.peak = state.peak.max(state.live);
        Ok(memory)
    }

    unsafe fn free_staging(&self, ptr: NonNull<u8>, len: usize) {
        self.shared.0.lock().unwrap().live -= len;
        // SAFETY: the caller's promise.
        unsafe { self.host.free_staging(ptr, len) }
    }

    fn new_stream(&self) -> Result<DeviceStream> {
        self.host.new_stream()
    }

    fn earlier_work(&self) -> Result<DeviceEvent> {
        self.host.earlier_work()
    }

    fn watch(&self, event: DeviceEvent, done: WatchDone) {
        self.host.watch(event, done);
    }
}
