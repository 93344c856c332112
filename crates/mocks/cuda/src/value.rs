//! Values in memory that streams write and wait for.

use std::{
    ffi::c_int,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use crate::{
    codes::{Code, Result},
    ffi::In,
    memory::Address,
    queue::Op,
    state::{Gpu, State, api},
    table::Handle,
};

const GREATER_OR_EQUAL: u32 = 0;
const EQUAL: u32 = 1;
const AND: u32 = 2;
const NOR: u32 = 3;
/// `CU_STREAM_WAIT_VALUE_FLUSH`: nothing is to be flushed here.
const FLUSH: u32 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Four,
    Eight,
}

impl Width {
    const fn bytes(self) -> u64 {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

/// A value that a stream writes when it gets there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) target: Address,
    value: u64,
    width: Width,
}

impl Write {
    /// Writes the value, after all that the stream has done before.
    pub(crate) fn run(&self, at: *mut u8) {
        // SAFETY: `at` was resolved from an aligned address checked to hold the whole value, in memory that stays
        // mapped. Atomic, since the host may read it at the same time.
        unsafe {
            match self.width {
                Width::Four => AtomicU32::from_ptr(at.cast()).store(self.value as u32, Ordering::Release),
                Width::Eight => AtomicU64::from_ptr(at.cast()).store(self.value, Ordering::Release),
            }
        }
    }
}

/// A value that a stream waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Await {
    pub(crate) target: Address,
    value: u64,
    width: Width,
    condition: u32,
}

impl Await {
    /// Whether the memory now holds what is waited for.
    pub(crate) fn is_met(&self, at: *mut u8) -> bool {
        // SAFETY: as in `Write::run`.
        unsafe {
            match self.width {
                Width::Four => {
                    let found = AtomicU32::from_ptr(at.cast()).load(Ordering::Acquire);
                    let wanted = self.value as u32;
                    match self.condition {
                        GREATER_OR_EQUAL => found.wrapping_sub(wanted).cast_signed() >= 0,
                        EQUAL => found == wanted,
                        AND => found & wanted != 0,
                        _ => !(found | wanted) != 0,
                    }
                }
                Width::Eight => {
                    let found = AtomicU64::from_ptr(at.cast()).load(Ordering::Acquire);
                    match self.condition {
                        GREATER_OR_EQUAL => found.wrapping_sub(self.value).cast_signed() >= 0,
                        EQUAL => found == self.value,
                        AND => found & self.value != 0,
                        _ => !(found | self.value) != 0,
                    }
                }
            }
        }
    }
}

impl State {
    fn value_target(&self, stream: Handle, at: u64, width: Width) -> Result<Address> {
        if !at.is_multiple_of(width.bytes()) {
            return Err(Code::INVALID_VALUE);
        }
        let context = self.streams.get(stream)?.context;
        self.locate_for(context, at, width.bytes())
    }
}

fn write(gpu: &mut Gpu, stream: Handle, at: u64, value: u64, width: Width, flags: u32) -> Result {
    const NO_MEMORY_BARRIER: u32 = 1;
    let stream = gpu.usable_stream(stream)?;
    if flags & !NO_MEMORY_BARRIER != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let target = gpu.value_target(stream, at, width)?;
    let write = Write { target, value, width };
    gpu.submit(stream, Op::Write(write))?;
    Ok(())
}

fn wait(gpu: &mut Gpu, stream: Handle, at: u64, value: u64, width: Width, flags: u32) -> Result {
    let stream = gpu.usable_stream(stream)?;
    let condition = flags & !FLUSH;
    if condition > NOR {
        return Err(Code::INVALID_VALUE);
    }
    let target = gpu.value_target(stream, at, width)?;
    let wait = Await { target, value, width, condition };
    gpu.submit(stream, Op::Await(wait))?;
    Ok(())
}

/// Has a stream write a value.
#[unsafe(no_mangle)]
extern "C" fn cuStreamWriteValue32_v2(stream: Handle, at: u64, value: u32, flags: u32) -> c_int {
    api("cuStreamWriteValue32_v2", |gpu| write(gpu, stream, at, value.into(), Width::Four, flags))
}

/// Has a stream write a value.
#[unsafe(no_mangle)]
extern "C" fn cuStreamWriteValue64_v2(stream: Handle, at: u64, value: u64, flags: u32) -> c_int {
    api("cuStreamWriteValue64_v2", |gpu| write(gpu, stream, at, value, Width::Eight, flags))
}

/// Has a stream wait for a value.
#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitValue32_v2(stream: Handle, at: u64, value: u32, flags: u32) -> c_int {
    api("cuStreamWaitValue32_v2", |gpu| wait(gpu, stream, at, value.into(), Width::Four, flags))
}

/// Has a stream wait for a value.
#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitValue64_v2(stream: Handle, at: u64, value: u64, flags: u32) -> c_int {
    api("cuStreamWaitValue64_v2", |gpu| wait(gpu, stream, at, value, Width::Eight, flags))
}

/// `CUstreamBatchMemOpParams`, as far as writing and waiting go.
#[repr(C)]
#[derive(Clone, Copy)]
struct MemOp {
    operation: u32,
    at: u64,
    value: u64,
    flags: u32,
    _rest: [u64; 2],
}

const _: () = assert!(size_of::<MemOp>() == 48);

/// Has a stream write and wait for several values in turn.
#[unsafe(no_mangle)]
extern "C" fn cuStreamBatchMemOp_v2(stream: Handle, count: u32, ops: In<MemOp>, flags: u32) -> c_int {
    api("cuStreamBatchMemOp_v2", |gpu| {
        if flags != 0 || count > 256 {
            return Err(Code::INVALID_VALUE);
        }
        gpu.usable_stream(stream)?;
        for index in 0..count as usize {
            let op = ops.at(index)?;
            let low = u64::from(op.value as u32);
            match op.operation {
                1 => wait(gpu, stream, op.at, low, Width::Four, op.flags)?,
                2 => write(gpu, stream, op.at, low, Width::Four, op.flags)?,
                // Flushes and barriers: a stream here never runs ahead of its writes.
                3 | 6 => {}
                4 => wait(gpu, stream, op.at, op.value, Width::Eight, op.flags)?,
                5 => write(gpu, stream, op.at, op.value, Width::Eight, op.flags)?,
                _ => return Err(Code::INVALID_VALUE),
            }
        }
        Ok(())
    })
}

/// As [`cuStreamWriteValue32_v2`], under the name that older versions of libcufile ask for.
#[unsafe(no_mangle)]
extern "C" fn cuStreamWriteValue32(stream: Handle, at: u64, value: u32, flags: u32) -> c_int {
    cuStreamWriteValue32_v2(stream, at, value, flags)
}

/// As [`cuStreamWaitValue32_v2`], under the name that older versions of libcufile ask for.
#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitValue32(stream: Handle, at: u64, value: u32, flags: u32) -> c_int {
    cuStreamWaitValue32_v2(stream, at, value, flags)
}
