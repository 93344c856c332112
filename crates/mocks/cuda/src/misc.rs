//! What the safe layer of cudarc asks for beside memory, streams and kernels: hints, occupancy, profiling.

use std::ffi::c_int;

use crate::{
    codes::{Code, Result},
    ffi::Out,
    memory::MemoryRef,
    state::{Gpu, api},
    table::Handle,
};

const MAX_BLOCK_THREADS: c_int = 1024;
const THREADS_PER_MULTIPROCESSOR: c_int = 2048;
const MULTIPROCESSORS: c_int = 132;
const SHARED_PER_MULTIPROCESSOR: usize = 233_472;
const SHARED_PER_BLOCK: usize = 232_448;

/// `CUmemLocation`.
#[repr(C)]
struct Location {
    _kind: c_int,
    _id: c_int,
}

fn check_managed(gpu: &Gpu, at: u64, len: usize) -> Result {
    match gpu.locate(at, len as u64)?.memory {
        Some(MemoryRef::Host { base, .. }) if gpu.is_managed(base) => Ok(()),
        _ => Err(Code::INVALID_VALUE),
    }
}

/// Says how managed memory will be used. Nothing comes of it.
#[unsafe(no_mangle)]
extern "C" fn cuMemAdvise_v2(at: u64, len: usize, _advice: c_int, _location: Location) -> c_int {
    api("cuMemAdvise_v2", |gpu| {
        gpu.current()?;
        check_managed(gpu, at, len)
    })
}

/// Brings managed memory somewhere. It already is everywhere.
#[unsafe(no_mangle)]
extern "C" fn cuMemPrefetchAsync_v2(at: u64, len: usize, _location: Location, flags: u32, stream: Handle) -> c_int {
    api("cuMemPrefetchAsync_v2", |gpu| {
        gpu.usable_stream(stream)?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        check_managed(gpu, at, len)
    })
}

/// Ties managed memory to a stream. Nothing comes of it; `len` 0 means all of the allocation.
#[unsafe(no_mangle)]
extern "C" fn cuStreamAttachMemAsync(stream: Handle, at: u64, len: usize, flags: u32) -> c_int {
    const GLOBAL_HOST_OR_SINGLE: [u32; 3] = [1, 2, 4];
    api("cuStreamAttachMemAsync", |gpu| {
        gpu.usable_stream(stream)?;
        if !GLOBAL_HOST_OR_SINGLE.contains(&flags) {
            return Err(Code::INVALID_VALUE);
        }
        check_managed(gpu, at, len.max(1))
    })
}

/// Blocks of so many threads that fit on a multiprocessor.
fn blocks(gpu: &Gpu, function: Handle, threads: c_int, shared: usize) -> Result<c_int> {
    gpu.function(function)?;
    if threads <= 0 {
        return Err(Code::INVALID_VALUE);
    }
    if threads > MAX_BLOCK_THREADS || shared > SHARED_PER_BLOCK {
        return Ok(0);
    }
    let by_threads = THREADS_PER_MULTIPROCESSOR / threads;
    let by_shared = SHARED_PER_MULTIPROCESSOR.checked_div(shared);
    let by_shared = by_shared.map_or(32, |count| count.min(32) as c_int);
    Ok(by_threads.min(by_shared))
}

/// Blocks that fit on a multiprocessor.
#[unsafe(no_mangle)]
extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    out: Out<c_int>,
    function: Handle,
    threads: c_int,
    shared: usize,
) -> c_int {
    api("cuOccupancyMaxActiveBlocksPerMultiprocessor", |gpu| {
        gpu.current()?;
        out.set(blocks(gpu, function, threads, shared)?)
    })
}

/// Blocks that fit on a multiprocessor.
#[unsafe(no_mangle)]
extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    out: Out<c_int>,
    function: Handle,
    threads: c_int,
    shared: usize,
    _flags: u32,
) -> c_int {
    api("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", |gpu| {
        gpu.current()?;
        out.set(blocks(gpu, function, threads, shared)?)
    })
}

/// Shared memory left for each of so many blocks.
#[unsafe(no_mangle)]
extern "C" fn cuOccupancyAvailableDynamicSMemPerBlock(
    out: Out<usize>,
    function: Handle,
    count: c_int,
    _threads: c_int,
) -> c_int {
    api("cuOccupancyAvailableDynamicSMemPerBlock", |gpu| {
        gpu.current()?;
        gpu.function(function)?;
        let count = usize::try_from(count).map_err(|_| Code::INVALID_VALUE)?;
        let share = SHARED_PER_MULTIPROCESSOR.checked_div(count).ok_or(Code::INVALID_VALUE)?;
        out.set(share.min(SHARED_PER_BLOCK))
    })
}

/// How much shared memory a block of so many threads needs.
type SharedOfBlock = unsafe extern "C" fn(c_int) -> usize;

fn best_shape(
    gpu: &Gpu,
    (grid, block): (&Out<c_int>, &Out<c_int>),
    function: Handle,
    shared_of: Option<SharedOfBlock>,
    shared: usize,
    limit: c_int,
) -> Result {
    let most = if limit > 0 { limit.min(MAX_BLOCK_THREADS) } else { MAX_BLOCK_THREADS };
    // SAFETY: the program gave this function to be asked for block sizes, which these are.
    let shared = shared_of.map_or(shared, |shared_of| unsafe { shared_of(most) });
    let per_multiprocessor = blocks(gpu, function, most, shared)?;
    grid.set(per_multiprocessor * MULTIPROCESSORS)?;
    block.set(most)
}

/// The shape of a launch that fills the device.
#[unsafe(no_mangle)]
extern "C" fn cuOccupancyMaxPotentialBlockSize(
    grid: Out<c_int>,
    block: Out<c_int>,
    function: Handle,
    shared_of: Option<SharedOfBlock>,
    shared: usize,
    limit: c_int,
) -> c_int {
    api("cuOccupancyMaxPotentialBlockSize", |gpu| {
        gpu.current()?;
        best_shape(gpu, (&grid, &block), function, shared_of, shared, limit)
    })
}

/// The shape of a launch that fills the device.
#[unsafe(no_mangle)]
extern "C" fn cuOccupancyMaxPotentialBlockSizeWithFlags(
    grid: Out<c_int>,
    block: Out<c_int>,
    function: Handle,
    shared_of: Option<SharedOfBlock>,
    shared: usize,
    limit: c_int,
    _flags: u32,
) -> c_int {
    api("cuOccupancyMaxPotentialBlockSizeWithFlags", |gpu| {
        gpu.current()?;
        best_shape(gpu, (&grid, &block), function, shared_of, shared, limit)
    })
}

/// Starts profiling: there is no profiler.
#[unsafe(no_mangle)]
extern "C" fn cuProfilerStart() -> c_int {
    api("cuProfilerStart", |gpu| gpu.current().map(drop))
}

/// Stops profiling.
#[unsafe(no_mangle)]
extern "C" fn cuProfilerStop() -> c_int {
    api("cuProfilerStop", |gpu| gpu.current().map(drop))
}
