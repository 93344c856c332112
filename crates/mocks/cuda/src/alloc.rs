//! Allocating and freeing device memory.

use std::ffi::c_int;

use crate::{
    capture,
    codes::{Code, Result},
    ffi::Out,
    memory,
    queue::Op,
    state::{Gpu, api},
    table::Handle,
};

/// Allocates device memory, outside of every pool.
#[unsafe(no_mangle)]
extern "C" fn cuMemAlloc_v2(out: Out<u64>, len: usize) -> c_int {
    api("cuMemAlloc_v2", |gpu| {
        let context = gpu.current()?;
        capture::refuse_unsafe(gpu)?;
        if len == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let (base, _) = gpu.allocate(context, None, None, len as u64)?;
        out.set(base)
    })
}

/// Frees device memory once all work of its context has ended: this call waits for that.
#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(base: u64) -> c_int {
    api("cuMemFree_v2", |gpu| {
        gpu.current()?;
        capture::refuse_unsafe(gpu)?;
        if base == 0 {
            return Ok(());
        }
        if gpu.is_managed(base) {
            return gpu.free_host(base);
        }
        memory::free_after_work(gpu, base)
    })
}

fn allocate_async(
    gpu: &mut Gpu,
    out: &Out<u64>,
    len: usize,
    pool: Option<Handle>,
    stream: Handle,
) -> Result {
    let stream = gpu.usable_stream(stream)?;
    capture::refuse_in(gpu, stream)?;
    let context = gpu.streams.get(stream)?.context;
    let device = gpu.device_of(context)?;
    if len == 0 {
        return out.set(0);
    }
    let pool = pool.unwrap_or(gpu.devices[device].pool);
    let of = gpu.pools.get(pool).map_err(|_| Code::INVALID_VALUE)?;
    if of.device != device {
        return Err(Code::INVALID_VALUE);
    }
    let (base, waits) = gpu.allocate(context, Some(pool), Some(stream), len as u64)?;
    for ticket in waits {
        gpu.submit(stream, Op::Wait(ticket))?;
    }
    gpu.submit(stream, Op::Ready(base))?;
    out.set(base)
}

/// Allocates device memory in stream order, from the device's current pool.
#[unsafe(no_mangle)]
extern "C" fn cuMemAllocAsync(out: Out<u64>, len: usize, stream: Handle) -> c_int {
    api("cuMemAllocAsync", |gpu| {
        allocate_async(gpu, &out, len, None, stream)
    })
}

/// Allocates device memory in stream order, from a pool.
#[unsafe(no_mangle)]
extern "C" fn cuMemAllocFromPoolAsync(
    out: Out<u64>,
    len: usize,
    pool: Handle,
    stream: Handle,
) -> c_int {
    api("cuMemAllocFromPoolAsync", |gpu| {
        allocate_async(gpu, &out, len, Some(pool), stream)
    })
}

/// Frees device memory in stream order, that was allocated so.
#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(base: u64, stream: Handle) -> c_int {
    api("cuMemFreeAsync", |gpu| {
        let stream = gpu.usable_stream(stream)?;
        capture::refuse_in(gpu, stream)?;
        if base == 0 {
            return Ok(());
        }
        let context = gpu.streams.get(stream)?.context;
        let device = gpu.device_of(context)?;
        let allocation = gpu.allocation(base)?;
        if allocation.device != device || allocation.stream.is_none() {
            return Err(Code::INVALID_VALUE);
        }
        allocation.freed = true;
        let ticket = gpu.submit(stream, Op::Free(base))?;
        if let Some(allocation) = gpu.device_memory.get_mut(base) {
            allocation.freed_at = Some(ticket);
        }
        Ok(())
    })
}
