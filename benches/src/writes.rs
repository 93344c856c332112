//! Device memory to a file, beside a plain loop and fio, which take turns.

use std::error::Error;
use std::path::Path;

use serde_json::json;
use warpio::config::DirectIo;
use warpio::{AsyncDeviceReadExt, AsyncDeviceWriteExt, DeviceBytes, Runtime};

use crate::clock::{Clock, Cost, median};
use crate::row::{Rounds, emit, median_of_turns, round};
use crate::{bare, file, fio};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const ROUNDS: usize = 7;

/// Writes the bytes of the file `source` from the device to new files in `folder` through the page cache, and past it
/// over an old one. Prints one row a contender.
///
/// Before each round all that was written is on the disk: none waits for what another has left behind.
///
/// # Errors
/// What the device, the files and fio report.
pub async fn measure(rt: &Runtime, source: &Path, folder: &Path, place: &str) -> Result<()> {
    let data = rt.open(source).await?.read_all().await?;
    cached(rt, source, &data, &folder.join("warpio-written.bin"), place).await?;
    direct(source, &data, &folder.join("warpio-written.bin"), place).await
}

async fn cached(rt: &Runtime, source: &Path, data: &DeviceBytes, path: &Path, place: &str) -> Result<()> {
    let size = data.len() as u64;
    let mut ours = Rounds::default();
    let mut plain: [(usize, Vec<f64>); 3] = [1, 2, 4].map(|threads| (threads, Vec::new()));
    let contenders = plain.len() + 1;
    for number in 0..=ROUNDS {
        // Each in every place of a turn.
        for nth in 0..contenders {
            match plain.get_mut((nth + number) % contenders) {
                Some((threads, speeds)) => {
                    let speed = bare::pwrite_loop(path, size, *threads)?;
                    if number > 0 {
                        speeds.push(speed);
                    }
                }
                None => {
                    let cost = write(rt, data, path, true).await?;
                    if number > 0 {
                        ours.add(cost);
                    }
                    if number == 1 {
                        same(path, source)?;
                    }
                }
            }
            settle(path, true)?;
        }
    }
    let speeds = ours.gb_per_s(size);
    let of_turns = plain.iter().map(|(_, plain)| median_of_turns(&speeds, plain)).fold(f64::INFINITY, f64::min);
    for (threads, mut speeds) in plain {
        let middle = median(&mut speeds);
        emit(json!({"job": "plain pwrite loop", "place": place, "threads": threads, "rounds": ROUNDS,
            "gb_per_s": speeds.last().copied().map(round), "median_gb_per_s": round(middle)}));
    }
    let extra = json!({"place": place, "way": "page cache", "verified": true, "of_plain_by_turns": round(of_turns)});
    emit(ours.row("device to file", size, extra));
    Ok(())
}

async fn direct(source: &Path, data: &DeviceBytes, path: &Path, place: &str) -> Result<()> {
    let size = data.len() as u64;
    let rt = Runtime::builder().direct_write(DirectIo::Always).build()?;
    file::make(path, size)?;
    let mut ours = Rounds::default();
    let peers = [("1M", 32), ("4M", 8)];
    let has_fio = fio::is_installed();
    let mut theirs = peers.map(|_| Vec::new());
    for number in 0..=ROUNDS {
        settle(path, false)?;
        let cost = write(&rt, data, path, false).await?;
        if number > 0 {
            ours.add(cost);
        }
        if number == 1 {
            same(path, source)?;
        }
        for ((block, depth), speeds) in peers.iter().zip(&mut theirs).filter(|_| has_fio) {
            settle(path, false)?;
            let speed = fio_write(path, block, *depth)?;
            if number > 0 {
                speeds.push(speed);
            }
        }
    }
    for ((block, depth), mut speeds) in peers.into_iter().zip(theirs).filter(|_| has_fio) {
        let middle = median(&mut speeds);
        emit(json!({"job": "fio write", "place": place, "block": block, "depth": depth, "rounds": ROUNDS,
            "gb_per_s": speeds.last().copied().map(round), "median_gb_per_s": round(middle)}));
    }
    emit(ours.row("device to file", size, json!({"place": place, "way": "O_DIRECT", "verified": true})));
    std::fs::remove_file(path)?;
    Ok(())
}

async fn write(rt: &Runtime, data: &DeviceBytes, path: &Path, anew: bool) -> Result<Cost> {
    let clock = Clock::start();
    let sink = rt.open_options().write(true).create(anew).truncate(anew).open(path).await?;
    sink.write_all_at(0, data.clone()).await?;
    sink.close().await?;
    Ok(clock.stop())
}

/// Has the file on the disk, or away.
fn settle(path: &Path, remove: bool) -> Result<()> {
    std::fs::File::open(path)?.sync_all()?;
    if remove {
        std::fs::remove_file(path)?;
    } else {
        file::cool(path)?;
    }
    Ok(())
}

fn same(path: &Path, source: &Path) -> Result<()> {
    let (written, wanted) = (file::warm(path)?, file::warm(source)?);
    if written == wanted { Ok(()) } else { Err("what was written is not what the device holds".into()) }
}

/// Over the whole file, past the page cache. In GB/s.
fn fio_write(path: &Path, block: &str, depth: u32) -> Result<f64> {
    let size = std::fs::metadata(path)?.len();
    let arguments =
        ["--rw=write".to_owned(), format!("--size={size}"), format!("--bs={block}"), format!("--iodepth={depth}")];
    let report = fio::run(path, arguments)?;
    Ok(fio::number(&report["write"], "io_bytes")? / fio::number(&report["write"], "runtime")? / 1e6)
}
