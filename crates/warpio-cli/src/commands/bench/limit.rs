//! What the machine itself allows, measured in the same run.

use std::fmt;
use std::path::Path;

use serde_json::{Value, json};
use warpio::{Device, Runtime};
use warpio_benches::bare;

use crate::failure::Failure;

const ROUNDS: usize = 5;

/// The limits that a file's way into device memory has on this machine.
pub(super) struct Limit {
    /// Copies from pinned memory, in GB/s; `None` where the device is host memory.
    pinned: Option<f64>,
    /// The fastest loop of threads, reads and copies without runtime: GB/s, CPU-s per GB, threads.
    bare: (f64, f64, usize),
}

impl Limit {
    /// Measures them with the file, which is in the page cache. Blocks for a while, on a thread that may.
    pub(super) async fn measure(rt: &Runtime, path: &Path) -> Result<Self, Failure> {
        let (device, path) = (rt.device().clone(), path.to_owned());
        let measured = tokio::task::spawn_blocking(move || measure(&device, &path)).await;
        match measured {
            Ok(limit) => Ok(limit?),
            Err(error) => Err(Failure::new(format!("the limits could not be measured: {error}"))),
        }
    }

    pub(super) fn json(&self, gb_per_s: f64) -> Value {
        let (bare, cpu, threads) = self.bare;
        json!({
            "pinned_gb_per_s": self.pinned,
            "of_pinned": self.pinned.map(|pinned| gb_per_s / pinned),
            "bare_loop_gb_per_s": bare,
            "bare_loop_cpu_s_per_gb": cpu,
            "bare_loop_threads": threads,
            "of_bare_loop": gb_per_s / bare,
        })
    }

    pub(super) fn text(&self, gb_per_s: f64) -> impl fmt::Display {
        let (bare, cpu, threads) = self.bare;
        let pinned = match self.pinned {
            Some(pinned) => {
                format!("pinned copies run at {pinned:.2} GB/s ({:.1} % of it reached); ", 100.0 * gb_per_s / pinned)
            }
            None => String::new(),
        };
        format!(
            "{pinned}the bare loop at {bare:.2} GB/s with {threads} threads and {cpu:.3} CPU-s per GB ({:.1} % of it reached)",
            100.0 * gb_per_s / bare
        )
    }
}

fn measure(device: &Device, path: &Path) -> warpio::Result<Limit> {
    let pinned = if device.is_host_visible() { None } else { Some(bare::ceiling(device)?) };
    let bytes = std::fs::metadata(path)?.len();
    let loops = bare::bare_loops(device, path, &bare::ways(), ROUNDS)?;
    let (speed, cpu) = bare::best(&loops, bytes);
    let threads = loops.iter().find(|way| way.rounds.best_gb_per_s(bytes) >= speed).map_or(0, |way| way.threads);
    Ok(Limit { pinned, bare: (speed, cpu, threads) })
}
