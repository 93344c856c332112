//! Settings and bare loops in turns, to choose by.

use std::path::Path;

use serde_json::json;
use warpio::{Device, DeviceBytesMut, Runtime};

use crate::row::{Rounds, emit, median_of_turns, round};
use crate::{bare, file, load};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// Who reads a cached file to the device.
enum Way {
    /// warpio, with so many threads.
    Warpio(Runtime),
    /// The bare loop, with so many threads and slots of so many bytes.
    Bare(usize, usize),
}

impl Way {
    /// `w12` is warpio with twelve threads, `b12` the bare loop with twelve and slots of 4 MiB, `b12x2` with slots of 2.
    fn parse(name: &str, device: &Device) -> Result<Self> {
        if let Some(threads) = name.strip_prefix('w') {
            return Ok(Self::Warpio(Runtime::builder().on_device(device.clone()).threads(threads.parse()?).build()?));
        }
        let (threads, mib) = name
            .strip_prefix('b')
            .map(|rest| rest.split_once('x').unwrap_or((rest, "4")))
            .ok_or_else(|| format!("{name}: neither w12 nor b12 nor b12x2"))?;
        Ok(Self::Bare(threads.parse()?, mib.parse::<usize>()? << 20))
    }

    /// Reads the file so many times.
    async fn run(
        &self,
        device: &Device,
        path: &Path,
        mut buffer: DeviceBytesMut,
        times: usize,
    ) -> Result<(Rounds, DeviceBytesMut)> {
        let mut rounds = Rounds::default();
        match self {
            Self::Warpio(rt) => {
                for number in 0..=times {
                    let cost;
                    (cost, buffer) = load(rt, path, buffer).await?;
                    if number > 0 {
                        rounds.add(cost);
                    }
                }
            }
            Self::Bare(threads, slot) => {
                let ways = [(*threads, *slot)];
                rounds.extend(bare::bare_loops(device, path, &ways, times)?.remove(0).rounds);
            }
        }
        Ok((rounds, buffer))
    }
}

/// Lets each way read the file `turns` times by turns, and prints a row for each: the ratio to the last way is the median
/// of those of the turns. In its turn, each runs once before what counts.
///
/// # Errors
/// What warpio and the bare loop report.
pub async fn measure(path: &Path, turns: usize, names: &[&str]) -> Result<()> {
    let rt = Runtime::new()?;
    let device = rt.device();
    let size = std::fs::metadata(path)?.len();
    file::warm(path)?;
    let ways: Vec<Way> = names.iter().map(|name| Way::parse(name, device)).collect::<Result<_>>()?;
    let mut all = vec![Rounds::default(); ways.len()];
    let mut buffer = device.alloc(size as usize)?;
    for turn in 0..=turns {
        for (way, rounds) in ways.iter().zip(&mut all) {
            let one;
            (one, buffer) = way.run(device, path, buffer, 1).await?;
            if turn > 0 {
                rounds.extend(one);
            }
        }
    }
    let last = all.last().map(|rounds| rounds.gb_per_s(size)).unwrap_or_default();
    for (name, rounds) in names.iter().zip(&all) {
        let ratio = round(median_of_turns(&rounds.gb_per_s(size), &last));
        emit(rounds.row("seq-warm, in turns", size, json!({"way": name, "of_last_by_turns": ratio})));
    }
    Ok(())
}
