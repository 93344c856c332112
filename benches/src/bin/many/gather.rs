//! Cached ranges.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use warpio::core::plan::pack;
use warpio::{AsyncDeviceRead, DeviceBytesMut, PathKind, Runtime, Source};
use warpio_benches::clock::{Clock, Cost, median, quantile};
use warpio_benches::file;
use warpio_benches::row::{emit, round};

use super::Result;
use super::random::{Random, holds};

const COUNT: usize = 16_384;
const ROUNDS: usize = 30;

pub(crate) async fn run(rt: &Runtime, path: &Path, size: u64) -> Result<()> {
    file::warm(path)?;
    let source = rt.open(path).await?;
    let mut random = Random::new();
    for len in [4096, 65_536] {
        plan(&mut random, size, len);
        for threads in [4, 8, 12, 16] {
            plain(path, &random.ranges(size, COUNT, len), threads)?;
        }
        packed(rt, &source, &mut random, size, len).await?;
        scattered(rt, &source, &mut random, size, len).await?;
    }
    Ok(())
}

/// The row of a job: the best round and the median one, and how the rounds spread.
pub(crate) fn row(job: &str, count: usize, len: u64, costs: &[Cost], extra: Value) -> Value {
    let best = costs.iter().map(|cost| cost.seconds).fold(f64::INFINITY, f64::min);
    let mut seconds: Vec<f64> = costs.iter().map(|cost| cost.seconds).collect();
    let mut cpu: Vec<f64> = costs.iter().map(|cost| cost.cpu_seconds / count as f64 * 1e6).collect();
    let middle = median(&mut seconds);
    let rate = |seconds: f64| (count as f64 / seconds).round();
    let mut row = json!({
        "job": job, "count": count, "len": len, "rounds": costs.len(),
        "reads_per_s": rate(best), "median_reads_per_s": rate(middle), "worst_reads_per_s": rate(quantile(&mut seconds, 1.0)),
        "gb_per_s": round(count as f64 * len as f64 / best / 1e9),
        "median_gb_per_s": round(count as f64 * len as f64 / middle / 1e9),
        "cpu_us_per_read": round(median(&mut cpu)),
    });
    if let (Value::Object(row), Value::Object(extra)) = (&mut row, extra) {
        row.extend(extra);
    }
    row
}

async fn packed(rt: &Runtime, source: &Source, random: &mut Random, size: u64, len: u64) -> Result<()> {
    let mut buffer = rt.device().alloc(COUNT * len as usize)?;
    let (mut costs, mut paths) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS + 2 {
        let ranges = random.ranges(size, COUNT, len);
        let cost;
        (cost, buffer, paths) = read(source, &ranges, buffer).await?;
        // The first rounds make staging memory, and load the kernel.
        if round >= 2 {
            costs.push(cost);
        }
        buffer = holds(buffer, &ranges).await?;
    }
    emit(row("packed", COUNT, len, &costs, json!({"verified": true, "paths": paths})));
    Ok(())
}

type Paths = Vec<(&'static str, u64)>;

/// One read of ranges, all of which must arrive whole.
pub(crate) async fn read(
    source: &Source,
    ranges: &[Range<u64>],
    buffer: DeviceBytesMut,
) -> Result<(Cost, DeviceBytesMut, Paths)> {
    let clock = Clock::start();
    let transfer = source.read_ranges(ranges, buffer);
    let report = transfer.report();
    let read = transfer.await?;
    let cost = clock.stop();
    for (result, range) in read.results.into_iter().zip(ranges) {
        if result? as u64 != range.end - range.start {
            return Err(format!("{range:?} is short").into());
        }
    }
    let paths = report.paths().map(|(path, bytes): (PathKind, u64)| (path.as_str(), bytes)).collect();
    Ok((cost, read.buffer, paths))
}

async fn scattered(rt: &Runtime, source: &Source, random: &mut Random, size: u64, len: u64) -> Result<()> {
    // A gap behind every place, so that no two of them are neighbours.
    let mut whole = rt.device().alloc(2 * COUNT * len as usize)?;
    let mut buffers = Vec::with_capacity(COUNT);
    let mut gaps = Vec::with_capacity(COUNT);
    for _ in 0..COUNT {
        buffers.push(whole.split_to(len as usize));
        gaps.push(whole.split_to(len as usize));
    }
    let mut costs = Vec::new();
    for round in 0..ROUNDS + 2 {
        let ranges = random.ranges(size, COUNT, len);
        let requests: Vec<_> = ranges.iter().map(|range| range.start).zip(buffers).collect();
        let clock = Clock::start();
        let read = source.read_scatter(requests).await?;
        if round >= 2 {
            costs.push(clock.stop());
        }
        for result in read.results {
            if result? as u64 != len {
                return Err("a range is short".into());
            }
        }
        // All of them cost a copy each, so a sample in most rounds, and all in the last.
        let all = round == ROUNDS + 1;
        buffers = Vec::with_capacity(COUNT);
        for (i, (buffer, range)) in read.buffers.into_iter().zip(&ranges).enumerate() {
            let check = all || i % 251 == round % 251;
            buffers.push(if check { holds(buffer, std::slice::from_ref(range)).await? } else { buffer });
        }
    }
    emit(row("scattered", COUNT, len, &costs, json!({"verified": true})));
    Ok(())
}

/// What sorting and joining the ranges takes, which one thread does before the others begin.
fn plan(random: &mut Random, size: u64, len: u64) {
    let mut costs = Vec::new();
    for _ in 0..ROUNDS {
        let ranges = random.ranges(size, COUNT, len);
        let clock = Clock::start();
        std::hint::black_box(pack(&ranges, 4096, 3 << 20));
        costs.push(clock.stop());
    }
    emit(row("the plan alone", COUNT, len, &costs, json!({})));
}

/// What threads of `pread` reach that bring nothing to a device: into memory of their own that stays in the caches.
fn plain(path: &Path, ranges: &[Range<u64>], threads: usize) -> Result<()> {
    let mut costs = Vec::new();
    for _ in 0..5 {
        let next = AtomicUsize::new(0);
        let clock = Clock::start();
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| -> std::io::Result<()> {
                        let file = File::open(path)?;
                        let mut block = vec![0u8; 1 << 20];
                        loop {
                            let at = next.fetch_add(64, Ordering::Relaxed);
                            let Some(some) = ranges.get(at..ranges.len().min(at + 64)).filter(|some| !some.is_empty())
                            else {
                                return Ok(());
                            };
                            for range in some {
                                file.read_exact_at(&mut block[..(range.end - range.start) as usize], range.start)?;
                            }
                        }
                    })
                })
                .collect();
            workers.into_iter().try_for_each(|worker| worker.join().unwrap_or(Ok(())))
        })?;
        costs.push(clock.stop());
    }
    let len = ranges.first().map_or(0, |range| range.end - range.start);
    emit(row("plain pread threads, no device", ranges.len(), len, &costs, json!({"threads": threads})));
    Ok(())
}
