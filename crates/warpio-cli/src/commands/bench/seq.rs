//! `warpio bench seq`: a whole file into device memory, again and again.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Value, json};
use warpio::{AsyncDeviceRead, DeviceBytesMut, Error, ErrorKind, Moved, Runtime};

use super::clock::{Clock, Reading, median};
use super::limit::Limit;
use super::scrub::scrub;
use super::subject::Subject;
use crate::args::SeqArgs;
use crate::failure::{Failure, OrAdvise};
use crate::figures::{Figures, Paths, gb_per_s};
use crate::output::{Output, Report, shown_path};
use crate::progress::Progress;
use crate::runtime;

pub(crate) async fn run(args: &SeqArgs, output: &Output) -> Result<(), Failure> {
    let rt = runtime::start(args.device.device)?;
    let subject = match &args.file {
        Some(file) => {
            // First as it will be read, which refuses what is no file and says why.
            drop(rt.open(file).await?);
            Subject::given(file, output).await?
        }
        None => {
            let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
            Subject::make(&rt, &dir, args.size, output).await?
        }
    };
    let mut report = measure(&rt, &subject, args.rounds.get(), output).await?;
    if args.limit {
        report.limit = Some(Limit::measure(&rt, subject.path()).await?);
    }
    output.print(&report)
}

async fn measure(rt: &Runtime, subject: &Subject, rounds: u32, output: &Output) -> Result<SeqReport, Failure> {
    let size = subject.size();
    let progress = Progress::without_rate(output, "reading", size.saturating_mul(u64::from(rounds) + 1));
    let mut buffer = usize::try_from(size)
        .map_err(|_| Error::new(ErrorKind::OutOfMemory))
        .and_then(|len| rt.device().alloc(len))
        .or_advise(ErrorKind::OutOfMemory, "choose a smaller file")?;
    // Does not count: it brings file and memory to where every later round finds them.
    let mut last = round(rt, subject, buffer, &progress).await?;
    buffer = last.buffer;
    let mut readings = Vec::new();
    let mut paths = Vec::new();
    for _ in 0..rounds {
        let blank = scrub(buffer).await?;
        last = round(rt, subject, blank, &progress).await?;
        let arrived = last.buffer.freeze();
        subject.verify(&arrived).await?;
        readings.push(last.reading);
        paths.push(last.paths);
        buffer = match arrived.try_into_mut() {
            Ok(buffer) => buffer,
            Err(arrived) => rt.device().alloc(arrived.len())?,
        };
    }
    let median = median(&readings).ok_or_else(|| Failure::new("nothing was measured; ask for one round at least"))?;
    Ok(SeqReport {
        file: subject.path().to_owned(),
        own: matches!(subject, Subject::Own { .. }),
        figures: Figures {
            bytes: size,
            elapsed: readings[median].elapsed,
            device: rt.device().to_string(),
            engine: last.engine,
            paths: paths.swap_remove(median),
        },
        median: readings[median],
        readings,
        limit: None,
    })
}

struct Round {
    buffer: DeviceBytesMut,
    reading: Reading,
    paths: Paths,
    engine: &'static str,
}

/// Reads the whole file once. The time runs from before it is opened until its bytes can be used.
async fn round(rt: &Runtime, subject: &Subject, buffer: DeviceBytesMut, progress: &Progress) -> Result<Round, Failure> {
    let wanted = buffer.len();
    let clock = Clock::start();
    let source = rt.open(subject.path()).await?;
    let transfer = source.read_at(0, buffer);
    let report = transfer.report();
    let Moved { n, buffer } = progress.follow(transfer).await?;
    let reading = clock.read();
    if n < wanted {
        let path = subject.path().display();
        return Err(Failure::new(format!(
            "{path} became shorter while it was measured: only {n} of {wanted} bytes were there; measure again when \
             nothing writes to it"
        )));
    }
    Ok(Round { buffer, reading, paths: Paths::from(&report), engine: source.describe().engine })
}

struct SeqReport {
    file: PathBuf,
    own: bool,
    /// Of the median.
    figures: Figures,
    median: Reading,
    readings: Vec<Reading>,
    limit: Option<Limit>,
}

impl SeqReport {
    fn gb_per_s(&self) -> f64 {
        gb_per_s(self.figures.bytes, self.median.elapsed)
    }

    fn cpu_s_per_gb(&self) -> f64 {
        match self.figures.bytes {
            0 => 0.0,
            bytes => self.median.cpu.as_secs_f64() / (bytes as f64 / 1e9),
        }
    }
}

impl Report for SeqReport {
    fn json(&self) -> Value {
        let rounds: Vec<f64> = self.readings.iter().map(|reading| reading.elapsed.as_secs_f64()).collect();
        let mut object = self.figures.json();
        object.insert("bench".to_owned(), json!("seq"));
        object.insert("file".to_owned(), json!(self.file.to_string_lossy()));
        object.insert("own_file".to_owned(), json!(self.own));
        object.insert("rounds".to_owned(), json!(rounds));
        object.insert("cpu_s_per_gb".to_owned(), json!(self.cpu_s_per_gb()));
        object.insert("verified".to_owned(), json!(true));
        if let Some(limit) = &self.limit {
            object.insert("limit".to_owned(), limit.json(self.gb_per_s()));
        }
        Value::Object(object)
    }
}

impl fmt::Display for SeqReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |reading: &Reading| gb_per_s(self.figures.bytes, reading.elapsed);
        let rates = || self.readings.iter().map(rate);
        let (slowest, fastest) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
        let of = if self.own { "a file of its own" } else { &shown_path(&self.file) };
        writeln!(f, "bench seq, {of}: {}", self.figures)?;
        write!(
            f,
            "median of {} rounds, {slowest:.2} to {fastest:.2} GB/s, {:.3} CPU-s per GB; every byte read back from {} \
             and verified",
            self.readings.len(),
            self.cpu_s_per_gb(),
            self.figures.device,
        )?;
        match &self.limit {
            Some(limit) => write!(f, "\n{}", limit.text(self.gb_per_s())),
            None => Ok(()),
        }
    }
}
