//! Copies: between host and device, on a device, between devices.
//!
//! Pinned memory is copied truly asynchronously. From pageable memory the bytes are taken at the call; into pageable
//! memory the call returns once they are there. That is what the hardware's driver does with small and large copies
//! alike, as far as a program may rely on it.

use std::{ffi::c_int, ptr, slice, sync::Arc};

use parking_lot::MutexGuard;

use crate::{
    capture,
    codes::{Code, Result},
    memory::{Address, MemoryRef},
    queue::Op,
    state::{Gpu, State, api},
    stream,
    table::Handle,
};

/// One copy with its ends checked.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    target: Address,
    source: Source,
    pub(crate) len: u64,
}

#[derive(Clone, Debug)]
enum Source {
    Memory(Address),
    /// Pageable bytes, taken at the call.
    Taken(Arc<[u8]>),
}

/// What the called function says an end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Host,
    Device,
    /// The address tells.
    Unified,
    /// Already checked to be memory of the context that the caller named.
    Named,
}

/// A copy as the CPU carries it out.
#[derive(Debug)]
pub(crate) struct RawCopy {
    target: *mut u8,
    source: *const u8,
    len: usize,
    /// Keeps taken bytes.
    _taken: Option<Arc<[u8]>>,
}

impl RawCopy {
    pub(crate) fn run(&self) {
        // SAFETY: both ends were checked to be `len` bytes long. Device and pinned memory stay mapped while the
        // operation is on its way, taken bytes with `_taken`, and pageable memory is the caller's to keep.
        unsafe { ptr::copy(self.source, self.target, self.len) };
    }
}

impl Copy {
    pub(crate) fn memory(&self) -> impl Iterator<Item = MemoryRef> {
        let source = match &self.source {
            Source::Memory(address) => address.memory,
            Source::Taken(_) => None,
        };
        self.target.memory.into_iter().chain(source)
    }

    /// Whether the host must wait for it.
    fn is_synchronous(&self) -> bool {
        self.target.is_pageable()
    }

    pub(crate) fn resolve(&self, state: &mut State, stream: Handle) -> Result<RawCopy> {
        let target = state.resolve(self.target, stream)?;
        let (source, taken) = match &self.source {
            Source::Memory(address) => (state.resolve(*address, stream)?.cast_const(), None),
            Source::Taken(bytes) => (bytes.as_ptr(), Some(Arc::clone(bytes))),
        };
        Ok(RawCopy { target, source, len: self.len as usize, _taken: taken })
    }
}

impl State {
    /// Checks one end of a copy in a context.
    fn locate_end(&self, context: Handle, at: u64, len: u64, side: Side, written: bool) -> Result<Address> {
        let address = match side {
            Side::Device => self.locate_for(context, at, len)?,
            Side::Host => {
                let address = self.locate(at, len)?;
                if address.is_device() {
                    return Err(Code::INVALID_VALUE);
                }
                address
            }
            Side::Named => self.locate(at, len)?,
            Side::Unified => {
                let address = self.locate(at, len)?;
                if address.is_device() {
                    self.locate_for(context, at, len)?;
                }
                address
            }
        };
        if let Some(MemoryRef::Host { base, .. }) = address.memory
            && written
            && self.host_memory.get(base).is_some_and(|range| range.is_read_only())
        {
            return Err(Code::INVALID_VALUE);
        }
        Ok(address)
    }
}

/// The ends and the length of a copy as the caller gives them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) target: u64,
    pub(crate) source: u64,
    pub(crate) len: u64,
}

/// Checks a copy; takes its bytes if they are pageable and `capturing` does not defer that.
pub(crate) fn check(
    gpu: &mut Gpu,
    context: Handle,
    request: Request,
    (target_side, source_side): (Side, Side),
    capturing: bool,
) -> Result<Copy> {
    let Request { target, source, len } = request;
    let target = gpu.locate_end(context, target, len, target_side, true)?;
    let from = gpu.locate_end(context, source, len, source_side, false)?;
    let source = if from.is_pageable() && !capturing {
        Source::Taken(MutexGuard::unlocked(gpu, || take(source, len)))
    } else {
        Source::Memory(from)
    };
    Ok(Copy { target, source, len })
}

fn take(source: u64, len: u64) -> Arc<[u8]> {
    // SAFETY: the caller of the copy gives `len` readable bytes, as its contract with the driver asks.
    unsafe { slice::from_raw_parts(source as *const u8, len as usize) }.into()
}

/// Checks copies and queues them as one operation; waits for it where a copy is host-synchronous.
pub(crate) fn enqueue(gpu: &mut Gpu, stream: Handle, requests: &[Request], sides: (Side, Side)) -> Result {
    let on = gpu.streams.get(stream)?;
    let (context, capturing) = (on.context, on.capture.is_some());
    let mut copies = Vec::with_capacity(requests.len());
    for request in requests.iter().filter(|request| request.len > 0) {
        copies.push(check(gpu, context, *request, sides, capturing)?);
    }
    if copies.is_empty() {
        return Ok(());
    }
    let wait = copies.iter().any(Copy::is_synchronous);
    let ticket = gpu.submit(stream, Op::Copies(copies.into()))?;
    if wait {
        stream::wait_for(gpu, context, ticket)?;
    }
    Ok(())
}

fn copy_async(name: &'static str, request: Request, sides: (Side, Side), stream: Handle) -> c_int {
    api(name, |gpu| {
        let stream = gpu.usable_stream(stream)?;
        enqueue(gpu, stream, &[request], sides)
    })
}

/// A copy on the legacy stream. The host waits for it if it has an end in host memory.
fn copy_now(name: &'static str, request: Request, sides: (Side, Side)) -> c_int {
    api(name, |gpu| {
        gpu.current()?;
        capture::refuse_unsafe(gpu)?;
        let stream = gpu.usable_stream(0)?;
        enqueue(gpu, stream, &[request], sides)?;
        let on_host = |at| gpu.locate(at, request.len).is_ok_and(|end| !end.is_device());
        if on_host(request.target) || on_host(request.source) {
            stream::synchronize(gpu, stream)?;
        }
        Ok(())
    })
}

const TO_DEVICE: (Side, Side) = (Side::Device, Side::Host);
const TO_HOST: (Side, Side) = (Side::Host, Side::Device);
const ON_DEVICE: (Side, Side) = (Side::Device, Side::Device);
const UNIFIED: (Side, Side) = (Side::Unified, Side::Unified);

fn request(target: u64, source: u64, len: usize) -> Request {
    Request { target, source, len: len as u64 }
}

/// Copies from host to device; returns when the bytes are there.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoD_v2(target: u64, source: u64, len: usize) -> c_int {
    copy_now("cuMemcpyHtoD_v2", request(target, source, len), TO_DEVICE)
}

/// Copies from device to host; returns when the bytes are there.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoH_v2(target: u64, source: u64, len: usize) -> c_int {
    copy_now("cuMemcpyDtoH_v2", request(target, source, len), TO_HOST)
}

/// Copies on a device, in order with the legacy stream; the host does not wait.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoD_v2(target: u64, source: u64, len: usize) -> c_int {
    copy_now("cuMemcpyDtoD_v2", request(target, source, len), ON_DEVICE)
}

/// Copies between any two addresses.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpy(target: u64, source: u64, len: usize) -> c_int {
    copy_now("cuMemcpy", request(target, source, len), UNIFIED)
}

/// Copies from host to device on a stream.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(target: u64, source: u64, len: usize, stream: Handle) -> c_int {
    let name = "cuMemcpyHtoDAsync_v2";
    copy_async(name, request(target, source, len), TO_DEVICE, stream)
}

/// Copies from device to host on a stream.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(target: u64, source: u64, len: usize, stream: Handle) -> c_int {
    let name = "cuMemcpyDtoHAsync_v2";
    copy_async(name, request(target, source, len), TO_HOST, stream)
}

/// Copies on a device on a stream.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(target: u64, source: u64, len: usize, stream: Handle) -> c_int {
    let name = "cuMemcpyDtoDAsync_v2";
    copy_async(name, request(target, source, len), ON_DEVICE, stream)
}

/// Copies between any two addresses on a stream.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpyAsync(target: u64, source: u64, len: usize, stream: Handle) -> c_int {
    let name = "cuMemcpyAsync";
    copy_async(name, request(target, source, len), UNIFIED, stream)
}
