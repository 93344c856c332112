//! What tests reach by `dlsym`: commands, counters, and the bytes behind device addresses.

use std::{
    env,
    ffi::{c_int, c_void},
    time::{Duration, Instant},
};

use crate::{
    codes::Code,
    command::{self, Command, Condition},
    counters::Counters,
    ffi::{Out, Text},
    plan::{Gate, Plan, Random},
    state::{Gpu, PROGRESS, State, lock},
};

/// What `mock_cuda_ctl` returns.
const DONE: c_int = 0;
const NOT_UNDERSTOOD: c_int = -1;
const REFUSED: c_int = -2;
const TIMED_OUT: c_int = -3;

/// The most memory that a device may be given: half of its addresses, so that there is always a gap to find.
const MAX_CAPACITY: u64 = 128 << 30;

/// Why a command did not work.
struct Refused(String);

/// Runs the commands in `MOCK_CUDA_PLAN`.
pub(crate) fn run_start_plan(state: &mut State) {
    let Ok(plan) = env::var("MOCK_CUDA_PLAN") else {
        return;
    };
    match command::parse(&plan) {
        Ok(commands) => {
            for command in commands {
                if let Err(Refused(why)) = state.apply(command) {
                    eprintln!("mock-cuda: MOCK_CUDA_PLAN: {why}");
                }
            }
        }
        Err(text) => eprintln!("mock-cuda: MOCK_CUDA_PLAN: not understood: {text}"),
    }
}

impl State {
    /// Carries out a command, other than to wait.
    fn apply(&mut self, command: Command) -> Result<(), Refused> {
        match command {
            Command::Memory { device, bytes } => {
                if bytes > MAX_CAPACITY {
                    return Err(Refused(format!("a device has at most {MAX_CAPACITY} bytes")));
                }
                self.known_device(device)?;
                self.devices[device].capacity = bytes;
            }
            Command::OomAfter(bytes) => self.plan.oom_after = bytes,
            Command::PinnedLimit(bytes) => self.plan.pinned_limit = bytes,
            Command::Sticky(rule) => {
                self.known_device(rule.device)?;
                if rule.after > 0 || !self.break_device(rule.device, Code(rule.code)) {
                    self.plan.sticky.push(rule);
                }
            }
            Command::Delay { longest, seed } => {
                self.plan.delay = longest;
                self.plan.random = Random(seed);
            }
            Command::Hold => self.plan.gate = Gate::Held(0),
            Command::Release(count) => {
                self.plan.gate = match count {
                    Some(count) => Gate::Held(count),
                    None => Gate::Open,
                };
                self.wake_streams();
            }
            Command::Fail(failure) => self.plan.fail(failure),
            Command::Attribute { device, attribute, value } => {
                self.known_device(device)?;
                self.devices[device].overrides.insert(attribute, value);
            }
            Command::DriverVersion(version) => self.driver_version = version,
            Command::Poison(bytes) => self.plan.poison = bytes,
            Command::Strict(strict) => self.plan.strict = strict,
            Command::Wait { .. } => return Err(Refused("nothing to wait for yet".to_owned())),
            Command::Reset => self.reset(),
        }
        Ok(())
    }

    fn known_device(&self, device: usize) -> Result<(), Refused> {
        if device < self.devices.len() { Ok(()) } else { Err(Refused(format!("there is no device {device}"))) }
    }

    /// Forgets what tests asked for and what was counted. What is alive stays; broken contexts work again.
    fn reset(&mut self) {
        self.discard_broken();
        self.plan = Plan::default();
        self.counters.reset();
        self.calls.reset();
        self.driver_version = crate::state::DRIVER_VERSION;
        for device in &mut self.devices {
            device.capacity = crate::device::CAPACITY;
            device.overrides.clear();
        }
        for context in self.contexts.values_mut() {
            context.heal();
        }
        PROGRESS.notify_all();
        self.wake_streams();
    }

    fn holds(&self, condition: Condition) -> bool {
        match condition {
            Condition::Held(count) => self.counters().held() >= count,
            Condition::Idle => self.streams.iter().all(|(handle, stream)| stream.unfinished(handle).is_none()),
        }
    }
}

/// Waits for a condition; whether it came to hold.
fn wait(gpu: &mut Gpu, condition: Condition, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    while !gpu.holds(condition) {
        if PROGRESS.wait_until(gpu, until).timed_out() {
            return gpu.holds(condition);
        }
    }
    true
}

/// Carries out commands, separated by `;` or newlines; `README.md` lists them. 0 if all worked, -1 if one was not
/// understood (then none was carried out), -2 if one was refused, -3 if one waited in vain.
#[unsafe(no_mangle)]
extern "C" fn mock_cuda_ctl(commands: Text) -> c_int {
    let commands = match commands.get().map(|text| command::parse(&text)) {
        Ok(Ok(commands)) => commands,
        Ok(Err(text)) => {
            eprintln!("mock-cuda: not understood: {text}");
            return NOT_UNDERSTOOD;
        }
        Err(_) => return NOT_UNDERSTOOD,
    };
    let mut gpu = lock();
    for command in commands {
        let breaks = matches!(command, Command::Sticky(_));
        if let Command::Wait { condition, patience } = command {
            if !wait(&mut gpu, condition, patience) {
                return TIMED_OUT;
            }
        } else if let Err(Refused(why)) = gpu.apply(command) {
            eprintln!("mock-cuda: refused: {why}");
            return REFUSED;
        }
        // What runs goes on to its end before a context is broken.
        while breaks && gpu.contexts.iter().any(|(_, context)| context.is_breaking()) {
            PROGRESS.wait(&mut gpu);
        }
    }
    DONE
}

/// Gives the counters. `size` is the size of the caller's structure: 0 if it is ours, -1 if it is another.
#[unsafe(no_mangle)]
extern "C" fn mock_cuda_counters(out: Out<Counters>, size: usize) -> c_int {
    if size != size_of::<Counters>() {
        return NOT_UNDERSTOOD;
    }
    match out.set(lock().counters()) {
        Ok(()) => DONE,
        Err(_) => NOT_UNDERSTOOD,
    }
}

/// How often an entry point was called since the last `reset`, whatever its version; refused calls count too.
#[unsafe(no_mangle)]
extern "C" fn mock_cuda_calls(name: Text) -> u64 {
    name.get().map_or(0, |name| lock().calls.of(&name))
}

/// Where the CPU finds the bytes of device or pinned memory; null if the range is not within one live allocation. It
/// stays valid until the allocation is freed.
#[unsafe(no_mangle)]
extern "C" fn mock_cuda_resolve(address: u64, len: usize) -> *mut c_void {
    let found = lock().alias(address, len as u64);
    found.map_or(std::ptr::null_mut(), <*mut u8>::cast)
}
