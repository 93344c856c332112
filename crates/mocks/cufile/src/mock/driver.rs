//! Opening and closing, properties and settings.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_long};

use super::codes::{Properties, Status};
use super::command::Mode;
use super::cuda::cuda;
use super::state::{enter, planned};

/// The driver's own state.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) open: u64,
    pub(crate) max_batch: u32,
    settings: Tunables,
    /// Parameters of 1.14 and newer that were set before the driver was opened, by kind and number.
    pub(crate) sizes: BTreeMap<c_int, usize>,
    pub(crate) switches: BTreeMap<c_int, bool>,
    pub(crate) texts: BTreeMap<c_int, Vec<u8>>,
    pub(crate) statistics: Statistics,
}

/// What is counted, and how far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Statistics {
    pub(crate) level: c_int,
    pub(crate) running: bool,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) failed: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    /// Requests by the way they took: peer to peer, nvidia-fs, host memory; reads and writes.
    pub(crate) ways: [[u64; 3]; 2],
}

impl Statistics {
    /// Counts a request, if anything is counted.
    pub(crate) fn count(&mut self, mode: Mode, write: bool, moved: i64) {
        if !self.running || self.level == 0 {
            return;
        }
        let Ok(bytes) = u64::try_from(moved) else {
            self.failed += 1;
            return;
        };
        if write {
            self.writes += 1;
            self.written_bytes += bytes;
        } else {
            self.reads += 1;
            self.read_bytes += bytes;
        }
        let way = match mode {
            Mode::P2p => 0,
            Mode::Gds => 1,
            Mode::Compat => 2,
        };
        self.ways[usize::from(write)][way] += 1;
    }
}

/// What every version can be told. The defaults are those of 1.20.
#[derive(Clone, Copy, Debug)]
struct Tunables {
    poll: bool,
    poll_threshold_kb: usize,
    max_direct_io_kb: usize,
    max_device_cache_kb: u32,
    max_pinned_kb: u32,
}

const DEFAULTS: Tunables = Tunables {
    poll: false,
    poll_threshold_kb: 4,
    max_direct_io_kb: if crate::VERSION >= 1190 { 16_384 } else { 1024 },
    max_device_cache_kb: 131_072,
    max_pinned_kb: u32::MAX - 3,
};

/// Parameters that are properties too, by their numbers.
const MAX_DIRECT_IO_SIZE_KB: c_int = 5;
const MAX_DEVICE_CACHE_SIZE_KB: c_int = 6;
const MAX_PINNED_SIZE_KB: c_int = 8;
const POLL_THRESHOLD_KB: c_int = 10;
const USE_POLL_MODE: c_int = 0;
const FORCE_COMPAT_MODE: c_int = 2;

impl Default for Driver {
    fn default() -> Self {
        Self {
            open: 0,
            max_batch: 128,
            settings: DEFAULTS,
            sizes: BTreeMap::new(),
            switches: BTreeMap::new(),
            texts: BTreeMap::new(),
            statistics: Statistics::default(),
        }
    }
}

impl Driver {
    /// What was set goes when the driver is closed, or when a test begins anew.
    pub(crate) fn forget_staged(&mut self) {
        let (open, statistics) = (self.open, self.statistics);
        *self = Self { open, statistics: Statistics { level: 0, running: false, ..statistics }, ..Self::default() };
    }

    pub(crate) fn is_forced_compat(&self) -> bool {
        self.switches.get(&FORCE_COMPAT_MODE).copied().unwrap_or(false)
    }

    pub(crate) fn properties(&self, mode: Mode) -> Properties {
        let size = |number, usual: usize| self.sizes.get(&number).copied().unwrap_or(usual);
        let poll = self.switches.get(&USE_POLL_MODE).copied().unwrap_or(self.settings.poll);
        let (nvfs, status_flags, feature_flags) = match mode {
            Mode::Compat => ((0, 0), 0, 0b0_1111),
            Mode::Gds => ((2, 28), 1 << 4, 0b1_1111),
            Mode::P2p => ((0, 0), 0, 0b1_1111),
        };
        let feature_flags = if self.open > 0 { feature_flags } else { 0 };
        Properties {
            nvfs_major: nvfs.0,
            nvfs_minor: nvfs.1,
            poll_threshold_kb: size(POLL_THRESHOLD_KB, self.settings.poll_threshold_kb),
            max_direct_io_kb: size(MAX_DIRECT_IO_SIZE_KB, self.settings.max_direct_io_kb),
            status_flags,
            control_flags: 0b10 | u32::from(poll),
            feature_flags,
            max_device_cache_kb: size(MAX_DEVICE_CACHE_SIZE_KB, self.settings.max_device_cache_kb as usize) as u32,
            per_buffer_cache_kb: if crate::VERSION >= 1190 { 1024 } else { 0 },
            max_pinned_kb: size(MAX_PINNED_SIZE_KB, self.settings.max_pinned_kb as usize) as u32,
            max_batch: self.max_batch,
            batch_timeout_ms: 5,
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuFileDriverOpen() -> Status {
    let mut state = enter("DriverOpen");
    if let Some(status) = planned(&mut state, "DriverOpen") {
        return status;
    }
    if !cuda().is_some_and(|cuda| cuda.has_context()) {
        state.violation("the driver is opened without a current context, on which some versions fail");
    }
    state.driver.open += 1;
    // SAFETY: asks for a number.
    state.process = Some(unsafe { libc::getpid() });
    if state.driver.is_forced_compat() {
        state.mode = Mode::Compat;
    }
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuFileDriverClose_v2() -> Status {
    let mut state = enter("DriverClose");
    if let Some(status) = planned(&mut state, "DriverClose") {
        return status;
    }
    if state.driver.open == 0 {
        return Status::of(super::codes::DRIVER_NOT_INITIALIZED);
    }
    state.driver.open -= 1;
    if state.driver.open == 0 {
        let left = state.files.len() + state.buffers.len() + state.batches.len();
        state.counters.leaks += left as u64;
        if left > 0 {
            let (files, buffers, batches) = (state.files.len(), state.buffers.len(), state.batches.len());
            state.violation(&format!(
                "the driver is closed over {files} files, {buffers} buffers and {batches} batches that are registered"
            ));
        }
        state.driver.forget_staged();
    }
    Status::SUCCESS
}

/// As old headers name it.
#[unsafe(no_mangle)]
extern "C" fn cuFileDriverClose() -> Status {
    cuFileDriverClose_v2()
}

#[unsafe(no_mangle)]
extern "C" fn cuFileUseCount() -> c_long {
    enter("UseCount").driver.open as c_long
}

/// # Safety
/// `version` is null or a place for the result.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileGetVersion(version: *mut c_int) -> Status {
    if version.is_null() {
        return Status::of(super::codes::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { version.write(crate::VERSION) };
    Status::SUCCESS
}

/// # Safety
/// `properties` is null or a place for the result.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileDriverGetProperties(properties: *mut Properties) -> Status {
    let mut state = enter("DriverGetProperties");
    if let Some(status) = planned(&mut state, "DriverGetProperties") {
        return status;
    }
    if properties.is_null() {
        return Status::of(super::codes::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { properties.write(state.driver.properties(state.mode)) };
    Status::SUCCESS
}

/// Sets something. Once the driver is open this succeeds and does nothing, as it was seen to.
fn set(name: &str, change: impl FnOnce(&mut Tunables)) -> Status {
    let mut state = enter(name);
    if let Some(status) = planned(&mut state, name) {
        return status;
    }
    if state.driver.open == 0 || state.settings.settings_apply {
        change(&mut state.driver.settings);
    }
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuFileDriverSetPollMode(poll: bool, threshold_kb: usize) -> Status {
    set("DriverSetPollMode", |settings| (settings.poll, settings.poll_threshold_kb) = (poll, threshold_kb))
}

#[unsafe(no_mangle)]
extern "C" fn cuFileDriverSetMaxDirectIOSize(kb: usize) -> Status {
    set("DriverSetMaxDirectIOSize", |settings| settings.max_direct_io_kb = kb)
}

#[unsafe(no_mangle)]
extern "C" fn cuFileDriverSetMaxCacheSize(kb: usize) -> Status {
    set("DriverSetMaxCacheSize", |settings| settings.max_device_cache_kb = kb as u32)
}

#[unsafe(no_mangle)]
extern "C" fn cuFileDriverSetMaxPinnedMemSize(kb: usize) -> Status {
    set("DriverSetMaxPinnedMemSize", |settings| settings.max_pinned_kb = kb as u32)
}
