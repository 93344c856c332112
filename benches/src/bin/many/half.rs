//! A file of which a half is cached, in two patterns.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::json;
use warpio::{AsyncDeviceReadExt, Runtime};
use warpio_benches::clock::{Clock, median};
use warpio_benches::row::{Rounds, emit, median_of_turns, round};
use warpio_benches::{bare, file};

use super::random::holds;
use super::{MIB, Result};

pub(crate) async fn run(rt: &Runtime, path: &Path, size: u64) -> Result<()> {
    let source = rt.open(path).await?;
    let mut buffer = rt.device().alloc(size as usize)?;
    for (pattern, stripe) in [("the first half", size / 2), ("every other 64 MiB", 64 * MIB)] {
        let mut rounds = Rounds::default();
        let mut limits = Vec::new();
        let cold: Vec<_> = (stripe..size).step_by(2 * stripe as usize).map(|at| at..size.min(at + stripe)).collect();
        for number in 0..8 {
            // In turns, as what the disk gives changes; and by turns first, as whoever comes second may find more in the
            // caches below this machine.
            for ours in [number % 2 == 0, number % 2 == 1] {
                file::cool(path)?;
                warm_stripes(path, size, stripe)?;
                if ours {
                    let clock = Clock::start();
                    buffer = source.read_exact_at(0, buffer).await?;
                    rounds.add(clock.stop());
                } else {
                    limits.push(bare::disk_limit(rt.device(), path, &cold)?);
                }
            }
        }
        buffer = holds(buffer, std::slice::from_ref(&(0..size))).await?;
        let cold: u64 = cold.iter().map(|stripe| stripe.end - stripe.start).sum();
        // Times, which are the inverse of speeds.
        let of_turns = size as f64 / cold as f64 * median_of_turns(&limits, &rounds.gb_per_s(size));
        let (middle, limit) = (median(&mut limits), limits.iter().copied().fold(0.0, f64::max));
        let (cold_best, cold_middle) = (cold as f64 / limit / 1e9, cold as f64 / middle / 1e9);
        let seconds = size as f64 / rounds.best_gb_per_s(size) / 1e9;
        let median_seconds = size as f64 / rounds.median_gb_per_s(size) / 1e9;
        let extra = json!({"cached": pattern, "verified": true,
            "disk_gb_per_s": round(limit), "median_disk_gb_per_s": round(middle),
            "seconds": round(seconds), "cold_half_seconds": round(cold_best), "of_cold_half": round(seconds / cold_best),
            "median_seconds": round(median_seconds), "median_cold_half_seconds": round(cold_middle),
            "median_of_cold_half": round(median_seconds / cold_middle), "of_cold_half_by_turns": round(of_turns)});
        emit(rounds.row("half cached", size, extra));
    }
    Ok(())
}

/// Caches every other stripe.
fn warm_stripes(path: &Path, size: u64, stripe: u64) -> Result<()> {
    let file = File::open(path)?;
    // Nothing is read ahead into the stripes between.
    // SAFETY: a descriptor of ours.
    unsafe { libc::posix_fadvise(std::os::fd::AsRawFd::as_raw_fd(&file), 0, 0, libc::POSIX_FADV_RANDOM) };
    let mut block = vec![0u8; MIB as usize];
    let mut at = 0;
    while at < size {
        if (at / stripe).is_multiple_of(2) {
            let n = block.len().min((size - at) as usize);
            file.read_exact_at(&mut block[..n], at)?;
        }
        at += MIB;
    }
    Ok(())
}
