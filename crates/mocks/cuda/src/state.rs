//! The one state of the process, and the way into it.

use std::{
    cell::Cell,
    ffi::c_int,
    sync::{
        LazyLock,
        atomic::{AtomicI32, Ordering},
    },
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::process::getpid;

use crate::{
    capture::Capture,
    codes::{Code, Result},
    context::Context,
    control,
    counters::{Calls, Counters},
    device::{self, Device},
    event::Event,
    graph::Graph,
    host::HostRange,
    memory::Allocation,
    module::{Function, Module},
    plan::Plan,
    pool::Pool,
    stream::Stream,
    table::{Ranges, Table},
};

/// The version that `cuDriverGetVersion` reports: 13.0.
pub(crate) const DRIVER_VERSION: c_int = 13_000;

/// Everything the software GPU knows.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) initialised: bool,
    pub(crate) driver_version: c_int,
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: Table<Context>,
    pub(crate) streams: Table<Stream>,
    pub(crate) events: Table<Event>,
    pub(crate) modules: Table<Module>,
    pub(crate) functions: Table<Function>,
    pub(crate) pools: Table<Pool>,
    pub(crate) captures: Table<Capture>,
    pub(crate) graphs: Table<Graph>,
    pub(crate) executables: Table<Graph>,
    /// Device allocations by device address.
    pub(crate) device_memory: Ranges<Allocation>,
    /// Host memory that the GPU reaches, by address.
    pub(crate) host_memory: Ranges<HostRange>,
    pub(crate) plan: Plan,
    pub(crate) counters: Counters,
    pub(crate) calls: Calls,
    last_id: u64,
}

/// The locked state.
pub(crate) type Gpu = MutexGuard<'static, State>;

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| {
    let mut state = State::new();
    control::run_start_plan(&mut state);
    Mutex::new(state)
});

/// Told whenever a stream has got on or has stopped at the gate: what `wait` commands wait for.
pub(crate) static PROGRESS: Condvar = Condvar::new();

/// The process that called `cuInit`; 0 before that.
static USER: AtomicI32 = AtomicI32::new(0);

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

impl State {
    fn new() -> Self {
        let mut state = Self {
            initialised: false,
            driver_version: DRIVER_VERSION,
            devices: Vec::new(),
            contexts: Table::new(0xc0c0),
            streams: Table::new(0x57e0),
            events: Table::new(0xe7e0),
            modules: Table::new(0x40d0),
            functions: Table::new(0xf0f0),
            pools: Table::new(0x9001),
            captures: Table::new(0xca90),
            graphs: Table::new(0x6ea0),
            executables: Table::new(0x6ee0),
            device_memory: Ranges::new(),
            host_memory: Ranges::new(),
            plan: Plan::default(),
            counters: Counters::default(),
            calls: Calls::default(),
            last_id: 0,
        };
        device::install(&mut state);
        state
    }

    /// A number that nothing else carries.
    pub(crate) fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Reports a misuse that a real GPU would suffer silently.
    pub(crate) fn violation(&mut self, what: &str) {
        self.counters.violations += 1;
        eprintln!("mock-cuda: {what}");
    }
}

pub(crate) fn lock() -> Gpu {
    STATE.lock()
}

/// Whether this process was forked from one that uses the driver: nothing works in it, and locks may be stuck.
fn forked_from_user() -> bool {
    let user = USER.load(Ordering::Relaxed);
    user != 0 && user != getpid().as_raw_nonzero().get()
}

/// Runs a host function: the driver API is out of bounds in it.
pub(crate) fn in_host_function(run: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    run();
    IN_HOST_FUNCTION.set(false);
}

/// The frame of every entry point: refuses calls from where they are not allowed, counts, fails on demand, and takes
/// the lock.
pub(crate) fn api(name: &'static str, body: impl FnOnce(&mut Gpu) -> Result) -> c_int {
    api_before_init(name, |gpu| if gpu.initialised { body(gpu) } else { Err(Code::NOT_INITIALIZED) })
}

/// Like [`api`], for what works before `cuInit`.
pub(crate) fn api_before_init(name: &'static str, body: impl FnOnce(&mut Gpu) -> Result) -> c_int {
    if forked_from_user() {
        return Code::NOT_INITIALIZED.0;
    }
    // Exit handlers of other libraries call in when this thread's storage is gone already.
    if IN_HOST_FUNCTION.try_with(Cell::get).unwrap_or(false) {
        return Code::NOT_PERMITTED.0;
    }
    let mut gpu = lock();
    gpu.calls.count(name);
    let outcome = match gpu.plan.failure_of(name) {
        Some(code) => Err(code),
        None => body(&mut gpu),
    };
    match outcome {
        Ok(()) => 0,
        Err(Code(code)) => code,
    }
}

/// Initialises the driver.
#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: u32) -> c_int {
    api_before_init("cuInit", |gpu| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if gpu.devices.is_empty() {
            return Err(Code::NO_DEVICE);
        }
        gpu.initialised = true;
        USER.store(getpid().as_raw_nonzero().get(), Ordering::Relaxed);
        Ok(())
    })
}

/// The newest CUDA version that the driver supports, as 1000 × major + 10 × minor.
#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(out: crate::ffi::Out<c_int>) -> c_int {
    api_before_init("cuDriverGetVersion", |gpu| out.set(gpu.driver_version))
}
