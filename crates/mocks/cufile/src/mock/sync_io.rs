//! Reads and writes that return when they are done.

use std::ffi::c_void;
use std::time::Instant;

use parking_lot::MutexGuard;

use super::batch_state::count;
use super::codes::HANDLE_NOT_REGISTERED;
use super::cuda::cuda;
use super::memory::resolve;
use super::plan::{Action, Call, share_of};
use super::state::{Locked, action, block, enter};
use super::transfer::{Transfer, set_errno};

#[unsafe(no_mangle)]
extern "C" fn cuFileRead(handle: u64, base: *mut c_void, len: usize, offset: i64, base_offset: i64) -> isize {
    call("Read", false, handle, base as u64, len, offset, base_offset)
}

#[unsafe(no_mangle)]
extern "C" fn cuFileWrite(handle: u64, base: *const c_void, len: usize, offset: i64, base_offset: i64) -> isize {
    call("Write", true, handle, base as u64, len, offset, base_offset)
}

fn call(name: &str, write: bool, handle: u64, base: u64, len: usize, offset: i64, base_offset: i64) -> isize {
    let mut state = enter(name);
    match perform(&mut state, name, write, (handle, base, len, offset, base_offset)) {
        Ok(result) => result as isize,
        Err(errno) => {
            // The lock may have touched it.
            drop(state);
            set_errno(errno);
            -1
        }
    }
}

fn perform(
    state: &mut Locked,
    name: &str,
    write: bool,
    (handle, base, len, offset, base_offset): (u64, u64, usize, i64, i64),
) -> Result<i64, i32> {
    if state.driver.open == 0 {
        // Behind the last close, the library silently opens again.
        state.driver.open += 1;
        return Err(HANDLE_NOT_REGISTERED);
    }
    let fd = state.files.get(&handle).map(|file| file.fd);
    let mut most = usize::MAX;
    match action(state, Call { name, fd, offset: Some(offset), size: Some(len) }) {
        Some(Action::Errno(errno)) => return Err(errno),
        Some(Action::Ret(result)) => return Ok(result),
        Some(Action::Max(n)) => most = n,
        Some(Action::Percent(share)) => most = share_of(len, share),
        Some(Action::Never) => block(state, None),
        _ => {}
    }
    let transfer = state.check(handle, write, base, len, offset, base_offset)?;
    if len == 0 {
        return Ok(0);
    }
    if !cuda().is_some_and(|cuda| cuda.has_context()) {
        state.violation("a call without a current context, which moves nothing and looks like the end of the file");
        return Ok(0);
    }
    if resolve(transfer.address, len).is_none() {
        state.violation("a call with memory that is not there");
        return Err(libc::EFAULT);
    }
    let moved = run(state, &transfer, most);
    count(state, &transfer, moved);
    match moved {
        moved if moved < 0 => Err(-moved as i32),
        moved => Ok(moved),
    }
}

fn run(state: &mut Locked, transfer: &Transfer, most: usize) -> i64 {
    let number = state.device.remember(transfer);
    let due = state.device.due();
    state.begin();
    let moved = MutexGuard::unlocked(state, || {
        let now = Instant::now();
        if due > now {
            std::thread::sleep(due - now);
        }
        transfer.run(most)
    });
    state.device.forget(number);
    state.end();
    moved.unwrap_or_else(|| {
        state.violation("memory was freed under a call");
        -i64::from(libc::EFAULT)
    })
}
