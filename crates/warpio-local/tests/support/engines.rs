//! Every engine, in every mode, for tests that all of them have to pass.

use std::sync::Arc;

use tempfile::TempDir;
use tokio::runtime::Handle;
use warpio_core::engine::{Batch, Engine, Gather, Stats, Target};
use warpio_core::plan::Split;
use warpio_core::{Device, StagingSlab};
use warpio_local::engine::{
    AutoEngine, DirectThreads, Mode, OpenFile, PosixEngine, RingOptions, RingTarget, TokioUringEngine, UringEngine,
};
use warpio_local::file::FileContext;

/// An engine, and the mode that its files are read and written in.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) mode: Mode,
}

impl Setup {
    /// Files are cut into segments of 128 KiB, so that small ones have several.
    pub(crate) fn context(&self, device: Device) -> FileContext {
        let engine = Arc::new(InMode(self.clone()));
        let split = Split::new(128 << 10).unwrap();
        FileContext {
            engine,
            split,
            device,
            handle: Handle::current(),
            stats: Stats::default(),
            policy: Default::default(),
            gap: 4096,
        }
    }
}

/// Wraps the files of batches with the mode.
#[derive(Debug)]
struct InMode(Setup);

impl Engine for InMode {
    fn submit(&self, batch: Batch) {
        let file = batch.target::<OpenFile>();
        match (self.0.mode, file) {
            (Mode::Direct, Some(file)) => {
                let target = Arc::new(RingTarget::new(file, Mode::Direct));
                self.0.engine.submit(Batch::new(target, batch.into_parts().1));
            }
            _ => self.0.engine.submit(batch),
        }
    }

    fn gathers(&self) -> bool {
        self.0.mode == Mode::Buffered && self.0.engine.gathers()
    }

    fn segment_align(&self) -> usize {
        if self.0.mode == Mode::Direct { 4096 } else { 1 }
    }

    fn gather(&self, target: Target, gather: Gather) {
        self.0.engine.gather(target, gather);
    }

    fn name(&self) -> &'static str {
        self.0.engine.name()
    }
}

/// Whether rings can be had; says so if not.
pub(crate) fn has_rings() -> bool {
    match UringEngine::probe() {
        Ok(_) => true,
        Err(refusal) => {
            super::skipped(&format!("{refusal}; engines without a ring alone are tested"));
            false
        }
    }
}

/// Every engine, started with `options`, in each of its modes.
pub(crate) fn setups(options: &RingOptions) -> Vec<Setup> {
    let auto = |uncached: &Arc<dyn Engine>| -> Arc<dyn Engine> {
        let copies = PosixEngine::start_beside(3, Some(uncached.clone())).unwrap();
        Arc::new(AutoEngine::new(copies, uncached.clone()))
    };
    let posix: Arc<dyn Engine> = Arc::new(PosixEngine::start(3).unwrap());
    let mut direct: Vec<Arc<dyn Engine>> = vec![Arc::new(DirectThreads::start(3).unwrap())];
    if has_rings() {
        direct.push(Arc::new(UringEngine::start(options).unwrap()));
        direct.push(Arc::new(TokioUringEngine::start(options).unwrap()));
    }
    let mut setups = vec![Setup { engine: posix, mode: Mode::Buffered }];
    for engine in direct {
        setups.push(Setup { engine: auto(&engine), mode: Mode::Buffered });
        setups.extend([Mode::Buffered, Mode::Direct].map(|mode| Setup { engine: engine.clone(), mode }));
    }
    setups
}

/// The engines that take whatever the storage does without holding up other transfers, in both modes, each started
/// anew.
pub(crate) fn rings(options: &RingOptions) -> impl Iterator<Item = Setup> {
    let start = |tokio| -> Arc<dyn Engine> {
        match tokio {
            true => Arc::new(TokioUringEngine::start(options).unwrap()),
            false => Arc::new(UringEngine::start(options).unwrap()),
        }
    };
    let all = [false, true].into_iter().flat_map(|tokio| [(tokio, Mode::Buffered), (tokio, Mode::Direct)]);
    all.filter(|_| has_rings()).map(move |(tokio, mode)| Setup { engine: start(tokio), mode })
}

/// Runs `test` with every engine in each of its modes: with one ring thread, then with several small rings.
pub(crate) async fn for_each_engine(test: impl AsyncFn(&Setup)) {
    for_each_engine_knowing(Vec::new(), test).await;
}

/// As [`for_each_engine`], with rings that this staging memory is registered with.
pub(crate) async fn for_each_engine_knowing(fixed: Vec<StagingSlab>, test: impl AsyncFn(&Setup)) {
    let one = RingOptions { fixed, ..RingOptions::default() };
    for options in [RingOptions { threads: 3, depth: 4, ..one.clone() }, one] {
        for setup in setups(&options) {
            test(&setup).await;
        }
    }
}

/// A directory on a disk.
pub(crate) fn disk() -> TempDir {
    super::disk_dir()
}

/// A directory in memory.
pub(crate) fn memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}
