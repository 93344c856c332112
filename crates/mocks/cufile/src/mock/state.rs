//! The one state of the process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::batch_state::Batch;
use super::codes::Status;
use super::command::{Mode, Order};
use super::control;
use super::counters::{Calls, Counters};
use super::device::Device;
use super::driver::Driver;
use super::file::File;
use super::plan::{Action, Call, Plan};

/// Everything the software cuFile knows.
#[derive(Debug)]
pub(crate) struct State {
    /// The process that opened the driver.
    pub(crate) process: Option<i32>,
    pub(crate) driver: Driver,
    /// What the driver says, and what it truly does if that is something else.
    pub(crate) mode: Mode,
    pub(crate) truth: Option<Mode>,
    pub(crate) files: BTreeMap<u64, File>,
    /// Registered memory, by its base.
    pub(crate) buffers: BTreeMap<u64, usize>,
    pub(crate) batches: BTreeMap<u64, Batch>,
    /// Registered streams and their flags.
    pub(crate) streams: BTreeMap<u64, u32>,
    /// Streams that were never registered, but used.
    pub(crate) used_streams: BTreeSet<u64>,
    pub(crate) device: Device,
    pub(crate) plan: Plan,
    pub(crate) counters: Counters,
    pub(crate) calls: Calls,
    pub(crate) settings: Settings,
    /// Every `block` that began before this ends.
    pub(crate) releases: u64,
    last_handle: u64,
    idle_since: Option<Instant>,
}

/// What `reset` undoes besides rules and counters.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) order: Order,
    /// Entries in flight beyond this let a submission wait.
    pub(crate) slab: Option<usize>,
    pub(crate) pin_limit: Option<(u64, i32)>,
    pub(crate) udev: bool,
    /// Whether settings of an open driver have an effect.
    pub(crate) settings_apply: bool,
    pub(crate) cancel_events: bool,
    /// Whether misuse ends the process.
    pub(crate) abort: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            order: Order::Due,
            // As the library's default of its own bounce buffers.
            slab: Some(64),
            pin_limit: None,
            udev: true,
            settings_apply: false,
            cancel_events: false,
            abort: true,
        }
    }
}

pub(crate) type Locked = MutexGuard<'static, State>;

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| {
    let mut state = State {
        process: None,
        driver: Driver::default(),
        mode: Mode::Compat,
        truth: None,
        files: BTreeMap::new(),
        buffers: BTreeMap::new(),
        batches: BTreeMap::new(),
        streams: BTreeMap::new(),
        used_streams: BTreeSet::new(),
        device: Device::default(),
        plan: Plan::default(),
        counters: Counters::default(),
        calls: Calls::default(),
        settings: Settings::default(),
        releases: 0,
        last_handle: 0xf11e_0000_0000_0000,
        idle_since: None,
    };
    control::run_start_plan(&mut state);
    Mutex::new(state)
});

/// Told whenever anything changes that somebody may wait for.
pub(crate) static CHANGED: Condvar = Condvar::new();

pub(crate) fn lock() -> Locked {
    STATE.lock()
}

/// Counts a call, and refuses it in a forked child: the real library would do anything there.
pub(crate) fn enter(name: &str) -> Locked {
    let mut state = lock();
    state.calls.count(name);
    // SAFETY: asks for a number.
    let process = unsafe { libc::getpid() };
    if state.process.is_some_and(|opener| opener != process) {
        state.violation("a call in a child that was forked from the process that opened the driver");
    }
    state
}

impl State {
    pub(crate) fn new_handle(&mut self) -> u64 {
        self.last_handle += 16;
        self.last_handle
    }

    /// Reports a misuse that the real library would suffer silently: it ends the process, unless it was told not to.
    pub(crate) fn violation(&mut self, what: &str) {
        self.counters.violations += 1;
        eprintln!("mock-cufile: misuse: {what}");
        if self.settings.abort {
            std::process::abort();
        }
    }

    /// What truly happens to bytes.
    pub(crate) fn true_mode(&self) -> Mode {
        self.truth.unwrap_or(self.mode)
    }

    /// An operation is under way.
    pub(crate) fn begin(&mut self) {
        if let Some(since) = self.idle_since.take() {
            self.counters.idle_us += since.elapsed().as_micros() as u64;
        }
        self.counters.in_flight += 1;
        self.counters.max_in_flight = self.counters.max_in_flight.max(self.counters.in_flight);
    }

    pub(crate) fn end(&mut self) {
        self.counters.in_flight -= 1;
        if self.counters.in_flight == 0 {
            self.idle_since = Some(Instant::now());
        }
        CHANGED.notify_all();
    }

    pub(crate) fn forget_idle_time(&mut self) {
        self.idle_since = None;
    }
}

/// Stands still until `release`, or for so long.
pub(crate) fn block(state: &mut Locked, time: Option<Duration>) {
    let (began, until) = (state.releases, time.map(|time| Instant::now() + time));
    state.counters.blocked += 1;
    CHANGED.notify_all();
    while state.releases == began {
        match until {
            Some(until) if Instant::now() >= until => break,
            Some(until) => drop(CHANGED.wait_until(state, until)),
            None => CHANGED.wait(state),
        }
    }
    state.counters.blocked -= 1;
    CHANGED.notify_all();
}

/// What the plan says about a call that returns a status: `Some` is its outcome. Blocks are served here.
pub(crate) fn planned(state: &mut Locked, name: &str) -> Option<Status> {
    match action(state, Call::named(name))? {
        Action::Status(err, cu_err) => Some(Status { err, cu_err }),
        _ => None,
    }
}

/// What the plan says about a call, once it has stood still as long as the plan says.
pub(crate) fn action(state: &mut Locked, call: Call<'_>) -> Option<Action> {
    match state.plan.action(call)? {
        Action::Block(time) => {
            block(state, time);
            state.plan.action_behind_block(call)
        }
        action => Some(action),
    }
}
