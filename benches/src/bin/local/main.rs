//! Local files beside fio and loops written by hand, round by round: one JSON row per contender.
//!
//!     local [JOB ...] --disk DIR [--memory DIR] [--size BYTES] [--rounds N] [--seconds S] [--depth N] [--only NAMES]
//!
//! Jobs: `rand-disk`, `rand-memory` (4 KiB, past the page cache), `seq-disk` (1 MiB, past it), `warm` (sequential,
//! cached), `states` (a whole file by each way to treat the page cache), `idle`. Without any, all of them. fio takes part where it is installed.

mod contender;
mod fio;
mod plain;
mod states;
mod warpio_files;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use warpio::{AsyncDeviceReadExt, DeviceSpec, Runtime};
use warpio_benches::clock::{Clock, median};
use warpio_benches::file;
use warpio_benches::row::{emit, round};

use contender::{Contender, Job, Sample};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

struct Args {
    jobs: Vec<String>,
    disk: PathBuf,
    memory: PathBuf,
    size: u64,
    rounds: usize,
    seconds: f64,
    depth: usize,
    only: Option<String>,
}

impl Args {
    fn parse() -> Result<Self> {
        let mut parsed = Self {
            jobs: Vec::new(),
            disk: PathBuf::new(),
            memory: "/dev/shm".into(),
            size: 1 << 30,
            rounds: 7,
            seconds: 1.0,
            depth: 64,
            only: None,
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--disk" => parsed.disk = value()?.into(),
                "--memory" => parsed.memory = value()?.into(),
                "--size" => parsed.size = value()?.parse()?,
                "--rounds" => parsed.rounds = value()?.parse()?,
                "--seconds" => parsed.seconds = value()?.parse()?,
                "--depth" => parsed.depth = value()?.parse()?,
                "--only" => parsed.only = Some(value()?),
                _ => parsed.jobs.push(arg),
            }
        }
        if parsed.disk.as_os_str().is_empty() {
            return Err("--disk DIR names a directory on a disk".into());
        }
        Ok(parsed)
    }

    fn wants(&self, job: &str) -> bool {
        self.jobs.is_empty() || self.jobs.iter().any(|wanted| wanted == job)
    }
}

fn main() -> Result<()> {
    let args = Args::parse()?;
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (disk, memory) = (args.disk.join("warpio-local.bin"), args.memory.join("warpio-local.bin"));
    let jobs = [
        ("rand-disk", &disk, Job { block: 4096, depth: args.depth, random: true, direct: true }),
        ("rand-memory", &memory, Job { block: 4096, depth: args.depth, random: true, direct: true }),
        ("seq-disk", &disk, Job { block: 1 << 20, depth: 32, random: false, direct: true }),
        ("warm", &disk, Job { block: 4 << 20, depth: 0, random: false, direct: false }),
    ];
    for (name, path, job) in jobs {
        if args.wants(name) {
            measure(name, path, job, &args, &tokio)?;
        }
    }
    if args.wants("idle") {
        idle(&disk, args.size, &tokio)?;
    }
    if args.wants("states") {
        states::measure(&disk, args.size, args.rounds, tokio.handle())?;
    }
    Ok(())
}

/// Processor time of a runtime that has read a file and has nothing more to do.
fn idle(path: &Path, size: u64, tokio: &tokio::runtime::Runtime) -> Result<()> {
    file::make(path, size)?;
    let (rt, source) = tokio.block_on(async {
        let rt = Runtime::builder().device(DeviceSpec::Host).build()?;
        let source = rt.open(path).await?;
        source.read_all().await?;
        Ok::<_, Box<dyn Error + Send + Sync>>((rt, source))
    })?;
    // What still ends from before is none of its.
    std::thread::sleep(Duration::from_millis(200));
    let clock = Clock::start();
    std::thread::sleep(Duration::from_secs(10));
    let cost = clock.stop();
    drop((source, rt));
    emit(json!({"job": "idle", "seconds": round(cost.seconds), "cpu_seconds": cost.cpu_seconds}));
    Ok(())
}

fn measure(name: &str, path: &Path, job: Job, args: &Args, tokio: &tokio::runtime::Runtime) -> Result<()> {
    file::make(path, args.size)?;
    if job.direct {
        file::cool(path)?;
    } else {
        file::warm(path)?;
    }
    let mut contenders = warpio_files::contenders(path, job, tokio)?;
    contenders.extend(fio::contenders(path, job));
    contenders.extend(plain::contenders(path, job, tokio));
    if let Some(only) = &args.only {
        contenders.retain(|contender| only.split('|').any(|part| contender.name.contains(part)));
    }
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); contenders.len()];
    // The first round does not count.
    for n in 0..=args.rounds {
        for (contender, samples) in contenders.iter_mut().zip(&mut samples) {
            let sample = (contender.run)(args.seconds)?;
            if n > 0 {
                samples.push(sample);
            }
        }
    }
    for (contender, samples) in contenders.iter().zip(&samples) {
        report(name, job, contender, samples);
    }
    Ok(())
}

fn report(name: &str, job: Job, contender: &Contender, samples: &[Sample]) {
    let of = |value: fn(&Sample) -> f64| median(&mut samples.iter().map(value).collect::<Vec<_>>());
    let mut speeds: Vec<f64> = samples.iter().map(Sample::gb_per_s).collect();
    median(&mut speeds);
    emit(json!({
        "job": name,
        "contender": contender.name,
        "block": job.block,
        "depth": job.depth,
        "rounds": samples.len(),
        "median_kiops": round(of(|sample| sample.ops_per_s() / 1e3)),
        "median_gb_per_s": round(of(Sample::gb_per_s)),
        "range_gb_per_s": [speeds.first().copied().map(round), speeds.last().copied().map(round)],
        "cpu_us_per_op": round(of(|sample| sample.cpu_seconds * 1e6 / sample.ops)),
        "cpu_s_per_gb": round(of(|sample| sample.cpu_seconds * 1e9 / sample.bytes)),
    }));
}
