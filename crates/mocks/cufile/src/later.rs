//! What came after 1.11: parameters, statistics, ways past host memory.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::mock::codes::{DRIVER_ALREADY_OPEN, DRIVER_NOT_INITIALIZED, INVALID_VALUE, Status};
use crate::mock::command::Mode;
use crate::mock::driver::Statistics;
use crate::mock::state::{Locked, enter, planned};

const SIZES: c_int = 12;
const SWITCHES: c_int = 14;
const TEXTS: c_int = 4;

/// The frame of a setter: parameters are fixed once the driver is open.
fn set(name: &str, number: c_int, count: c_int, store: impl FnOnce(&mut Locked)) -> Status {
    let mut state = enter(name);
    if let Some(status) = planned(&mut state, name) {
        return status;
    }
    if state.driver.open > 0 {
        return Status::of(DRIVER_ALREADY_OPEN);
    }
    if !(0..count).contains(&number) {
        return Status::of(INVALID_VALUE);
    }
    store(&mut state);
    Status::SUCCESS
}

/// The frame of a getter: what was set, or what it is otherwise.
fn get<T>(name: &str, number: c_int, count: c_int, out: *mut T, value: impl FnOnce(&Locked) -> T) -> Status {
    let mut state = enter(name);
    if let Some(status) = planned(&mut state, name) {
        return status;
    }
    if !(0..count).contains(&number) || out.is_null() {
        return Status::of(INVALID_VALUE);
    }
    // SAFETY: callers pass a place for the result.
    unsafe { out.write(value(&state)) };
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuFileSetParameterSizeT(number: c_int, value: usize) -> Status {
    set("SetParameterSizeT", number, SIZES, |state| {
        state.driver.sizes.insert(number, value);
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuFileGetParameterSizeT(number: c_int, out: *mut usize) -> Status {
    /// By number: profile, queue depth, threads, threshold, parallelism, direct I/O, cache, buffer, pinned, batch, poll,
    /// batch timeout.
    const DEFAULTS: [usize; SIZES as usize] =
        [0, 128, 8, 1024, 4, 16_384, 131_072, 1024, u32::MAX as usize - 3, 128, 4, 5];
    get("GetParameterSizeT", number, SIZES, out, |state| {
        state.driver.sizes.get(&number).copied().unwrap_or(DEFAULTS[number as usize])
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuFileSetParameterBool(number: c_int, value: bool) -> Status {
    set("SetParameterBool", number, SWITCHES, |state| {
        state.driver.switches.insert(number, value);
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuFileGetParameterBool(number: c_int, out: *mut bool) -> Status {
    get("GetParameterBool", number, SWITCHES, out, |state| {
        // Compatibility is allowed, and parallel I/O on; but before the driver is open, only what was set is told.
        let usual = state.driver.open > 0 && matches!(number, 1 | 4);
        state.driver.switches.get(&number).copied().unwrap_or(usual)
    })
}

/// # Safety
/// `value` is null or a NUL-terminated text.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileSetParameterString(number: c_int, value: *const c_char) -> Status {
    if value.is_null() {
        return Status::of(INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(value) }.to_bytes_with_nul().to_vec();
    set("SetParameterString", number, TEXTS, |state| {
        state.driver.texts.insert(number, text);
    })
}

/// # Safety
/// `out` is null or a place of `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileGetParameterString(number: c_int, out: *mut c_char, len: c_int) -> Status {
    let mut state = enter("GetParameterString");
    if let Some(status) = planned(&mut state, "GetParameterString") {
        return status;
    }
    let text = state.driver.texts.get(&number).cloned().unwrap_or_else(|| vec![0]);
    if out.is_null() || !(0..TEXTS).contains(&number) || text.len() > len as usize {
        return Status::of(INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { out.cast::<u8>().copy_from(text.as_ptr(), text.len()) };
    Status::SUCCESS
}

/// # Safety
/// `least` and `most` are places for the results.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileGetParameterMinMaxValue(number: c_int, least: *mut usize, most: *mut usize) -> Status {
    const LIMITS: [(usize, usize); SIZES as usize] = [
        (0, 3),
        (1, 256),
        (0, 128),
        (4, usize::MAX),
        (0, 8),
        (64, 16_384),
        (1, usize::MAX),
        (64, 16_384),
        (1, usize::MAX),
        (1, 256),
        (0, usize::MAX),
        (1, 1000),
    ];
    get("GetParameterMinMaxValue", number, SIZES, least, |_| LIMITS[number as usize].0);
    get("GetParameterMinMaxValue", number, SIZES, most, |_| LIMITS[number as usize].1)
}

#[unsafe(no_mangle)]
extern "C" fn cuFileSetStatsLevel(level: c_int) -> Status {
    let mut state = enter("SetStatsLevel");
    if let Some(status) = planned(&mut state, "SetStatsLevel") {
        return status;
    }
    if !(0..=3).contains(&level) {
        return Status::of(INVALID_VALUE);
    }
    state.driver.statistics.level = level;
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuFileGetStatsLevel(out: *mut c_int) -> Status {
    get("GetStatsLevel", 0, 1, out, |state| state.driver.statistics.level)
}

/// Statistics are of an open driver.
fn statistics(name: &str, change: impl FnOnce(&mut Statistics)) -> Status {
    let mut state = enter(name);
    if let Some(status) = planned(&mut state, name) {
        return status;
    }
    if state.driver.open == 0 {
        return Status::of(DRIVER_NOT_INITIALIZED);
    }
    change(&mut state.driver.statistics);
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuFileStatsStart() -> Status {
    statistics("StatsStart", |statistics| statistics.running = true)
}

#[unsafe(no_mangle)]
extern "C" fn cuFileStatsStop() -> Status {
    statistics("StatsStop", |statistics| statistics.running = false)
}

#[unsafe(no_mangle)]
extern "C" fn cuFileStatsReset() -> Status {
    statistics("StatsReset", |statistics| {
        *statistics = Statistics { level: statistics.level, running: statistics.running, ..Statistics::default() };
    })
}

/// Writes the structure of a level, as 1.19 and newer lay it out, in words of eight bytes.
///
/// # Safety
/// `out` is a place for it.
unsafe fn tell(name: &str, level: c_int, out: *mut c_void) -> Status {
    const BASIC: usize = 78;
    const HISTOGRAMS: usize = 64;
    const GPU: usize = 31;
    let mut state = enter(name);
    if let Some(status) = planned(&mut state, name) {
        return status;
    }
    let counted = state.driver.statistics;
    if out.is_null() || !counted.running || counted.level < level {
        return Status::of(INVALID_VALUE);
    }
    let mut words = vec![0u64; BASIC];
    (words[0], words[1], words[2]) = (counted.reads, counted.failed, counted.writes);
    (words[4], words[8]) = (state.files.len() as u64, state.buffers.len() as u64);
    (words[12], words[13]) = (counted.read_bytes, counted.written_bytes);
    if level >= 2 {
        words.extend([0; HISTOGRAMS]);
    }
    if level >= 3 {
        words.push(1);
        let mut gpu = [0u64; GPU];
        (gpu[0], gpu[2], gpu[15]) = (1, counted.read_bytes, counted.written_bytes);
        gpu[7..10].copy_from_slice(&counted.ways[0]);
        gpu[20..23].copy_from_slice(&counted.ways[1]);
        gpu[30] = state.buffers.values().map(|&len| len as u64).sum();
        words.extend(gpu);
        words.extend([0; 15 * GPU]);
    }
    // SAFETY: the caller's promise.
    unsafe { out.cast::<u64>().copy_from(words.as_ptr(), words.len()) };
    Status::SUCCESS
}

/// # Safety
/// `out` is a place for the structure.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileGetStatsL1(out: *mut c_void) -> Status {
    // SAFETY: the caller's promise.
    unsafe { tell("GetStatsL1", 1, out) }
}

/// # Safety
/// `out` is a place for the structure.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileGetStatsL2(out: *mut c_void) -> Status {
    // SAFETY: the caller's promise.
    unsafe { tell("GetStatsL2", 2, out) }
}

/// # Safety
/// `out` is a place for the structure.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileGetStatsL3(out: *mut c_void) -> Status {
    // SAFETY: the caller's promise.
    unsafe { tell("GetStatsL3", 3, out) }
}

#[unsafe(no_mangle)]
extern "C" fn cuFileGetBARSizeInKB(_gpu: c_int, out: *mut usize) -> Status {
    get("GetBARSizeInKB", 0, 1, out, |_| 256 << 20)
}

/// The number of NVMe among the kinds of storage, and how many of them there are.
const NVME: c_int = 4;
const STORAGES: c_int = 15;

#[unsafe(no_mangle)]
extern "C" fn cuFileDriverGetP2PFlags(storage: c_int, out: *mut c_int) -> Status {
    get("DriverGetP2PFlags", storage, STORAGES, out, |state| match state.mode {
        Mode::P2p if storage == NVME => 1,
        Mode::Gds if storage == NVME => 2,
        _ => 0,
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuFileDriverSetP2PFlags(storage: c_int, _flags: c_int) -> Status {
    let mut unused = 0;
    get("DriverSetP2PFlags", storage, STORAGES, &mut unused, |_| 0)
}
