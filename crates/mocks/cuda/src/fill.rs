//! Setting memory.

use std::ffi::c_int;

use crate::{
    capture,
    codes::{Code, Result},
    memory::Address,
    queue::Op,
    state::{Gpu, State, api},
    table::Handle,
};

/// One value, written again and again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub(crate) target: Address,
    value: u32,
    /// Bytes of the value that count: 1, 2 or 4.
    width: usize,
    len: u64,
}

/// A fill as the CPU carries it out.
#[derive(Debug)]
pub(crate) struct RawFill {
    target: *mut u8,
    pattern: [u8; 4],
    width: usize,
    len: usize,
}

impl RawFill {
    pub(crate) fn run(&self) {
        if self.width == 1 {
            // SAFETY: the target was checked to be `len` bytes long, and stays mapped while the operation is on its
            // way.
            unsafe { self.target.write_bytes(self.pattern[0], self.len) };
            return;
        }
        for offset in (0..self.len).step_by(self.width) {
            // SAFETY: as above; `len` is a multiple of the width, and the pattern at least as wide.
            unsafe { self.target.add(offset).copy_from(self.pattern.as_ptr(), self.width) };
        }
    }
}

impl Fill {
    pub(crate) fn resolve(&self, state: &mut State, stream: Handle) -> Result<RawFill> {
        Ok(RawFill {
            target: state.resolve(self.target, stream)?,
            pattern: self.value.to_le_bytes(),
            width: self.width,
            len: self.len as usize,
        })
    }
}

fn enqueue(gpu: &mut Gpu, target: u64, value: u32, width: usize, count: usize, stream: Handle) -> Result {
    let stream = gpu.usable_stream(stream)?;
    if count == 0 {
        return Ok(());
    }
    if !target.is_multiple_of(width as u64) {
        return Err(Code::INVALID_VALUE);
    }
    let len = count.checked_mul(width).ok_or(Code::INVALID_VALUE)? as u64;
    let context = gpu.streams.get(stream)?.context;
    let target = gpu.locate_for(context, target, len)?;
    let fill = Fill { target, value, width, len };
    gpu.submit(stream, Op::Fill(fill))?;
    Ok(())
}

/// A fill in order with the legacy stream. The host does not wait.
fn fill_now(name: &'static str, target: u64, value: u32, width: usize, count: usize) -> c_int {
    api(name, |gpu| {
        gpu.current()?;
        capture::refuse_unsafe(gpu)?;
        enqueue(gpu, target, value, width, count, 0)
    })
}

/// Sets bytes.
#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8_v2(target: u64, value: u8, count: usize) -> c_int {
    fill_now("cuMemsetD8_v2", target, value.into(), 1, count)
}

/// Sets 16-bit numbers.
#[unsafe(no_mangle)]
extern "C" fn cuMemsetD16_v2(target: u64, value: u16, count: usize) -> c_int {
    fill_now("cuMemsetD16_v2", target, value.into(), 2, count)
}

/// Sets 32-bit numbers.
#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32_v2(target: u64, value: u32, count: usize) -> c_int {
    fill_now("cuMemsetD32_v2", target, value, 4, count)
}

/// Sets bytes on a stream.
#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(target: u64, value: u8, count: usize, stream: Handle) -> c_int {
    api("cuMemsetD8Async", |gpu| enqueue(gpu, target, value.into(), 1, count, stream))
}

/// Sets 16-bit numbers on a stream.
#[unsafe(no_mangle)]
extern "C" fn cuMemsetD16Async(target: u64, value: u16, count: usize, stream: Handle) -> c_int {
    api("cuMemsetD16Async", |gpu| enqueue(gpu, target, value.into(), 2, count, stream))
}

/// Sets 32-bit numbers on a stream.
#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32Async(target: u64, value: u32, count: usize, stream: Handle) -> c_int {
    api("cuMemsetD32Async", |gpu| enqueue(gpu, target, value, 4, count, stream))
}
