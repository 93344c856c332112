//! Memory maps of a cached file.

use std::path::Path;

use serde_json::json;
use warpio::{AsyncDeviceReadExt, DeviceBytesMut, MmapOptions, MmapSource, Runtime};
use warpio_benches::clock::Clock;
use warpio_benches::row::{Rounds, emit, round};
use warpio_benches::{bare, file};

use super::Result;
use super::random::holds;

const ROUNDS: usize = 9;

pub(crate) async fn run(rt: &Runtime, path: &Path, size: u64) -> Result<()> {
    file::warm(path)?;
    let ceiling = bare::ceiling(rt.device())?;
    emit(json!({"job": "pinned ceiling", "gb_per_s": round(ceiling)}));
    let mut buffer = rt.device().alloc(size as usize)?;

    let mut rounds = Rounds::default();
    for n in 0..ROUNDS + 1 {
        let clock = Clock::start();
        let map = rt.open_mmap(path, MmapOptions::new()).await?;
        buffer = map.read_exact_at(0, buffer).await?;
        let cost = clock.stop();
        if n > 0 {
            rounds.add(cost);
        }
    }
    buffer = report("mapped anew", size, ceiling, &rounds, buffer).await?;

    let map = rt.open_mmap(path, MmapOptions::new()).await?;
    let rounds;
    (rounds, buffer) = again(&map, buffer).await?;
    buffer = report("mapped once", size, ceiling, &rounds, buffer).await?;

    let clock = Clock::start();
    match map.pin().await {
        Ok(()) => {
            let cost = clock.stop();
            emit(
                json!({"job": "pin", "bytes": size, "seconds": round(cost.seconds), "cpu_seconds": round(cost.cpu_seconds)}),
            );
            let rounds;
            (rounds, buffer) = again(&map, buffer).await?;
            if !map.is_pinned() {
                return Err("the file changed, and was not read from its pinned pages any more".into());
            }
            report("pinned", size, ceiling, &rounds, buffer).await?;
        }
        Err(error) => emit(json!({"job": "pin", "refused": error.to_string()})),
    }
    Ok(())
}

async fn again(map: &MmapSource, mut buffer: DeviceBytesMut) -> Result<(Rounds, DeviceBytesMut)> {
    let mut rounds = Rounds::default();
    for n in 0..ROUNDS + 1 {
        let clock = Clock::start();
        buffer = map.read_exact_at(0, buffer).await?;
        let cost = clock.stop();
        // The first one finds the pages.
        if n > 0 {
            rounds.add(cost);
        }
    }
    Ok((rounds, buffer))
}

async fn report(job: &str, size: u64, ceiling: f64, rounds: &Rounds, buffer: DeviceBytesMut) -> Result<DeviceBytesMut> {
    let buffer = holds(buffer, std::slice::from_ref(&(0..size))).await?;
    let share = round(rounds.best_gb_per_s(size) / ceiling);
    emit(rounds.row(job, size, json!({"verified": true, "of_ceiling": share})));
    Ok(buffer)
}
