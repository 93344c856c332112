//! What one would write without warpio.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use warpio::{Device, DeviceBytesMut};
use warpio_benches::clock::Clock;

use super::Result;
use super::contender::{Contender, Job, Random, Sample};

pub(crate) fn contenders(path: &Path, job: Job, tokio: &tokio::runtime::Runtime) -> Vec<Contender> {
    let path: PathBuf = path.to_owned();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if job.random {
        let threads = [1, job.depth.max(1)];
        return threads
            .into_iter()
            .map(|threads| {
                let path = path.clone();
                Contender::new(format!("pread, {threads} threads"), move |s| random(&path, job, s, threads))
            })
            .collect();
    }
    if job.direct {
        return Vec::new();
    }
    let mut list: Vec<_> = [1, 2, 4, 8, 16]
        .into_iter()
        .filter(|&threads| threads <= 2 * cores)
        .map(|threads| {
            let path = path.clone();
            Contender::new(format!("pread loop, {threads} threads"), move |s| sequential(&path, job, s, threads))
        })
        .collect();
    let handle = tokio.handle().clone();
    list.push(Contender::new("tokio::fs::read", move |seconds| tokio_read(&path, seconds, &handle)));
    list
}

/// Threads that each read blocks at random.
fn random(path: &Path, job: Job, seconds: f64, threads: usize) -> Result<Sample> {
    let file = File::options().read(true).custom_flags(if job.direct { libc::O_DIRECT } else { 0 }).open(path)?;
    let blocks = file.metadata()?.len() / job.block as u64;
    let clock = Clock::start();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let ops = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|n| {
                let (file, ops) = (&file, &ops);
                scope.spawn(move || -> Result<()> {
                    let mut random = Random::new(n as u64);
                    let mut memory = buffer(job.block)?;
                    let memory = memory.as_mut_slice().ok_or("host memory")?;
                    let mut done = 0;
                    while done % 16 != 0 || Instant::now() < end {
                        file.read_exact_at(memory, random.below(blocks) * job.block as u64)?;
                        done += 1;
                    }
                    ops.fetch_add(done, Ordering::Relaxed);
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a thread panicked")?)
    })?;
    let (cost, ops) = (clock.stop(), ops.into_inner() as f64);
    let bytes = ops * job.block as f64;
    Ok(Sample { ops, bytes, seconds: cost.seconds, cpu_seconds: cost.cpu_seconds })
}

fn buffer(len: usize) -> Result<DeviceBytesMut> {
    Ok(Device::host().alloc(len)?)
}

/// Threads that fetch the whole file into one buffer, as often as the time allows.
fn sequential(path: &Path, job: Job, seconds: f64, threads: usize) -> Result<Sample> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut memory = buffer(size as usize)?;
    let memory = memory.as_mut_slice().ok_or("host memory")?;
    memory.fill(1);
    repeat(seconds, size, job.block, || {
        let parts = std::sync::Mutex::new(memory.chunks_mut(job.block).enumerate());
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    let (parts, file) = (&parts, &file);
                    scope.spawn(move || -> Result<()> {
                        loop {
                            let part = parts.lock().map_err(|_| "poisoned")?.next();
                            let Some((n, part)) = part else { return Ok(()) };
                            file.read_exact_at(part, (n * job.block) as u64)?;
                        }
                    })
                })
                .collect();
            workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a thread panicked")?)
        })
    })
}

fn tokio_read(path: &Path, seconds: f64, tokio: &Handle) -> Result<Sample> {
    let size = std::fs::metadata(path)?.len();
    repeat(seconds, size, size as usize, || {
        let bytes = tokio.block_on(tokio::fs::read(path))?;
        assert_eq!(bytes.len() as u64, size);
        Ok(())
    })
}

/// Runs `call`, which reads `size` bytes, until the time is over.
pub(crate) fn repeat(seconds: f64, size: u64, block: usize, mut call: impl FnMut() -> Result<()>) -> Result<Sample> {
    let (clock, mut times) = (Clock::start(), 0u64);
    loop {
        call()?;
        times += 1;
        let cost = clock.stop();
        if cost.seconds >= seconds {
            let bytes = (times * size) as f64;
            let ops = bytes / block as f64;
            return Ok(Sample { ops, bytes, seconds: cost.seconds, cpu_seconds: cost.cpu_seconds });
        }
    }
}
