//! What tests reach by `dlsym`.

use std::ffi::{CStr, c_char, c_int};
use std::time::{Duration, Instant};

use super::command::{self, Command, Condition};
use super::counters::Counters;
use super::device;
use super::state::{CHANGED, Locked, State, lock};

const DONE: c_int = 0;
const NOT_UNDERSTOOD: c_int = -1;
const TIMED_OUT: c_int = -3;

/// Runs the commands in `MOCKCUFILE_PLAN`.
pub(crate) fn run_start_plan(state: &mut State) {
    let Ok(plan) = std::env::var("MOCKCUFILE_PLAN") else { return };
    match command::parse(&plan) {
        Ok(commands) => commands.into_iter().for_each(|command| state.apply(command)),
        Err(text) => eprintln!("mock-cufile: MOCKCUFILE_PLAN: not understood: {text}"),
    }
}

impl State {
    fn apply(&mut self, command: Command) {
        match command {
            Command::Mode(mode) => self.mode = mode,
            Command::Truth(truth) => self.truth = truth,
            Command::Rule(rule) => self.plan.add(rule),
            Command::DeviceTime { each, parallel } => self.device.set_time(each, parallel),
            Command::Order(order) => self.settings.order = order,
            Command::Slab(slab) => self.settings.slab = slab,
            Command::MaxBatch(entries) => self.driver.max_batch = entries,
            Command::PinLimit { bytes, code } => self.settings.pin_limit = Some((bytes, code)),
            Command::Udev(there) => self.settings.udev = there,
            Command::SettingsApply(apply) => self.settings.settings_apply = apply,
            Command::CancelEvents(events) => self.settings.cancel_events = events,
            Command::Hold => self.device.hold(),
            Command::Complete(count) => device::complete(self, count),
            Command::Release => self.releases += 1,
            Command::Abort(abort) => self.settings.abort = abort,
            Command::Wait { .. } => {}
            Command::Reset => self.reset(),
        }
        CHANGED.notify_all();
    }

    /// Forgets what tests asked for and what was counted, and lets go on what stands still. What is alive stays.
    fn reset(&mut self) {
        self.plan = Default::default();
        self.settings = Default::default();
        self.mode = Default::default();
        self.truth = None;
        self.driver.forget_staged();
        self.calls.reset();
        self.forget_idle_time();
        self.counters =
            Counters { in_flight: self.counters.in_flight, blocked: self.counters.blocked, ..Counters::default() };
        self.releases += 1;
        self.device.set_time(Duration::ZERO, usize::MAX);
        device::complete(self, None);
        device::end_the_endless(self);
    }

    fn holds(&self, condition: Condition) -> bool {
        match condition {
            Condition::Blocked(count) => self.counters.blocked >= count,
            Condition::Held(count) => self.device.held() >= count,
            Condition::Idle => self.counters.in_flight == 0,
        }
    }
}

fn wait(state: &mut Locked, condition: Condition, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    while !state.holds(condition) {
        if CHANGED.wait_until(state, until).timed_out() {
            return state.holds(condition);
        }
    }
    true
}

/// Carries out commands, separated by `;` or newlines: 0, or -1 if one was not understood (then none was carried out),
/// or -3 if one waited in vain.
///
/// # Safety
/// `text` is a NUL-terminated text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mock_cufile_ctl(text: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let commands = match command::parse(&text) {
        Ok(commands) => commands,
        Err(wrong) => {
            eprintln!("mock-cufile: not understood: {wrong}");
            return NOT_UNDERSTOOD;
        }
    };
    let mut state = lock();
    for command in commands {
        match command {
            Command::Wait { condition, patience } => {
                if !wait(&mut state, condition, patience) {
                    eprintln!("mock-cufile: waited in vain: {condition:?}");
                    return TIMED_OUT;
                }
            }
            command => state.apply(command),
        }
    }
    DONE
}

/// Gives the counters. `size` is the size of the caller's structure: 0 if it is ours, -1 if it is another.
///
/// # Safety
/// `out` is a place of `size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mock_cufile_counters(out: *mut Counters, size: usize) -> c_int {
    if size != size_of::<Counters>() || out.is_null() {
        return NOT_UNDERSTOOD;
    }
    let state = lock();
    let counters = Counters {
        open: state.driver.open,
        handles: state.files.len() as u64,
        buffers: state.buffers.len() as u64,
        pinned_bytes: state.buffers.values().map(|&len| len as u64).sum(),
        batches: state.batches.len() as u64,
        streams: state.streams.len() as u64,
        ..state.counters
    };
    // SAFETY: the size was checked; the rest is the caller's promise.
    unsafe { out.write(counters) };
    DONE
}

/// How often an entry point was called since the last `reset`, named without `cuFile`.
///
/// # Safety
/// `name` is a NUL-terminated text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mock_cufile_calls(name: *const c_char) -> u64 {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    lock().calls.of(&name)
}
