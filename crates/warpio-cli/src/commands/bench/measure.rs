//! Rounds, and what they come to.

use std::path::Path;
use std::sync::Arc;

use warpio::core::engine::StatsSnapshot;
use warpio::{
    AsyncDeviceRead, DeviceBytesMut, Error, ErrorKind, MmapOptions, MmapSource, Moved, PathKind, Runtime, Source,
};

use super::blocks::{self, Pieces};
use super::clock::{Clock, Reading, median};
use super::cold::cool;
use super::fio::Fio;
use super::latency::Summary;
use super::limit::Limit;
use super::plan::{Plan, Way};
use super::report::{BenchReport, Compared};
use super::scrub::scrub;
use super::subject::Subject;
use crate::args::{BenchArgs, Peer, UncachedArgs};
use crate::failure::{Failure, OrAdvise};
use crate::figures::{Figures, Paths};
use crate::output::Output;
use crate::progress::Progress;
use crate::runtime;

pub(super) async fn run(args: &BenchArgs, uncached: UncachedArgs, plan: Plan, output: &Output) -> Result<(), Failure> {
    let rt = runtime::start_with(&args.device, |builder| {
        let builder = uncached.engine.into_iter().fold(builder, |builder, engine| builder.engine(engine));
        uncached.direct.into_iter().fold(builder, |builder, direct| builder.direct_read(direct))
    })?;
    // From the first round on, bytes take the way that they take in a program that has run for a while. Where
    // GPUDirect Storage is off, that is known too.
    let _ = rt.gds().await;
    let fio = match args.compare {
        Some(Peer::Fio) => Some(Fio::find(&plan, rt.why_no_io_uring().is_none()).await?),
        None => None,
    };
    let subject = match &args.file {
        Some(file) => {
            let path = warpio::local_path(file)?;
            // First as it will be read, which refuses what is no file and says why.
            drop(open(&rt, &path, plan.way).await?);
            Subject::given(path, output).await?
        }
        None => {
            let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
            Subject::make(&rt, &dir, args.size, output).await?
        }
    };
    let pinned = match plan.way {
        Way::PinnedMap => Some(pin(&rt, subject.path()).await?),
        Way::File | Way::Map => None,
    };
    let bench = Bench { rt, subject, plan, fio, pinned };
    output.print(&bench.measure(args.rounds.get(), output).await?)
}

async fn open(rt: &Runtime, path: &Path, way: Way) -> Result<Source, Error> {
    match way {
        Way::File => rt.open(path).await,
        Way::Map | Way::PinnedMap => Ok(Source::new(rt.open_mmap(path, MmapOptions::new()).await?)),
    }
}

async fn pin(rt: &Runtime, path: &Path) -> Result<Arc<MmapSource>, Failure> {
    let map = rt.open_mmap(path, MmapOptions::new()).await?;
    map.pin().await.or_advise(ErrorKind::Unsupported, "leave --pin out")?;
    Ok(Arc::new(map))
}

struct Bench {
    rt: Runtime,
    subject: Subject,
    plan: Plan,
    fio: Option<Fio>,
    /// A map that stays as it is over all rounds.
    pinned: Option<Arc<MmapSource>>,
}

/// What one round came to, apart from the bytes.
struct Round {
    reading: Reading,
    paths: Paths,
    engine: &'static str,
    latency: Option<Summary>,
}

impl Bench {
    async fn measure(self, rounds: u32, output: &Output) -> Result<BenchReport, Failure> {
        let size = self.subject.size();
        let progress = Progress::without_rate(output, "reading", size.saturating_mul(u64::from(rounds) + 1));
        let mut buffer = usize::try_from(size)
            .map_err(|_| Error::new(ErrorKind::OutOfMemory))
            .and_then(|len| self.rt.device().alloc(len))
            .or_advise(ErrorKind::OutOfMemory, "choose a smaller file")?;
        // Does not count: it brings file and memory to where every later round finds them.
        buffer = self.round(buffer, 0, &progress).await?.1;
        let mut done = Vec::new();
        let mut theirs = Vec::new();
        for number in 1..=rounds {
            let blank = scrub(buffer).await?;
            let (round, filled) = self.round(blank, number, &progress).await?;
            let arrived = filled.freeze();
            self.subject.verify(&arrived).await?;
            done.push(round);
            if let Some(fio) = &self.fio {
                self.prepare().await?;
                theirs.push(fio.round(self.subject.path(), size).await?);
            }
            buffer = match arrived.try_into_mut() {
                Ok(buffer) => buffer,
                Err(arrived) => self.rt.device().alloc(arrived.len())?,
            };
        }
        drop(progress);
        let limit = match self.plan.limit {
            true => Some(Limit::measure(&self.rt, self.subject.path()).await?),
            false => None,
        };
        let readings: Vec<_> = done.iter().map(|round| round.reading).collect();
        let nothing = || Failure::new("nothing was measured; ask for one round at least");
        let median = done.into_iter().nth(median(&readings).ok_or_else(nothing)?).ok_or_else(nothing)?;
        Ok(BenchReport {
            plan: self.plan,
            file: self.subject.path().to_owned(),
            own: matches!(self.subject, Subject::Own { .. }),
            figures: Figures {
                bytes: size,
                elapsed: median.reading.elapsed,
                device: self.rt.device().to_string(),
                engine: median.engine,
                paths: median.paths,
            },
            median: median.reading,
            latency: median.latency,
            readings,
            limit,
            compared: self.fio.map(|fio| Compared { fio, rounds: theirs }),
        })
    }

    /// What happens before each round, and does not count.
    async fn prepare(&self) -> Result<(), Failure> {
        if self.plan.cold { cool(self.subject.path()).await } else { Ok(()) }
    }

    async fn open(&self) -> Result<Source, Error> {
        match &self.pinned {
            Some(pinned) => Ok(Source::new(pinned.clone())),
            None => open(&self.rt, self.subject.path(), self.plan.way).await,
        }
    }

    /// Reads the whole file once. The time runs from before it is opened until its bytes can be used.
    async fn round(
        &self,
        buffer: DeviceBytesMut,
        number: u32,
        progress: &Progress,
    ) -> Result<(Round, DeviceBytesMut), Failure> {
        self.prepare().await?;
        let wanted = buffer.len() as u64;
        let before = self.rt.stats().transfers;
        let path = self.subject.path();
        let (engine, reading, n, latency, buffer) = match &self.plan.blocks {
            None => {
                let clock = Clock::start();
                let source = self.open().await?;
                let Moved { n, buffer } = progress.follow(source.read_at(0, buffer)).await?;
                (source.describe().engine, clock.read(), n as u64, None, buffer)
            }
            Some(blocks) => {
                // Another order each time, and the same ones whenever it is measured.
                let order = blocks::order(blocks, wanted, number.into())?;
                let pieces = Pieces::cut(buffer, blocks.len);
                let clock = Clock::start();
                let source = self.open().await?;
                let mut read = blocks::read(&source, blocks, &order, pieces, progress).await?;
                let reading = clock.read();
                let latency = read.latencies().summary();
                (source.describe().engine, reading, read.bytes, Some(latency), read.pieces.join()?)
            }
        };
        if n < wanted {
            return Err(Failure::new(format!(
                "{} became shorter while it was measured: only {n} of {wanted} bytes were there; measure again when \
                 nothing writes to it",
                path.display()
            )));
        }
        if self.pinned.as_ref().is_some_and(|map| !map.is_pinned()) {
            return Err(Failure::new(format!(
                "{} changed while it was measured, and was not read by the GPU from its pinned pages any more; measure \
                 again when nothing changes it",
                path.display()
            )));
        }
        let paths = since(&before, &self.rt.stats().transfers);
        Ok((Round { reading, paths, engine, latency }, buffer))
    }
}

/// The bytes that were read between two looks, by the path that they took.
fn since(before: &StatsSnapshot, after: &StatsSnapshot) -> Paths {
    let earlier = |path: PathKind| before.read.iter().find(|(known, _)| *known == path).map_or(0, |&(_, n)| n);
    let paths = after.read.iter().map(|&(path, bytes)| (path, bytes - earlier(path)));
    Paths::from(paths.filter(|&(_, bytes)| bytes > 0).collect::<Vec<_>>())
}
