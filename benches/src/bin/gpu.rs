//! File to GPU and back, beside the machine's limits: the whole table as JSON, one row a line.
//!
//!     gpu table FILE_ON_DISK FILE_ON_TMPFS [SIZE_MIB]
//!     gpu beside FILE         a cached file, in turns with the bare loop
//!     gpu turns FILE TURNS WAY..  settings to choose from: w12 is warpio with twelve threads, b12 a bare loop, b12x2 one with
//!                             slots of 2 MiB
//!     gpu cold FILE           a file that is not cached, beside the disk alone
//!     gpu first FILE          the first load of a process
//!     gpu rest FILE           all but the sequential rows
//!     gpu writes FILE FOLDER SIZE_MIB  what FILE holds, from the device into files of FOLDER
//!     gpu warm FILE           the warm row and the small reads alone, to try settings with
//!
//! `--device` is not asked for: it measures what `auto` takes, with default settings.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::json;
use warpio::{AsyncDeviceRead, DeviceBytesMut, Moved, Runtime};
use warpio_benches::clock::{Clock, median, peak_rss, quantile};
use warpio_benches::row::{Rounds, emit, median_of_turns, round};
use warpio_benches::{bare, file, load, turns, writes};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const MIB: u64 = 1 << 20;
const ROUNDS: usize = 7;
/// Rounds of what is compared to a percent.
const TURNS: usize = 15;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    tokio.block_on(async {
        match words.as_slice() {
            ["table", disk, tmpfs] => table(Path::new(disk), Path::new(tmpfs), 4096 * MIB).await,
            ["table", disk, tmpfs, mib] => table(Path::new(disk), Path::new(tmpfs), mib.parse::<u64>()? * MIB).await,
            ["warm", path] => warm_only(Path::new(path)).await,
            ["rest", path] => rest(Path::new(path)).await,
            ["writes", path, folder, mib] => {
                file::make(Path::new(path), mib.parse::<u64>()? * MIB)?;
                writes::measure(&Runtime::new()?, Path::new(path), Path::new(folder), "").await
            }
            ["cold", path] => cold(&Runtime::new()?, Path::new(path)).await,
            ["beside", path] => beside(Path::new(path)).await,
            ["turns", path, count, ways @ ..] => turns::measure(Path::new(path), count.parse()?, ways).await,
            ["first", path] => first(Path::new(path)).await,
            _ => Err("usage: gpu table FILE_ON_DISK FILE_ON_TMPFS [SIZE_MIB], or beside, cold, first, warm or rest and a FILE, or turns FILE TURNS WAY.., or writes FILE FOLDER SIZE_MIB".into()),
        }
    })
}

async fn table(disk: &Path, tmpfs: &Path, size: u64) -> Result<()> {
    let rt = Runtime::new()?;
    emit(json!({"job": "machine", "device": rt.device().to_string(), "engine": rt.engine(),
        "settings": rt.config().rows().iter().map(|row| (row.key.name, row.value.clone())).collect::<Vec<_>>()}));
    let ceiling = bare::ceiling(rt.device())?;
    emit(json!({"job": "pinned ceiling", "gb_per_s": round(ceiling)}));
    drop(rt);
    for (place, path) in [("ext4", disk), ("tmpfs", tmpfs)] {
        file::make(path, size)?;
        file::warm(path)?;
        for _ in 0..5 {
            child("first", path, place)?;
        }
        child("beside", path, place)?;
    }
    rest(disk).await
}

/// All but the sequential rows, in a process that has not run bare loops before.
async fn rest(disk: &Path) -> Result<()> {
    let rt = Runtime::new()?;
    let size = std::fs::metadata(disk)?.len();
    file::warm(disk)?;
    latency(&rt, disk).await?;
    latency_under_load(&rt, disk).await?;
    many_files(&rt, disk, size).await?;
    emit(json!({"job": "memory", "peak_rss": peak_rss(), "staging": rt.stats().staging.allocated}));
    cold(&rt, disk).await?;
    writes::measure(&rt, disk, disk.parent().unwrap_or(Path::new(".")), "ext4").await
}

/// Whether the device holds the bytes of the file.
async fn verify(buffer: DeviceBytesMut, crc: u32) -> Result<DeviceBytesMut> {
    let bytes = buffer.freeze();
    let mut found = 0;
    for at in (0..bytes.len()).step_by(64 << 20) {
        let part = bytes.slice(at..bytes.len().min(at + (64 << 20))).to_host().await?;
        found = crc32c::crc32c_append(found, &part);
    }
    if found != crc {
        return Err(format!("the device holds wrong bytes: crc32c {found:08x}, not {crc:08x}").into());
    }
    Ok(bytes.try_into_mut().map_err(|_| "the buffer is shared")?)
}

async fn sequential(rt: &Runtime, path: &Path, crc: u32, ceiling: f64) -> Result<()> {
    let size = std::fs::metadata(path)?.len();
    let mut buffer = rt.device().alloc(size as usize)?;
    let mut rounds = Rounds::default();
    for round in 0..ROUNDS + 1 {
        let cost;
        (cost, buffer) = load(rt, path, buffer).await?;
        if round > 0 {
            rounds.add(cost);
        }
    }
    buffer = verify(buffer, crc).await?;
    drop(buffer);
    let of_ceiling = round(rounds.best_gb_per_s(size) / ceiling);
    emit(rounds.row("seq-warm", size, json!({"verified": true, "of_ceiling": of_ceiling})));
    Ok(())
}

/// Runs a job in a process of its own, as a user's would be, and prints its rows.
fn child(job: &str, path: &Path, place: &str) -> Result<()> {
    let output = std::process::Command::new(std::env::current_exe()?).arg(job).arg(path).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    for line in String::from_utf8(output.stdout)?.lines() {
        let mut row: serde_json::Value = serde_json::from_str(line)?;
        row["place"] = json!(place);
        emit(row);
    }
    Ok(())
}

/// The bare loop in each way, and then its fastest ways and warpio in turns. In its turn, each runs once before what
/// counts.
async fn beside(path: &Path) -> Result<()> {
    let rt = Runtime::new()?;
    let size = std::fs::metadata(path)?.len();
    let ceiling = bare::ceiling(rt.device())?;
    let crc = file::warm(path)?;
    let mut ways = bare::bare_loops(rt.device(), path, &bare::ways(), 3)?;
    for way in &ways {
        emit(way.rounds.row("bare loop", size, json!({"threads": way.threads, "slot": way.slot})));
    }
    bare::keep_fastest(&mut ways, size);
    ways.iter_mut().for_each(|way| way.rounds = Rounds::default());
    let pairs: Vec<_> = ways.iter().map(|way| (way.threads, way.slot)).collect();
    let mut rounds = Rounds::default();
    let mut buffer = rt.device().alloc(size as usize)?;
    for turn in 0..=TURNS {
        let cost;
        (_, buffer) = load(&rt, path, buffer).await?;
        (cost, buffer) = load(&rt, path, buffer).await?;
        let loops = bare::bare_loops(rt.device(), path, &pairs, 1)?;
        if turn > 0 {
            rounds.add(cost);
            ways.iter_mut().zip(loops).for_each(|(way, one)| way.rounds.extend(one.rounds));
        }
    }
    drop(verify(buffer, crc).await?);
    for way in &ways {
        emit(way.rounds.row("bare loop, in turns", size, json!({"threads": way.threads, "slot": way.slot})));
    }
    let (best, middle) = (bare::best(&ways, size), bare::middle(&ways, size));
    let extra = json!({
        "verified": true,
        "of_ceiling": round(rounds.best_gb_per_s(size) / ceiling),
        "median_of_ceiling": round(rounds.median_gb_per_s(size) / ceiling),
        "of_bare_loop": round(rounds.best_gb_per_s(size) / best.0),
        "median_of_bare_loop": round(rounds.median_gb_per_s(size) / middle.0),
        "median_cpu_of_bare_loop": round(rounds.median_cpu_s_per_gb(size) / middle.1),
    });
    emit(rounds.row("seq-warm, in turns", size, extra));
    Ok(())
}

/// The warm row alone, to try settings with.
async fn warm_only(path: &Path) -> Result<()> {
    let rt = Runtime::new()?;
    let ceiling = bare::ceiling(rt.device())?;
    let crc = file::warm(path)?;
    sequential(&rt, path, crc, ceiling).await?;
    latency(&rt, path).await
}

async fn first(path: &Path) -> Result<()> {
    let rt = Runtime::new()?;
    let size = std::fs::metadata(path)?.len();
    let buffer = rt.device().alloc(size as usize)?;
    let (cost, _buffer) = load(&rt, path, buffer).await?;
    let mut rounds = Rounds::default();
    rounds.add(cost);
    emit(rounds.row("first load of a process", size, json!({"rss": peak_rss()})));
    Ok(())
}

fn offsets(size: u64, count: usize) -> impl Iterator<Item = u64> {
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % (size / 4096) * 4096
    })
}

/// One 4 KiB read at a time, awaited in a task of the multi-thread runtime. In microseconds.
async fn small_reads(source: impl AsyncDeviceRead + 'static, size: u64, count: usize) -> Result<Vec<f64>> {
    tokio::spawn(async move {
        let mut buffer = source.device().alloc(4096)?;
        let mut micros = Vec::with_capacity(count);
        for offset in offsets(size, count) {
            let start = Instant::now();
            let Moved { n, buffer: back } = source.read_at(offset, buffer).await?;
            micros.push(start.elapsed().as_secs_f64() * 1e6);
            assert_eq!(n, 4096);
            buffer = back;
        }
        Ok(micros)
    })
    .await?
}

async fn latency(rt: &Runtime, path: &Path) -> Result<()> {
    let size = std::fs::metadata(path)?.len();
    let source = rt.open(path).await?;
    small_reads(source.clone(), size, 2000).await?;
    let clock = Clock::start();
    let mut micros = small_reads(source, size, 20_000).await?;
    let cpu = clock.stop().cpu_seconds / 20_000.0 * 1e6;
    emit(json!({"job": "4 KiB read, one at a time", "median_us": round(median(&mut micros)),
        "p99_us": round(quantile(&mut micros, 0.99)), "cpu_us_per_read": round(cpu)}));
    Ok(())
}

async fn latency_under_load(rt: &Runtime, path: &Path) -> Result<()> {
    let size = std::fs::metadata(path)?.len();
    let stop = Arc::new(AtomicBool::new(false));
    let (loader_rt, loader_path, loader_stop): (Runtime, PathBuf, _) = (rt.clone(), path.to_owned(), stop.clone());
    let loader = tokio::spawn(async move {
        let mut buffer = loader_rt.device().alloc(size as usize)?;
        let (mut bytes, clock) = (0u64, Clock::start());
        while !loader_stop.load(Ordering::Relaxed) || bytes < 100_000 * MIB {
            (_, buffer) = load(&loader_rt, &loader_path, buffer).await?;
            bytes += size;
        }
        Ok::<f64, Box<dyn Error + Send + Sync>>(bytes as f64 / clock.stop().seconds / 1e9)
    });
    let source = rt.open(path).await?;
    let mut micros = small_reads(source, size, 5000).await?;
    stop.store(true, Ordering::Relaxed);
    let speed = loader.await??;
    emit(json!({"job": "4 KiB read while 100 GB are loaded", "median_us": round(median(&mut micros)),
        "p99_us": round(quantile(&mut micros, 0.99)), "max_us": round(quantile(&mut micros, 1.0)),
        "load_gb_per_s": round(speed)}));
    Ok(())
}

async fn many_files(rt: &Runtime, beside: &Path, total: u64) -> Result<()> {
    let size = total / 16;
    let folder = beside.parent().unwrap_or(Path::new("."));
    let paths: Vec<PathBuf> = (0..16).map(|i| folder.join(format!("warpio-bench-{i}.bin"))).collect();
    for path in &paths {
        file::make(path, size)?;
        file::warm(path)?;
    }
    let mut buffers: Vec<DeviceBytesMut> =
        (0..16).map(|_| rt.device().alloc(size as usize)).collect::<warpio::Result<_>>()?;
    let mut rounds = Rounds::default();
    for round in 0..ROUNDS + 1 {
        let clock = Clock::start();
        let tasks: Vec<_> = paths
            .iter()
            .zip(buffers.drain(..))
            .map(|(path, buffer)| {
                let (rt, path) = (rt.clone(), path.clone());
                tokio::spawn(async move { load(&rt, &path, buffer).await })
            })
            .collect();
        for task in tasks {
            buffers.push(task.await??.1);
        }
        if round > 0 {
            rounds.add(clock.stop());
        }
    }
    emit(rounds.row("16 files by 16 tasks", total, json!({"place": "ext4"})));
    paths.iter().try_for_each(std::fs::remove_file)?;
    Ok(())
}

/// The disk alone and warpio take turns.
async fn cold(rt: &Runtime, path: &Path) -> Result<()> {
    let size = std::fs::metadata(path)?.len();
    let mut buffer = rt.device().alloc(size as usize)?;
    let (mut rounds, mut limits) = (Rounds::default(), Vec::new());
    for number in 0..9 {
        // Whoever comes second may find more in the caches below this machine.
        for ours in [number % 2 == 0, number % 2 == 1] {
            file::cool(path)?;
            if ours {
                let cost;
                (cost, buffer) = load(rt, path, buffer).await?;
                if number > 0 {
                    rounds.add(cost);
                }
            } else {
                let limit = bare::disk_limit(rt.device(), path, std::slice::from_ref(&(0..size)))?;
                if number > 0 {
                    limits.push(limit);
                }
            }
        }
    }
    let of_turns = median_of_turns(&rounds.gb_per_s(size), &limits);
    let middle = median(&mut limits);
    let best = limits.last().copied().unwrap_or(f64::NAN);
    emit(rounds.row(
        "seq-cold",
        size,
        json!({"place": "ext4", "disk_gb_per_s": round(best), "disk_median_gb_per_s": round(middle),
            "of_disk": round(rounds.best_gb_per_s(size) / best),
            "median_of_disk": round(rounds.median_gb_per_s(size) / middle), "of_disk_by_turns": round(of_turns)}),
    ));
    Ok(())
}
