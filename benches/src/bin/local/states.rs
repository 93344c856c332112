//! Whole files, cached, not cached and half cached, by each way to treat the page cache.

use std::fs::File;
use std::path::Path;

use serde_json::json;
use tokio::runtime::Handle;
use warpio::config::DirectIo;
use warpio::{Device, DeviceSpec, Runtime};
use warpio_benches::row::{Rounds, emit, round};
use warpio_benches::{file, load};

use super::Result;

/// How much of a file the page cache holds.
#[derive(Clone, Copy, Debug)]
enum State {
    Warm,
    Cold,
    Half,
}

/// Prints a row for each state and way; the ways take turns.
pub(crate) fn measure(path: &Path, size: u64, rounds: usize, tokio: &Handle) -> Result<()> {
    file::make(path, size)?;
    let _guard = tokio.enter();
    let ways = [DirectIo::Auto, DirectIo::Always, DirectIo::Never];
    let runtimes = ways
        .into_iter()
        .map(|way| Ok((way, Runtime::builder().device(DeviceSpec::Host).direct_read(way).build()?)))
        .collect::<Result<Vec<_>>>()?;
    let mut buffer = Device::host().alloc(size as usize)?;
    buffer.as_mut_slice().ok_or("host memory")?.fill(1);
    for state in [State::Warm, State::Cold, State::Half] {
        let mut times = vec![Rounds::default(); runtimes.len()];
        for number in 0..=rounds {
            for ((_, runtime), rounds) in runtimes.iter().zip(&mut times) {
                bring(path, state)?;
                let cost;
                (cost, buffer) = tokio.block_on(load(runtime, path, buffer))?;
                if number > 0 {
                    rounds.add(cost);
                }
            }
        }
        let fixed = times[1..].iter().map(|rounds| rounds.median_gb_per_s(size)).fold(0.0, f64::max);
        for ((way, _), rounds) in runtimes.iter().zip(&times) {
            let share = rounds.median_gb_per_s(size) / fixed;
            emit(rounds.row(
                "states",
                size,
                json!({"state": format!("{state:?}").to_lowercase(),
                "direct_read": format!("{way:?}").to_lowercase(), "of_better_fixed": round(share)}),
            ));
        }
    }
    Ok(())
}

fn bring(path: &Path, state: State) -> Result<()> {
    match state {
        State::Warm => drop(file::warm(path)?),
        State::Cold => file::cool(path)?,
        State::Half => {
            file::warm(path)?;
            let file = File::open(path)?;
            let len = file.metadata()?.len();
            warpio::local::page_cache::drop_range(&file, len / 2..len).map_err(std::io::Error::other)?;
        }
    }
    Ok(())
}
