//! Ranges that are not cached, beside fio.

use std::path::Path;

use serde_json::json;
use warpio::Runtime;
use warpio::config::DirectIo;
use warpio_benches::row::{emit, round};
use warpio_benches::{file, fio};

use super::Result;
use super::gather::{read, row};
use super::random::{Random, holds};

/// Enough for half a second of a fast disk.
const COUNT: usize = 65_536;
const LEN: u64 = 4096;
const ROUNDS: usize = 5;

pub(crate) async fn run(rt: &Runtime, path: &Path, size: u64) -> Result<()> {
    let always = Runtime::builder().direct_read(DirectIo::Always).build()?;
    for turn in 0..3 {
        fio_reads(path, turn)?;
        for (way, rt) in [("auto", rt), ("always", &always)] {
            ranges(rt, path, size, way, turn).await?;
        }
    }
    Ok(())
}

async fn ranges(rt: &Runtime, path: &Path, size: u64, way: &str, turn: usize) -> Result<()> {
    let mut random = Random::new();
    let source = rt.open(path).await?;
    let mut buffer = rt.device().alloc(COUNT * LEN as usize)?;
    let (mut costs, mut paths) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS + 1 {
        file::cool(path)?;
        let ranges = random.ranges(size, COUNT, LEN);
        let cost;
        (cost, buffer, paths) = read(&source, &ranges, buffer).await?;
        if round > 0 {
            costs.push(cost);
        }
        buffer = holds(buffer, &ranges).await?;
    }
    let extra = json!({"direct_read": way, "turn": turn, "verified": true, "paths": paths});
    emit(row("cold, packed", COUNT, LEN, &costs, extra));
    Ok(())
}

fn fio_reads(path: &Path, turn: usize) -> Result<()> {
    if !fio::is_installed() {
        emit(json!({"job": "fio", "missing": true}));
        return Ok(());
    }
    for depth in [128, 256] {
        file::cool(path)?;
        let depth_argument = format!("--iodepth={depth}");
        let report = fio::run(
            path,
            [
                "--rw=randread",
                "--bs=4k",
                "--norandommap",
                "--randrepeat=0",
                "--time_based",
                "--runtime=3",
                "--thread",
                &depth_argument,
            ],
        )?;
        let iops = fio::number(&report["read"], "iops")?;
        let micros = (fio::number(&report, "usr_cpu")? + fio::number(&report, "sys_cpu")?) / 100.0 / iops * 1e6;
        emit(json!({"job": "fio", "depth": depth, "turn": turn, "reads_per_s": iops.round(),
            "cpu_us_per_read": round(micros)}));
    }
    Ok(())
}
