//! The contract of sources and sinks, by every interface of cuFile.

use std::time::Duration;

use warpio_core::testing::{pattern, read_contract, write_contract};
use warpio_cufile::{EngineOptions, Route};

use crate::support::{KIB, Rig, Tested};

const LEN: usize = 700_001;

fn cases() -> impl Iterator<Item = (EngineOptions, &'static str)> {
    let plans =
        ["mode gds", "mode gds; order shuffled 5; device_us 100 parallel 4", "mode p2p; on Read every 5 max 9999"];
    [Route::Auto, Route::Sync, Route::Batch, Route::Stream].into_iter().flat_map(move |route| {
        plans.into_iter().map(move |plan| {
            let mut options = EngineOptions::default();
            options.route = route;
            options.stall = Duration::from_secs(20);
            (options, plan)
        })
    })
}

fn run<F: Future>(work: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap().block_on(work)
}

#[test]
fn sources_keep_their_contract() {
    for (options, plan) in cases() {
        let Some(rig) = Rig::new(plan) else { return };
        let path = rig.file_of(&pattern(LEN));
        let bench = rig.engine(options);
        run(read_contract(&Tested::new(&bench, bench.target(&path, false), &path, 128 * KIB), LEN));
        assert_eq!(rig.mock.counters().violations, 0);
    }
}

#[test]
fn sinks_keep_their_contract() {
    for (options, plan) in cases() {
        let Some(rig) = Rig::new(plan) else { return };
        let path = rig.path("sink.bin");
        std::fs::write(&path, []).unwrap();
        let bench = rig.engine(options);
        let sink = Tested::new(&bench, bench.target(&path, true), &path, 128 * KIB);
        run(write_contract(&sink, || async { std::fs::read(&path).unwrap() }));
        assert_eq!(rig.mock.counters().violations, 0);
    }
}
