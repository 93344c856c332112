//! Registration of memory.

use std::ffi::{c_int, c_void};

use super::codes::{INVALID_VALUE, MEMORY_ALREADY_REGISTERED, MEMORY_NOT_REGISTERED, Status};
use super::cuda::cuda;
use super::memory::resolve;
use super::state::{State, enter, planned};

/// `CUDA_ERROR_INVALID_CONTEXT`.
const INVALID_CONTEXT: c_int = 201;

impl State {
    /// The registered range that an address lies in: its base and length.
    pub(crate) fn registered(&self, address: u64) -> Option<(u64, usize)> {
        let (&base, &len) = self.buffers.range(..=address).next_back()?;
        (address - base < len as u64).then_some((base, len))
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuFileBufRegister(base: *const c_void, len: usize, _flags: c_int) -> Status {
    let mut state = enter("BufRegister");
    if let Some(status) = planned(&mut state, "BufRegister") {
        return status;
    }
    let address = base as u64;
    if address == 0 || len == 0 {
        return Status::of(INVALID_VALUE);
    }
    if !cuda().is_some_and(|cuda| cuda.has_context()) {
        return Status::cuda(INVALID_CONTEXT);
    }
    if state.buffers.contains_key(&address) {
        return Status::of(MEMORY_ALREADY_REGISTERED);
    }
    if resolve(address, len).is_none() {
        state.violation("memory that is not there is registered");
        return Status::of(INVALID_VALUE);
    }
    let pinned: u64 = state.buffers.values().map(|&len| len as u64).sum();
    if let Some((limit, code)) = state.settings.pin_limit
        && pinned + len as u64 > limit
    {
        return Status::of(code);
    }
    state.buffers.insert(address, len);
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuFileBufDeregister(base: *const c_void) -> Status {
    let mut state = enter("BufDeregister");
    if let Some(status) = planned(&mut state, "BufDeregister") {
        return status;
    }
    let address = base as u64;
    let Some(len) = state.buffers.remove(&address) else { return Status::of(MEMORY_NOT_REGISTERED) };
    if state.device.uses(address, len) {
        state.violation("memory is deregistered under an operation");
    }
    if resolve(address, len).is_none() {
        state.violation("memory was freed before it was deregistered, on which nvidia-fs may hang");
    }
    Status::SUCCESS
}
