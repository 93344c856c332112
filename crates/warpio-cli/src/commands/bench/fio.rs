//! The flexible I/O tester, beside what is measured here.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use super::latency::Summary;
use super::plan::{Blocks, Plan};
use crate::failure::Failure;
use crate::figures::{Rate, gb_per_s};

const PROGRAM: &str = "fio";

/// How fio reads the same file in the same way.
#[derive(Clone, Debug)]
pub(super) struct Fio {
    version: String,
    blocks: Blocks,
    direct: bool,
    engine: &'static str,
}

/// One round of fio's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FioRound {
    bytes: u64,
    reads: u64,
    pub(super) elapsed: Duration,
    cpu: Duration,
    latency: Summary,
}

impl Fio {
    /// Looks for fio, before anything is measured. It uses rings where `rings` says that there are some.
    pub(super) async fn find(plan: &Plan, rings: bool) -> Result<Self, Failure> {
        let output = run(Command::new(PROGRAM).arg("--version")).await?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let engine = if rings { "io_uring" } else { "libaio" };
        Ok(Self { version, blocks: plan.blocks_for_others(), direct: plan.goes_past_the_cache(), engine })
    }

    /// Reads `path`, of `size` bytes.
    pub(super) async fn round(&self, path: &Path, size: u64) -> Result<FioRound, Failure> {
        let output = run(Command::new(PROGRAM).args(self.arguments(path, size)?)).await?;
        let text = String::from_utf8_lossy(&output.stdout);
        parse(&text).ok_or_else(|| Failure::new(format!("fio does not say how fast it was ({})", self.version)))
    }

    fn arguments(&self, path: &Path, size: u64) -> Result<Vec<OsString>, Failure> {
        let Blocks { len, random, .. } = self.blocks;
        let depth = self.blocks.in_flight();
        // It does not read a part of a block.
        let size = size - size % len;
        if size == 0 {
            return Err(Failure::new(format!("fio reads whole blocks, and the file has not one of {len} bytes")));
        }
        let mut arguments: Vec<OsString> = [
            "--name=warpio",
            "--readonly",
            "--allow_file_create=0",
            "--invalidate=0",
            "--numjobs=1",
            "--lat_percentiles=1",
            "--eta=never",
            "--output-format=json",
        ]
        .map(OsString::from)
        .into();
        arguments.extend(
            [
                format!("--rw={}", if random { "randread" } else { "read" }),
                format!("--bs={len}"),
                format!("--iodepth={depth}"),
                format!("--ioengine={}", self.engine),
                format!("--direct={}", u8::from(self.direct)),
                format!("--size={size}"),
            ]
            .map(OsString::from),
        );
        arguments.push(filename(path));
        Ok(arguments)
    }

    /// What is told of all rounds; `ours` is the rate of warpio's median, in bytes a second.
    pub(super) fn json(&self, rounds: &[FioRound], ours: f64) -> Value {
        let round = median(rounds);
        let seconds: Vec<f64> = rounds.iter().map(|round| round.elapsed.as_secs_f64()).collect();
        json!({
            "program": self.version,
            "ioengine": self.engine,
            "block": self.blocks.len,
            "depth": self.blocks.in_flight(),
            "direct": self.direct,
            "bytes": round.bytes,
            "seconds": round.elapsed.as_secs_f64(),
            "rounds": seconds,
            "gb_per_s": gb_per_s(round.bytes, round.elapsed),
            "iops": round.per_second(round.reads),
            "cpu_us_per_op": round.cpu_us_per_op(),
            "latency_us": round.latency.json(),
            "warpio_has": self.share(rounds, ours),
        })
    }

    pub(super) fn text<'a>(&'a self, rounds: &'a [FioRound], ours: f64) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| {
            let round = median(rounds);
            let past = if self.direct { "past the page cache" } else { "through the page cache" };
            writeln!(
                f,
                "{} ({}, {past}): {:.0} reads/s, {}, {:.3} CPU-µs per read",
                self.version,
                self.engine,
                round.per_second(round.reads),
                Rate(gb_per_s(round.bytes, round.elapsed)),
                round.cpu_us_per_op(),
            )?;
            writeln!(f, "its latency {}", round.latency)?;
            write!(f, "warpio has {:.2} of its rate, {} rounds of each in turn", self.share(rounds, ours), rounds.len())
        })
    }

    fn share(&self, rounds: &[FioRound], ours: f64) -> f64 {
        let round = median(rounds);
        let theirs = round.per_second(round.bytes);
        if theirs > 0.0 { ours / theirs } else { 0.0 }
    }
}

impl FioRound {
    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    fn cpu_us_per_op(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.reads.max(1) as f64
    }
}

/// The slower in the middle, as of warpio's rounds.
fn median(rounds: &[FioRound]) -> FioRound {
    let mut rounds = rounds.to_vec();
    rounds.sort_by_key(|round| round.elapsed);
    let nothing =
        FioRound { bytes: 0, reads: 0, elapsed: Duration::ZERO, cpu: Duration::ZERO, latency: Summary::default() };
    rounds.get(rounds.len() / 2).copied().unwrap_or(nothing)
}

async fn run(command: &mut Command) -> Result<Output, Failure> {
    // An interruption of ours is its too: it gets the terminal's signal, and is gone with this future.
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.map_err(missing)?;
    if output.status.success() {
        return Ok(output);
    }
    let said = [output.stderr, output.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    let reason = said.lines().find(|line| line.contains("err")).or(said.lines().next()).unwrap_or("it says nothing");
    Err(Failure::new(format!("fio failed ({}): {reason}; try without --compare", output.status)))
}

fn missing(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => Failure::new("fio is not installed; install it, or leave --compare out"),
        _ => Failure::new(format!("fio cannot be run: {error}; leave --compare out")),
    }
}

/// The name as fio takes it, which separates several by colons.
fn filename(path: &Path) -> OsString {
    let mut argument = b"--filename=".to_vec();
    for &byte in path.as_os_str().as_bytes() {
        if matches!(byte, b':' | b'\\') {
            argument.push(b'\\');
        }
        argument.push(byte);
    }
    OsString::from_vec(argument)
}

/// Reads what fio prints. Its warnings may stand before it.
fn parse(text: &str) -> Option<FioRound> {
    let object: Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    let job = object.get("jobs")?.get(0)?;
    let read = job.get("read")?;
    let elapsed = Duration::from_millis(read.get("runtime")?.as_u64()?);
    let percent = job.get("usr_cpu")?.as_f64()? + job.get("sys_cpu")?.as_f64()?;
    let ran = Duration::from_millis(job.get("job_runtime")?.as_u64()?);
    let lat = read.get("lat_ns")?;
    let micros = |value: Option<&Value>| Some(value?.as_f64()? / 1e3);
    let percentile = |share: &str| micros(lat.get("percentile")?.get(share));
    Some(FioRound {
        bytes: read.get("io_bytes")?.as_u64()?,
        reads: read.get("total_ios")?.as_u64()?,
        elapsed,
        cpu: Duration::try_from_secs_f64(ran.as_secs_f64() * percent / 100.0).ok()?,
        latency: Summary {
            mean: micros(lat.get("mean"))?,
            p50: percentile("50.000000")?,
            p90: percentile("90.000000")?,
            p99: percentile("99.000000")?,
            p999: percentile("99.900000")?,
            max: micros(lat.get("max"))?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fio(len: u64, direct: bool) -> Fio {
        let blocks = Blocks { len, batch: 1, depth: 64, random: true };
        Fio { version: "fio-3.33".to_owned(), blocks, direct, engine: "io_uring" }
    }

    #[test]
    fn it_is_told_to_read_the_same_way_and_to_write_nothing() {
        let arguments = fio(4096, true).arguments(Path::new("/data/x"), 10_000).unwrap();
        let arguments: Vec<_> = arguments.iter().map(|argument| argument.to_str().unwrap()).collect();
        for wanted in [
            "--readonly",
            "--allow_file_create=0",
            "--rw=randread",
            "--bs=4096",
            "--iodepth=64",
            "--ioengine=io_uring",
            "--direct=1",
            "--size=8192",
            "--filename=/data/x",
        ] {
            assert!(arguments.contains(&wanted), "{wanted}: {arguments:?}");
        }
        assert!(fio(4096, false).arguments(Path::new("x"), 4095).unwrap_err().to_string().contains("block"));
    }

    #[test]
    fn a_colon_in_a_name_does_not_make_two_files_of_it() {
        assert_eq!(filename(Path::new("/a:b/c\\d")), r"--filename=/a\:b/c\\d");
    }

    #[test]
    fn its_figures_are_read() {
        let text = r#"note: something
            {"fio version": "fio-3.33", "jobs": [{
              "read": {"io_bytes": 16777216, "total_ios": 4096, "runtime": 21, "lat_ns": {
                "mean": 309289.5, "max": 8206081, "percentile": {
                  "50.000000": 109056, "90.000000": 134144, "99.000000": 8224768, "99.900000": 8224768}}},
              "job_runtime": 21, "usr_cpu": 15.0, "sys_cpu": 80.0}]}"#;
        let round = parse(text).unwrap();
        assert_eq!((round.bytes, round.reads, round.elapsed), (16_777_216, 4096, Duration::from_millis(21)));
        assert_eq!((round.latency.p50, round.latency.max), (109.056, 8206.081));
        assert_eq!(round.cpu.as_micros(), 19_950);
        assert!((round.per_second(round.reads) - 195_047.6).abs() < 0.1);
        for broken in ["", "{}", r#"{"jobs": []}"#, "fio: no such option"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn the_share_is_of_the_median() {
        let round = |millis| FioRound { elapsed: Duration::from_millis(millis), bytes: 1000, ..median(&[]) };
        let rounds = [round(500), round(1), round(1000)];
        assert_eq!(median(&rounds).elapsed, Duration::from_millis(500));
        assert_eq!(fio(4096, true).share(&rounds, 1800.0), 0.9);
        assert_eq!(fio(4096, true).share(&[], 1.0), 0.0);
    }
}
