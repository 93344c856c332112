//! warpio's engines.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use warpio::config::DirectIo;
use warpio::core::engine::{Engine, Stats};
use warpio::core::plan::Split;
use warpio::local::engine::{
    AutoEngine, DirectPolicy, DirectThreads, PosixEngine, RingOptions, TokioUringEngine, UringEngine,
};
use warpio::local::file::FileContext;
use warpio::{
    AsyncDeviceRead, AsyncDeviceReadExt, Device, DeviceBytesMut, DeviceSpec, LocalFile, Moved, OpenOptions, Runtime,
};
use warpio_benches::clock::Clock;

use super::Result;
use super::contender::{Contender, Job, Random, Sample};
use super::plain::repeat;

pub(crate) fn contenders(path: &Path, job: Job, tokio: &tokio::runtime::Runtime) -> Result<Vec<Contender>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut engines: Vec<(String, Arc<dyn Engine>)> = Vec::new();
    for threads in [1, 2] {
        // That many of one file system.
        let depth = if job.random { job.depth } else { RingOptions::default().depth };
        let options = RingOptions { threads, depth, ..RingOptions::default() };
        engines.push((format!("io-uring x{threads}"), Arc::new(UringEngine::start(&options)?)));
        engines.push((format!("tokio-uring x{threads}"), Arc::new(TokioUringEngine::start(&options)?)));
    }
    engines.push(("threads".into(), Arc::new(DirectThreads::start(2 * cores)?)));
    let read = if job.direct { DirectIo::Always } else { DirectIo::Auto };
    let mut list = {
        let _guard = tokio.enter();
        let rt = Runtime::builder().device(DeviceSpec::Host).direct_read(read).build()?;
        let file = tokio.block_on(rt.open(path))?;
        with_file("with default settings", file, job, tokio.handle())?
    };
    for (name, uncached) in engines {
        let copies = PosixEngine::start_beside(cores, Some(uncached.clone()))?;
        let engine: Arc<dyn Engine> = Arc::new(AutoEngine::new(copies, uncached));
        let context = FileContext {
            engine,
            split: Split::new(job.block.max(1 << 20)).ok_or("a task size")?,
            device: Device::host(),
            handle: tokio.handle().clone(),
            stats: Stats::default(),
            policy: DirectPolicy { read, write: DirectIo::Never, ..DirectPolicy::default() },
            gap: 4096,
        };
        let file = tokio.block_on(LocalFile::open(&context, path, &OpenOptions::new().read(true)))?;
        list.extend(with_file(&name, file, job, tokio.handle())?);
    }
    Ok(list)
}

fn with_file<F>(name: &str, file: F, job: Job, tokio: &Handle) -> Result<Vec<Contender>>
where
    F: AsyncDeviceRead + 'static,
{
    let run = |label: &str, start: Arc<dyn Fn(f64) -> Result<Sample>>| {
        Contender::new(format!("warpio {name}{label}"), move |seconds| start(seconds))
    };
    let (file, tokio) = (Arc::new(file), tokio.clone());
    if job.random {
        let (file2, tokio2) = (file.clone(), tokio.clone());
        let (file3, tokio3) = (file.clone(), tokio.clone());
        return Ok(vec![
            run(", a task per read", Arc::new(move |s| tokio.block_on(tasks(&file, job, s)))),
            run(", short lists", Arc::new(move |s| tokio2.block_on(ranges(&file2, job, job.depth / 2, s)))),
            run(", long lists", Arc::new(move |s| tokio3.block_on(ranges(&file3, job, job.depth * 16, s)))),
        ]);
    }
    let size = tokio.block_on(file.size())?;
    let buffer = std::sync::Mutex::new(Some(touched(size as usize)?));
    let job = Job { block: job.block.max(1 << 20), ..job };
    Ok(vec![run(
        "",
        Arc::new(move |seconds| {
            repeat(seconds, size, job.block, || {
                let mut place = buffer.lock().map_err(|_| "poisoned")?;
                let memory = place.take().ok_or("the buffer")?;
                *place = Some(tokio.block_on(file.read_exact_at(0, memory))?);
                Ok(())
            })
        }),
    )])
}

/// Memory that the kernel has given out already.
fn touched(len: usize) -> Result<DeviceBytesMut> {
    let mut buffer = Device::host().alloc(len)?;
    buffer.as_mut_slice().ok_or("host memory")?.fill(1);
    Ok(buffer)
}

/// As many tasks as there are to be reads in flight, each with one.
async fn tasks<F: AsyncDeviceRead + 'static>(file: &Arc<F>, job: Job, seconds: f64) -> Result<Sample> {
    let blocks = file.size().await? / job.block as u64;
    let ops = Arc::new(AtomicU64::new(0));
    let clock = Clock::start();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let running: Vec<_> = (0..job.depth)
        .map(|n| {
            let (file, ops) = (file.clone(), ops.clone());
            tokio::spawn(async move {
                let mut random = Random::new(n as u64);
                let mut buffer = Device::host().alloc(job.block)?;
                let mut done = 0;
                while done % 16 != 0 || Instant::now() < end {
                    let offset = random.below(blocks) * job.block as u64;
                    let Moved { n, buffer: back } = file.read_at(offset, buffer).await?;
                    assert_eq!(n, job.block);
                    buffer = back;
                    done += 1;
                }
                ops.fetch_add(done, Ordering::Relaxed);
                Ok::<_, warpio::Error>(())
            })
        })
        .collect();
    for task in running {
        task.await??;
    }
    let (cost, ops) = (clock.stop(), ops.load(Ordering::Relaxed) as f64);
    let bytes = ops * job.block as f64;
    Ok(Sample { ops, bytes, seconds: cost.seconds, cpu_seconds: cost.cpu_seconds })
}

/// Two lists of `len` ranges in flight: the depth in short ones, or long ones of which the ring has the depth in flight.
async fn ranges<F: AsyncDeviceRead>(file: &Arc<F>, job: Job, len: usize, seconds: f64) -> Result<Sample> {
    let blocks = file.size().await? / job.block as u64;
    let clock = Clock::start();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let one = async |seed| {
        let mut random = Random::new(seed);
        let mut buffer = touched(len * job.block)?;
        let mut done = 0;
        while Instant::now() < end {
            let list: Vec<_> = (0..len)
                .map(|_| {
                    let start = random.below(blocks) * job.block as u64;
                    start..start + job.block as u64
                })
                .collect();
            buffer = file.read_ranges_exact(&list, buffer).await?;
            done += len;
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(done)
    };
    let (a, b) = tokio::join!(one(1), one(2));
    let (cost, ops) = (clock.stop(), (a? + b?) as f64);
    let bytes = ops * job.block as f64;
    Ok(Sample { ops, bytes, seconds: cost.seconds, cpu_seconds: cost.cpu_seconds })
}
