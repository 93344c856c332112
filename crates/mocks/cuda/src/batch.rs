//! Several copies in one call, and copies between the devices of two contexts.

use std::ffi::c_int;

use crate::{
    codes::{Code, Result},
    copy::{self, Request, Side},
    ffi::{In, Out},
    memory::MemoryRef,
    state::{Gpu, State, api},
    table::Handle,
};

impl State {
    /// Checks that `[at, at + len)` lies on the device of a context.
    fn check_home(&self, context: Handle, at: u64, len: u64) -> Result {
        self.check_context(context)?;
        match self.locate(at, len)?.memory {
            Some(MemoryRef::Device { base, .. })
                if self.device_of(self.owner(base)?)? == self.device_of(context)? =>
            {
                Ok(())
            }
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

fn copy_peer(
    gpu: &mut Gpu,
    request: Request,
    target_context: Handle,
    source_context: Handle,
    stream: Handle,
) -> Result {
    let stream = gpu.usable_stream(stream)?;
    if request.len == 0 {
        return Ok(());
    }
    gpu.check_home(target_context, request.target, request.len)?;
    gpu.check_home(source_context, request.source, request.len)?;
    copy::enqueue(gpu, stream, &[request], (Side::Named, Side::Named))
}

/// Copies between the memory of two contexts, in order with the legacy stream of the current one.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpyPeer(
    target: u64,
    target_context: Handle,
    source: u64,
    source_context: Handle,
    len: usize,
) -> c_int {
    api("cuMemcpyPeer", |gpu| {
        let len = len as u64;
        let request = Request { target, source, len };
        copy_peer(gpu, request, target_context, source_context, 0)
    })
}

/// Copies between the memory of two contexts on a stream.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpyPeerAsync(
    target: u64,
    target_context: Handle,
    source: u64,
    source_context: Handle,
    len: usize,
    stream: Handle,
) -> c_int {
    api("cuMemcpyPeerAsync", |gpu| {
        let len = len as u64;
        let request = Request { target, source, len };
        copy_peer(gpu, request, target_context, source_context, stream)
    })
}

/// `CUmemcpyAttributes`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Attributes {
    access_order: c_int,
    _source_hint: [c_int; 2],
    _target_hint: [c_int; 2],
    _flags: u32,
}

/// The arrays of a batch.
struct Batch {
    targets: In<u64>,
    sources: In<u64>,
    lens: In<usize>,
    count: usize,
    attributes: In<Attributes>,
    attribute_starts: In<usize>,
    attribute_count: usize,
}

impl Batch {
    /// The attributes cover all copies: the first from copy 0 on, each further one from a later copy on.
    fn check_attributes(&self) -> Result {
        const ACCESS_ORDERS: std::ops::RangeInclusive<c_int> = 1..=3;
        if self.attribute_count == 0 || self.attribute_count > self.count {
            return Err(Code::INVALID_VALUE);
        }
        let mut previous = None;
        for index in 0..self.attribute_count {
            let start = self.attribute_starts.at(index)?;
            let in_order = previous.map_or(start == 0, |previous| start > previous);
            if !in_order || start >= self.count || !ACCESS_ORDERS.contains(&self.attributes.at(index)?.access_order) {
                return Err(Code::INVALID_VALUE);
            }
            previous = Some(start);
        }
        Ok(())
    }

    fn enqueue(&self, gpu: &mut Gpu, stream: Handle) -> Result {
        const LEGACY: Handle = 1;
        if self.count == 0 || stream == 0 || stream == LEGACY {
            return Err(Code::INVALID_VALUE);
        }
        let stream = gpu.usable_stream(stream)?;
        self.check_attributes()?;
        let mut requests = Vec::with_capacity(self.count);
        for index in 0..self.count {
            requests.push(Request {
                target: self.targets.at(index)?,
                source: self.sources.at(index)?,
                len: self.lens.at(index)? as u64,
            });
        }
        if requests.iter().any(|request| request.len == 0) {
            return Err(Code::INVALID_VALUE);
        }
        copy::enqueue(gpu, stream, &requests, (Side::Unified, Side::Unified))
    }
}

/// Copies many ranges in one operation, in any order among themselves. The hints are ignored.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpyBatchAsync_v2(
    targets: In<u64>,
    sources: In<u64>,
    lens: In<usize>,
    count: usize,
    attributes: In<Attributes>,
    attribute_starts: In<usize>,
    attribute_count: usize,
    stream: Handle,
) -> c_int {
    api("cuMemcpyBatchAsync_v2", |gpu| {
        let batch = Batch { targets, sources, lens, count, attributes, attribute_starts, attribute_count };
        batch.enqueue(gpu, stream)
    })
}

/// The form of CUDA 12.8 and 12.9. It does not say which copy failed: none is begun if one is refused.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpyBatchAsync(
    targets: In<u64>,
    sources: In<u64>,
    lens: In<usize>,
    count: usize,
    attributes: In<Attributes>,
    attribute_starts: In<usize>,
    attribute_count: usize,
    failed: Out<usize>,
    stream: Handle,
) -> c_int {
    api("cuMemcpyBatchAsync", |gpu| {
        failed.set_if_wanted(usize::MAX);
        let batch = Batch { targets, sources, lens, count, attributes, attribute_starts, attribute_count };
        batch.enqueue(gpu, stream)
    })
}
