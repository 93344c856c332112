//! The limits of the machine: the pinned host-to-device rate, and a loop of threads, preads and asynchronous copies
//! without runtime or safety.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use warpio::{Device, DeviceBytesMut, DeviceStream, Error, Result};

use crate::clock::Clock;
use crate::row::Rounds;

const MIB: usize = 1 << 20;
/// What is this much of the fastest counts as being as fast.
const NEAR: f64 = 0.99;
/// Slots of each thread.
const SLOTS: usize = 2;

/// Pinned memory of a device.
struct Pinned<'a> {
    device: &'a Device,
    ptr: std::ptr::NonNull<u8>,
    len: usize,
}

// SAFETY: memory; each thread uses a part of its own.
unsafe impl Sync for Pinned<'_> {}

impl<'a> Pinned<'a> {
    fn new(device: &'a Device, len: usize) -> Result<Self> {
        Ok(Self { device, ptr: device.backend().alloc_staging(len)?, len })
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        // SAFETY: allocated above; every copy has ended.
        unsafe { self.device.backend().free_staging(self.ptr, self.len) }
    }
}

/// The speed of copies of 256 MiB from pinned memory, best of five, in GB/s.
///
/// # Errors
/// What the device reports.
pub fn ceiling(device: &Device) -> Result<f64> {
    let len = 256 * MIB;
    let pinned = Pinned::new(device, len)?;
    let mut buffer = device.alloc(len)?;
    let stream = device.new_stream()?;
    let mut best = 0f64;
    for _ in 0..6 {
        let clock = Clock::start();
        copy(&stream, &mut buffer, 0, &pinned, 0, len)?;
        stream.record()?.synchronize()?;
        best = best.max(len as f64 / clock.stop().seconds / 1e9);
    }
    Ok(best)
}

fn copy(
    stream: &DeviceStream,
    dst: &mut DeviceBytesMut,
    at: usize,
    src: &Pinned<'_>,
    from: usize,
    len: usize,
) -> Result<()> {
    assert!(at + len <= dst.len() && from + len <= src.len);
    // SAFETY: both ranges were checked, and the callers wait for an event behind the copy before they let go.
    unsafe {
        let dst = std::ptr::NonNull::new_unchecked(dst.as_mut_ptr().add(at));
        stream.backend().copy_to_device(dst, src.ptr.add(from), len)
    }
}

/// One way to run the bare loop, and what it took.
#[derive(Clone, Debug)]
pub struct Loop {
    /// How many threads read.
    pub threads: usize,
    /// How much each of them reads at a time, in bytes.
    pub slot: usize,
    /// What each round took.
    pub rounds: Rounds,
}

/// Runs the loop over a file in the page cache with each number of threads and slot size given, `rounds` times each and
/// once before, which does not count: a round that follows another program's finds the caches full of its memory.
///
/// # Errors
/// What the device and the file report.
pub fn bare_loops(device: &Device, path: &Path, ways: &[(usize, usize)], rounds: usize) -> Result<Vec<Loop>> {
    let size = std::fs::metadata(path)?.len();
    let mut buffer = device.alloc(size as usize)?;
    let most = ways.iter().map(|(threads, slot)| threads * SLOTS * slot).max().unwrap_or(0);
    // Host memory is read into directly.
    let pinned = if device.is_host_visible() { None } else { Some(Pinned::new(device, most)?) };
    ways.iter()
        .map(|&(threads, slot)| {
            let mut timed = Rounds::default();
            run(path, size, &mut buffer, pinned.as_ref(), threads, slot)?;
            for _ in 0..rounds {
                let clock = Clock::start();
                run(path, size, &mut buffer, pinned.as_ref(), threads, slot)?;
                timed.add(clock.stop());
            }
            Ok(Loop { threads, slot, rounds: timed })
        })
        .collect()
}

/// The ways that are worth a try: one of them is the fastest on every machine seen.
pub fn ways() -> Vec<(usize, usize)> {
    [4, 6, 8, 10, 12, 16].into_iter().flat_map(|threads| [(threads, 2 * MIB), (threads, 4 * MIB)]).collect()
}

fn run(
    path: &Path,
    size: u64,
    buffer: &mut DeviceBytesMut,
    pinned: Option<&Pinned<'_>>,
    threads: usize,
    slot: usize,
) -> Result<()> {
    let next = AtomicU64::new(0);
    let base = Address(buffer.as_mut_ptr());
    let device = buffer.device().clone();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                let (next, base, device) = (&next, &base, &device);
                scope.spawn(move || match pinned {
                    Some(pinned) => through_slots(path, size, next, base, device, pinned, worker, slot),
                    None => straight(path, size, next, base, slot),
                })
            })
            .collect();
        workers.into_iter().try_for_each(join)
    })
}

fn straight(path: &Path, size: u64, next: &AtomicU64, base: &Address, slot: usize) -> Result<()> {
    let file = File::open(path)?;
    loop {
        let at = next.fetch_add(slot as u64, Ordering::Relaxed);
        if at >= size {
            return Ok(());
        }
        let want = (size - at).min(slot as u64) as usize;
        // SAFETY: pieces do not overlap, and the buffer of host memory outlives the scope of the threads.
        let host = unsafe { std::slice::from_raw_parts_mut(base.0.add(at as usize), want) };
        file.read_exact_at(host, at)?;
    }
}

#[allow(clippy::too_many_arguments)]
fn through_slots(
    path: &Path,
    size: u64,
    next: &AtomicU64,
    base: &Address,
    device: &Device,
    pinned: &Pinned<'_>,
    worker: usize,
    slot: usize,
) -> Result<()> {
    let (file, stream) = (File::open(path)?, device.new_stream()?);
    let mut done: [Option<warpio::DeviceEvent>; SLOTS] = [const { None }; SLOTS];
    let mut k = 0;
    loop {
        let at = next.fetch_add(slot as u64, Ordering::Relaxed);
        if at >= size {
            break;
        }
        let want = (size - at).min(slot as u64) as usize;
        if let Some(event) = done[k].take() {
            event.synchronize()?;
        }
        // SAFETY: each worker has slots of its own, and the copy that used this one has ended.
        let memory = unsafe { pinned.ptr.add((worker * SLOTS + k) * slot) };
        // SAFETY: as above; the pinned memory is initialised.
        let host = unsafe { std::slice::from_raw_parts_mut(memory.as_ptr(), want) };
        file.read_exact_at(host, at)?;
        // SAFETY: pieces do not overlap, and the buffer outlives the synchronisation below.
        unsafe {
            let dst = std::ptr::NonNull::new_unchecked(base.0.add(at as usize));
            stream.backend().copy_to_device(dst, memory, want)?;
        }
        done[k] = Some(stream.record()?);
        k = (k + 1) % SLOTS;
    }
    stream.record()?.synchronize()
}

struct Address(*mut u8);
// SAFETY: an address on a device.
unsafe impl Sync for Address {}

/// The speed of the disk: four threads that read those stripes of the file with O_DIRECT into pinned memory, once, in
/// GB/s.
///
/// # Errors
/// What the device and the file report.
pub fn disk_limit(device: &Device, path: &Path, stripes: &[Range<u64>]) -> Result<f64> {
    use std::os::unix::fs::OpenOptionsExt;
    let (threads, slot) = (4, 4 * MIB);
    let piece = |stripe: &Range<u64>, at: u64| at..stripe.end.min(at + slot as u64);
    let pieces: Vec<Range<u64>> =
        stripes.iter().flat_map(|stripe| stripe.clone().step_by(slot).map(move |at| piece(stripe, at))).collect();
    let size: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
    let pinned = Pinned::new(device, threads * slot)?;
    let next = AtomicUsize::new(0);
    let clock = Clock::start();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                let (next, pinned, pieces) = (&next, &pinned, &pieces);
                scope.spawn(move || -> Result<()> {
                    let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(path)?;
                    // SAFETY: each thread has a slot of its own; the memory is initialised.
                    let memory =
                        unsafe { std::slice::from_raw_parts_mut(pinned.ptr.add(worker * slot).as_ptr(), slot) };
                    while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                        file.read_exact_at(&mut memory[..(piece.end - piece.start) as usize], piece.start)?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(join)
    })?;
    Ok(size as f64 / clock.stop().seconds / 1e9)
}

/// The speed of a plain `pwrite` loop from memory to a new file, by `threads` threads, in GB/s.
///
/// # Errors
/// What the file system reports.
pub fn pwrite_loop(path: &Path, size: u64, threads: usize) -> Result<f64> {
    let block = vec![0x5au8; 4 * MIB];
    let clock = Clock::start();
    let file = File::create(path)?;
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    loop {
                        let at = next.fetch_add(block.len() as u64, Ordering::Relaxed);
                        if at >= size {
                            return Ok(());
                        }
                        file.write_all_at(&block[..(size - at).min(block.len() as u64) as usize], at)?;
                    }
                })
            })
            .collect();
        workers.into_iter().try_for_each(join)
    })?;
    drop(file);
    Ok(size as f64 / clock.stop().seconds / 1e9)
}

fn join(worker: std::thread::ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    worker.join().map_err(|_| Error::invalid_input("a thread of the bare loop panicked"))?
}

/// The bare loop to judge by, over a file of `bytes`: the speed of its fastest way at its best, in GB/s, and the least
/// processor seconds per GB among the ways within 1 % of it.
pub fn best(ways: &[Loop], bytes: u64) -> (f64, f64) {
    judge(ways, |rounds| (rounds.best_gb_per_s(bytes), rounds.best_cpu_s_per_gb(bytes)))
}

/// The same of medians.
pub fn middle(ways: &[Loop], bytes: u64) -> (f64, f64) {
    judge(ways, |rounds| (rounds.median_gb_per_s(bytes), rounds.median_cpu_s_per_gb(bytes)))
}

fn judge(ways: &[Loop], of: impl Fn(&Rounds) -> (f64, f64)) -> (f64, f64) {
    let all: Vec<_> = ways.iter().map(|way| of(&way.rounds)).collect();
    let speed = all.iter().map(|way| way.0).fold(0.0, f64::max);
    let near = all.iter().filter(|way| way.0 >= NEAR * speed);
    (speed, near.map(|way| way.1).fold(f64::INFINITY, f64::min))
}

/// Keeps the ways whose best round is within 1 % of the fastest.
pub fn keep_fastest(ways: &mut Vec<Loop>, bytes: u64) {
    let (speed, _) = best(ways, bytes);
    ways.retain(|way| way.rounds.best_gb_per_s(bytes) >= NEAR * speed);
}
