//! Not the library's answers, but that warpio's engine gets every byte through it.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use warpio_core::PathKind;
use warpio_core::engine::Starter;
use warpio_core::plan::Split;
use warpio_cufile::{CuFile, CuFileEngine, CuFileTarget, Driver, DriverOptions, EngineOptions, Route, Surroundings};

use crate::lab::{KIB, Lab, bytes};

const MIB: usize = 1024 * KIB;

pub(super) fn calls() -> String {
    transfer(Route::Sync)
}

pub(super) fn batches() -> String {
    transfer(Route::Batch)
}

pub(super) fn streams() -> String {
    transfer(Route::Stream)
}

const LEN: usize = 3000 * KIB + 123;

/// The engine with everything that it works with.
struct Bench {
    lab: Lab,
    engine: Arc<CuFileEngine>,
    starter: Starter,
}

impl Bench {
    /// In compatibility mode too: it is what machines without GPUDirect Storage have to show.
    fn new(route: Route, split: usize) -> Self {
        let lab = Lab::closed();
        // The preloaded library lets cuFile find what this looks for.
        let mut machine = Surroundings::probe_under(Path::new("/nowhere"));
        machine.modules = true;
        let driver = Driver::open(lab.library, &lab.device, &DriverOptions::new().surroundings(machine)).unwrap();
        let mut options = EngineOptions::default();
        options.route = route;
        options.allow_compat = true;
        options.stall = Duration::from_secs(10);
        let engine = Arc::new(CuFileEngine::start(&driver, options).unwrap());
        let starter = Starter::new(engine.clone(), Split::new(split).unwrap(), "scenario", lab.device.clone());
        Self { lab, engine, starter }
    }

    fn target(&self, len: usize) -> Arc<CuFileTarget> {
        let file = File::options().read(true).write(true).open(self.lab.path(len)).unwrap();
        Arc::new(CuFileTarget::new(Arc::new(CuFile::new(file.into()).unwrap())))
    }

    fn assert_untroubled(&self) {
        let stats = self.engine.stats();
        assert_eq!((stats.refused, stats.lost_batches, stats.retries), (0, 0, 0), "{stats:?}");
    }
}

fn transfer(route: Route) -> String {
    let bench = Bench::new(route, 256 * KIB);
    let (lab, starter, target) = (&bench.lab, &bench.starter, bench.target(LEN));
    let want = bytes(LEN);

    let ranges = [(0, LEN + 5000), (4096, 256 * KIB), (777, 99_999), (LEN - 1, 2), (LEN + 1, 10)];
    let mut right = 0;
    for _ in 0..20 {
        let transfers = ranges.map(|(offset, len)| {
            let buffer = lab.device.alloc(len).unwrap();
            (offset, starter.read(target.clone(), offset as u64, buffer))
        });
        for (offset, transfer) in transfers {
            let report = transfer.report();
            let moved = block_on(transfer).unwrap();
            let host = block_on(moved.buffer.freeze().to_host()).unwrap();
            let expected = &want[offset.min(LEN)..LEN.min(offset + host.len())];
            let counted = report.bytes(PathKind::PageCache) as usize == moved.n;
            right += usize::from(moved.n == expected.len() && host[..moved.n] == *expected && counted);
        }
    }
    let inverted: Vec<u8> = want.iter().map(|byte| !byte).collect();
    let data = block_on(lab.device.upload(&inverted)).unwrap().freeze();
    block_on(starter.write(target, 0, data)).unwrap();
    let written = std::fs::read(lab.path(LEN)).unwrap() == inverted;
    bench.assert_untroubled();
    format!("{right} of {} reads right, write {}", 20 * ranges.len(), if written { "right" } else { "wrong" })
}

/// More than the library's own bounce buffers are.
fn crowd(route: Route) -> String {
    const READS: usize = 128;
    const FILE: usize = 8 * MIB;
    let bench = Bench::new(route, MIB);
    let (target, want) = (bench.target(FILE), bytes(FILE));
    let read = |i: usize| {
        let offset = i % 8 * MIB;
        (offset, bench.starter.read(target.clone(), offset as u64, bench.lab.device.alloc(MIB).unwrap()))
    };
    let transfers: Vec<_> = (0..READS).map(read).collect();
    let right = transfers.into_iter().filter_map(|(offset, transfer)| {
        let moved = block_on(transfer).unwrap();
        let host = block_on(moved.buffer.freeze().to_host()).unwrap();
        (moved.n == MIB && host[..] == want[offset..offset + MIB]).then_some(())
    });
    let right = right.count();
    bench.assert_untroubled();
    format!("{right} right")
}

pub(super) fn crowd_of_calls() -> String {
    crowd(Route::Sync)
}

pub(super) fn crowd_of_entries() -> String {
    crowd(Route::Batch)
}

pub(super) fn crowd_of_operations() -> String {
    crowd(Route::Stream)
}
