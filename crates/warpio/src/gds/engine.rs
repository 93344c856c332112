//! Which transfers go by cuFile.

use std::fmt;
use std::sync::Arc;

use warpio_core::config::{CompatMode, DirectIo};
use warpio_core::engine::{Batch, Direction, Engine, Gather, Segment, Target};
use warpio_core::{Error, ErrorKind};
use warpio_cufile::{CuFile, CuFileEngine, CuFileTarget};
use warpio_local::engine::{Mode, OpenFile, RingTarget};

use super::Gds;

/// What the page cache does not serve: by cuFile, or else by `otherwise`.
pub(crate) struct Uncached {
    gds: Arc<Gds>,
    otherwise: Arc<dyn Engine>,
}

impl Uncached {
    pub(super) fn new(gds: Arc<Gds>, otherwise: Arc<dyn Engine>) -> Self {
        Self { gds, otherwise }
    }
}

impl Engine for Uncached {
    fn submit(&self, batch: Batch) {
        let target = batch.target::<RingTarget>().filter(|target| target.mode() == Mode::Direct);
        let (Some(target), Some(engine)) = (target, self.gds.engine()) else { return self.otherwise.submit(batch) };
        let file = target.file();
        // Whoever wants everything by cuFile had it tried before this.
        if file.policy().compat != CompatMode::Auto || !self.gds.suits(file, batch.segments()) {
            return self.otherwise.submit(batch);
        }
        by_cufile(engine, file, batch.into_parts().1, (&self.otherwise, target.clone()), false);
    }

    fn segment_align(&self) -> usize {
        self.otherwise.segment_align()
    }

    fn name(&self) -> &'static str {
        self.gds.engine().map_or(self.otherwise.name(), |engine| engine.name())
    }
}

/// Writes, and everything of files that demand it: by cuFile, or else by `otherwise`.
pub(crate) struct Outer {
    gds: Arc<Gds>,
    otherwise: Arc<dyn Engine>,
}

impl Outer {
    pub(super) fn new(gds: Arc<Gds>, otherwise: Arc<dyn Engine>) -> Self {
        Self { gds, otherwise }
    }

    /// Whether a transfer goes by cuFile whatever the page cache has.
    fn takes(&self, file: &OpenFile, segments: &[Segment]) -> bool {
        let policy = file.policy();
        match (segments.first().map(Segment::direction), policy.compat) {
            (_, CompatMode::Off) => segments.iter().all(on_gpu),
            (Some(Direction::Write), CompatMode::Auto) => {
                policy.write != DirectIo::Never && self.gds.suits(file, segments)
            }
            _ => false,
        }
    }
}

impl Engine for Outer {
    fn submit(&self, batch: Batch) {
        let Some(file) = batch.target::<OpenFile>().filter(|file| self.takes(file, batch.segments())) else {
            return self.otherwise.submit(batch);
        };
        let strict = file.policy().compat == CompatMode::Off;
        let engine = match self.gds.engine() {
            Some(engine) => engine,
            None if strict => return batch.fail(&self.gds.missing()),
            None => return self.otherwise.submit(batch),
        };
        by_cufile(engine, &file, batch.into_parts().1, (&self.otherwise, file.clone()), strict);
    }

    /// Ranges are read through host memory, where they are joined and scattered. Files that demand cuFile have each range
    /// read by itself.
    fn gathers(&self) -> bool {
        self.otherwise.gathers()
    }

    fn segment_align(&self) -> usize {
        self.otherwise.segment_align()
    }

    fn gather(&self, target: Target, gather: Gather) {
        self.otherwise.gather(target, gather);
    }

    fn name(&self) -> &'static str {
        self.otherwise.name()
    }
}

impl Gds {
    /// Whether cuFile may be the faster way.
    fn suits(&self, file: &OpenFile, segments: &[Segment]) -> bool {
        let long = segments.first().is_some_and(|segment| segment.transfer_len() as u64 >= self.threshold);
        long && !file.is_in_memory() && segments.iter().all(on_gpu)
    }
}

fn on_gpu(segment: &Segment) -> bool {
    segment.device().id().kind == "cuda"
}

/// Hands segments to cuFile, with another engine for what it does not do.
fn by_cufile(
    engine: &Arc<CuFileEngine>,
    file: &Arc<OpenFile>,
    segments: Vec<Segment>,
    (otherwise, target): (&Arc<dyn Engine>, Target),
    strict: bool,
) {
    let Some(known) = file.companion(known).and_then(|known| known.0.clone()) else {
        let batch = Batch::new(target, segments);
        if strict {
            let message = "no second descriptor of the file can be had for cuFile";
            return batch.fail(&Error::new(ErrorKind::Unsupported).with_message(message));
        }
        return otherwise.submit(batch);
    };
    let target = CuFileTarget::new(known).with_otherwise(otherwise.clone(), target).strict(strict);
    engine.submit(Batch::new(Arc::new(target), segments));
}

/// A file as cuFile knows it, if another descriptor of it could be had.
struct Known(Option<Arc<CuFile>>);

fn known(file: &OpenFile) -> Known {
    let known = file
        .access()
        .and_then(|(readable, writable)| Ok(Arc::new(CuFile::opened_by(readable, writable, file.direct_opener()?))));
    if let Err(error) = &known {
        tracing::debug!(%error, "a file is not for cuFile");
    }
    Known(known.ok())
}

impl fmt::Debug for Uncached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uncached").field("gds", &self.gds).field("otherwise", &self.otherwise).finish_non_exhaustive()
    }
}

impl fmt::Debug for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outer").field("gds", &self.gds).field("otherwise", &self.otherwise).finish_non_exhaustive()
    }
}
