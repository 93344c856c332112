//! What a bench prints.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::clock::Reading;
use super::fio::{Fio, FioRound};
use super::latency::Summary;
use super::limit::Limit;
use super::plan::{Blocks, Plan};
use crate::figures::{Figures, gb_per_s};
use crate::output::{Report, shown_path};

pub(super) struct BenchReport {
    pub(super) plan: Plan,
    pub(super) file: PathBuf,
    pub(super) own: bool,
    /// Of the median.
    pub(super) figures: Figures,
    pub(super) median: Reading,
    /// Of the median too, where the file was read in blocks.
    pub(super) latency: Option<Summary>,
    pub(super) readings: Vec<Reading>,
    pub(super) limit: Option<Limit>,
    pub(super) compared: Option<Compared>,
}

/// What another program did meanwhile.
pub(super) struct Compared {
    pub(super) fio: Fio,
    pub(super) rounds: Vec<FioRound>,
}

impl BenchReport {
    fn cpu_s_per_gb(&self) -> f64 {
        match self.figures.bytes {
            0 => 0.0,
            bytes => self.median.cpu.as_secs_f64() / (bytes as f64 / 1e9),
        }
    }

    fn gb_per_s(&self) -> f64 {
        gb_per_s(self.figures.bytes, self.median.elapsed)
    }

    fn seconds(&self) -> f64 {
        self.figures.elapsed.as_secs_f64().max(1e-9)
    }

    fn ops(&self, blocks: &Blocks) -> u64 {
        blocks.count(self.figures.bytes)
    }

    fn iops(&self, blocks: &Blocks) -> f64 {
        self.ops(blocks) as f64 / self.seconds()
    }

    fn cpu_us_per_op(&self, blocks: &Blocks) -> f64 {
        self.median.cpu.as_secs_f64() * 1e6 / self.ops(blocks).max(1) as f64
    }

    fn bytes_per_s(&self) -> f64 {
        self.figures.bytes as f64 / self.seconds()
    }
}

impl Report for BenchReport {
    fn json(&self) -> Value {
        let rounds: Vec<f64> = self.readings.iter().map(|reading| reading.elapsed.as_secs_f64()).collect();
        let mut object = self.figures.json();
        let mut put = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
        put("bench", json!(self.plan.bench));
        put("file", json!(self.file.to_string_lossy()));
        put("own_file", json!(self.own));
        put("rounds", json!(rounds));
        put("cpu_s_per_gb", json!(self.cpu_s_per_gb()));
        put("cold", json!(self.plan.cold));
        put("direct", json!(self.plan.direct.to_string()));
        put("verified", json!(true));
        if let (Some(blocks), Some(latency)) = (&self.plan.blocks, &self.latency) {
            put("block", json!(blocks.len));
            put("batch", json!(blocks.batch));
            put("depth", json!(blocks.depth));
            put("ops", json!(self.ops(blocks)));
            put("iops", json!(self.iops(blocks)));
            put("cpu_us_per_op", json!(self.cpu_us_per_op(blocks)));
            put("latency_us", latency.json());
        }
        if let Some(limit) = &self.limit {
            put("limit", limit.json(self.gb_per_s()));
        }
        if let Some(Compared { fio, rounds }) = &self.compared {
            put("fio", fio.json(rounds, self.bytes_per_s()));
        }
        Value::Object(object)
    }
}

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |reading: &Reading| gb_per_s(self.figures.bytes, reading.elapsed);
        let rates = || self.readings.iter().map(rate);
        let (slowest, fastest) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
        let of = if self.own { "a file of its own" } else { &shown_path(&self.file) };
        let cold = if self.plan.cold { ", not cached" } else { "" };
        writeln!(f, "bench {}, {of}{cold}: {}", self.plan.bench, self.figures)?;
        if let (Some(blocks), Some(latency)) = (&self.plan.blocks, &self.latency) {
            writeln!(
                f,
                "{} reads of {} bytes, {} in flight: {:.0} reads/s, {:.3} CPU-µs per read",
                self.ops(blocks),
                blocks.len,
                blocks.depth,
                self.iops(blocks),
                self.cpu_us_per_op(blocks)
            )?;
            match blocks.batch {
                1 => writeln!(f, "latency {latency}")?,
                batch => writeln!(f, "latency of {batch} in one read {latency}")?,
            }
        }
        write!(
            f,
            "median of {} rounds, {slowest:.2} to {fastest:.2} GB/s, {:.3} CPU-s per GB; every byte read back from {} \
             and verified",
            self.readings.len(),
            self.cpu_s_per_gb(),
            self.figures.device,
        )?;
        if let Some(limit) = &self.limit {
            write!(f, "\n{}", limit.text(self.gb_per_s()))?;
        }
        match &self.compared {
            Some(Compared { fio, rounds }) => write!(f, "\n{}", fio.text(rounds, self.bytes_per_s())),
            None => Ok(()),
        }
    }
}
