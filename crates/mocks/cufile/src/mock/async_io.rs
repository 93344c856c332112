//! Reads and writes in the order of a stream.

use std::ffi::{c_int, c_uint, c_void};

use super::batch_state::count;
use super::codes::{INVALID_VALUE, Status};
use super::cuda::cuda;
use super::device;
use super::memory::resolve;
use super::plan::{Action, Call, share_of};
use super::state::{CHANGED, Locked, action, block, enter, lock};

/// Flags of a registered stream: what does not change between call and operation.
const FIXED_BUFFER_OFFSET: u32 = 1;
const FIXED_FILE_OFFSET: u32 = 2;
const FIXED_FILE_SIZE: u32 = 4;

/// An operation that the stream will come to.
#[derive(Debug)]
struct Operation {
    write: bool,
    handle: u64,
    base: u64,
    /// Where the caller keeps its parameters.
    size_at: u64,
    offset_at: u64,
    base_offset_at: u64,
    result_at: u64,
    /// What they were at the call.
    at_call: (usize, i64, i64),
    result_before: i64,
    /// The stream's flags.
    flags: u32,
    planned: Option<Action>,
    /// Under which the device knows what it uses.
    number: u64,
}

/// # Safety
/// `at` is readable, as was checked.
unsafe fn read<T: Copy>(at: u64) -> T {
    // SAFETY: the caller's promise.
    unsafe { (at as usize as *const T).read_volatile() }
}

/// Leaves a result where the caller looks for it.
///
/// # Safety
/// `at` is writable, as was checked.
unsafe fn write_result(at: u64, result: i64) {
    // SAFETY: the caller's promise.
    unsafe { (at as usize as *mut i64).write_volatile(result) };
}

#[unsafe(no_mangle)]
extern "C" fn cuFileReadAsync(
    handle: u64,
    base: *mut c_void,
    size: *mut usize,
    offset: *mut i64,
    base_offset: *mut i64,
    result: *mut isize,
    stream: u64,
) -> Status {
    let places = [size as u64, offset as u64, base_offset as u64, result as u64];
    enqueue("ReadAsync", false, handle, base as u64, places, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuFileWriteAsync(
    handle: u64,
    base: *mut c_void,
    size: *mut usize,
    offset: *mut i64,
    base_offset: *mut i64,
    result: *mut isize,
    stream: u64,
) -> Status {
    let places = [size as u64, offset as u64, base_offset as u64, result as u64];
    enqueue("WriteAsync", true, handle, base as u64, places, stream)
}

fn enqueue(name: &str, write: bool, handle: u64, base: u64, places: [u64; 4], stream: u64) -> Status {
    let mut state = enter(name);
    let [size_at, offset_at, base_offset_at, result_at] = places;
    if places.contains(&0) || places.iter().any(|&at| resolve(at, 8).is_none()) {
        return Status::of(INVALID_VALUE);
    }
    // SAFETY: they can be read, as was just checked.
    let at_call: (usize, i64, i64) = unsafe { (read(size_at), read(offset_at), read(base_offset_at)) };
    let fd = state.files.get(&handle).map(|file| file.fd);
    let call = Call { name, fd, offset: Some(at_call.1), size: Some(at_call.0) };
    let planned = action(&mut state, call);
    if let Some(Action::Status(err, cu_err)) = planned {
        // SAFETY: as above.
        unsafe { write_result(result_at, -i64::from(err)) };
        return Status { err, cu_err };
    }
    let transfer = match state.check(handle, write, base, at_call.0, at_call.1, at_call.2) {
        Ok(transfer) => transfer,
        Err(errno) => {
            // Validation tells twice: by the status, and where the result is looked for.
            // SAFETY: as above.
            unsafe { write_result(result_at, -i64::from(errno)) };
            return Status::of(if errno < 5000 { INVALID_VALUE } else { errno });
        }
    };
    let flags = match state.streams.get(&stream) {
        Some(flags) => *flags,
        None => {
            state.used_streams.insert(stream);
            0
        }
    };
    let number = state.device.remember(&transfer);
    state.begin();
    // SAFETY: as above.
    let result_before = unsafe { read(result_at) };
    drop(state);
    let operation = Box::new(Operation {
        write,
        handle,
        base,
        size_at,
        offset_at,
        base_offset_at,
        result_at,
        at_call,
        result_before,
        flags,
        planned,
        number,
    });
    let data = Box::into_raw(operation);
    let launched = match cuda() {
        // SAFETY: the function takes the operation back, once.
        Some(cuda) => unsafe { cuda.launch(stream, run, data.cast()) },
        None => c_int::MAX,
    };
    if launched == 0 {
        return Status::SUCCESS;
    }
    // SAFETY: made above, and nobody took it.
    drop(unsafe { Box::from_raw(data) });
    let mut state = lock();
    state.device.forget(number);
    state.end();
    Status::cuda(launched)
}

/// The stream has come to an operation.
unsafe extern "C" fn run(data: *mut c_void) {
    // SAFETY: made by `enqueue`, and given to the stream for this one call.
    let operation = unsafe { Box::from_raw(data.cast::<Operation>()) };
    let mut state = lock();
    if operation.planned == Some(Action::Never) {
        block(&mut state, None);
    }
    let result = operation.run(&mut state);
    state.device.forget(operation.number);
    if resolve(operation.result_at, 8).is_none() {
        state.violation("the place for a result was freed before the stream came to its operation");
    } else if result != i64::MIN {
        // SAFETY: it was readable when it was given, and is now.
        unsafe { write_result(operation.result_at, result) };
    }
    state.end();
    CHANGED.notify_all();
}

impl Operation {
    fn run(&self, state: &mut Locked) -> i64 {
        let places = [self.size_at, self.offset_at, self.base_offset_at, self.result_at];
        if places.iter().any(|&at| resolve(at, 8).is_none()) {
            state.violation("parameters were freed before the stream came to their operation");
            return i64::MIN;
        }
        // SAFETY: they can be read, as was just checked.
        let now: (usize, i64, i64) = unsafe { (read(self.size_at), read(self.offset_at), read(self.base_offset_at)) };
        // SAFETY: as above.
        let result_now: i64 = unsafe { read(self.result_at) };
        self.audit(state, now, result_now);
        let most = match self.planned {
            Some(Action::Ret(result)) => return result,
            // The library keeps silent.
            Some(Action::Lose) => return i64::MIN,
            Some(Action::Max(n)) => n,
            Some(Action::Percent(share)) => share_of(now.0, share),
            _ => usize::MAX,
        };
        // What was said to be fixed is as it was at the call.
        let pick = |flag: u32, then: i64, now: i64| if self.flags & flag != 0 { then } else { now };
        let len = if self.flags & FIXED_FILE_SIZE != 0 { self.at_call.0 } else { now.0 };
        let offset = pick(FIXED_FILE_OFFSET, self.at_call.1, now.1);
        let base_offset = pick(FIXED_BUFFER_OFFSET, self.at_call.2, now.2);
        let transfer = match state.check(self.handle, self.write, self.base, len, offset, base_offset) {
            Ok(transfer) => transfer,
            Err(errno) => return -i64::from(errno),
        };
        let moved = device::unlocked(state, &transfer, most).unwrap_or_else(|| {
            state.violation("memory was freed under an operation on a stream");
            -i64::from(libc::EFAULT)
        });
        count(state, &transfer, moved);
        moved
    }

    /// What was said to be fixed must not change, and nobody else may write the result: memory that was freed and is
    /// used again shows in this way.
    fn audit(&self, state: &mut Locked, now: (usize, i64, i64), result_now: i64) {
        let changed = (self.flags & FIXED_FILE_SIZE != 0 && now.0 != self.at_call.0)
            || (self.flags & FIXED_FILE_OFFSET != 0 && now.1 != self.at_call.1)
            || (self.flags & FIXED_BUFFER_OFFSET != 0 && now.2 != self.at_call.2);
        if changed || result_now != self.result_before {
            state.violation("parameters of a stream were freed or overwritten before their operation");
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuFileStreamRegister(stream: u64, flags: c_uint) -> Status {
    let mut state = enter("StreamRegister");
    if let Some(status) = super::state::planned(&mut state, "StreamRegister") {
        return status;
    }
    if state.streams.contains_key(&stream) {
        return Status::of(INVALID_VALUE);
    }
    state.streams.insert(stream, flags);
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuFileStreamDeregister(stream: u64) -> Status {
    let mut state = enter("StreamDeregister");
    if let Some(status) = super::state::planned(&mut state, "StreamDeregister") {
        return status;
    }
    match state.streams.remove(&stream).is_some() || state.used_streams.remove(&stream) {
        true => Status::SUCCESS,
        false => Status::of(INVALID_VALUE),
    }
}
