//! What an engine costs when there is nothing to do.

use std::collections::BTreeMap;
use std::time::Duration;

use warpio_cufile::{EngineOptions, Route};

use crate::support::{KIB, Rig, finished, until};

/// How often each thread of the engine has gone to sleep or was made to, by its number.
fn switches() -> BTreeMap<u32, (String, u64)> {
    let mut found = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { continue };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(|value| value.trim().to_owned()).unwrap_or_default()
        };
        let (name, id) = (field("Name"), field("Pid"));
        let count = |name: &str| field(name).parse::<u64>().unwrap();
        if name.starts_with("warpio-cufile") {
            let total = count("voluntary_ctxt_switches") + count("nonvoluntary_ctxt_switches");
            found.insert(id.parse().unwrap(), (name, total));
        }
    }
    found
}

#[test]
fn threads_without_work_do_not_run() {
    for route in [Route::Auto, Route::Sync, Route::Batch, Route::Stream] {
        let Some(rig) = Rig::new("mode gds") else { return };
        let path = rig.file(256 * KIB);
        let mut options = EngineOptions::default();
        options.route = route;
        // The one that looks after the others rests after two rounds without work.
        options.stall = Duration::from_millis(40);
        let bench = rig.engine(options);
        let target = bench.target(&path, false);
        for _ in 0..4 {
            finished(bench.read(&target, 0, 256 * KIB));
        }
        let rests = || {
            let before = switches();
            std::thread::sleep(Duration::from_millis(100));
            before == switches()
        };
        assert!(switches().len() >= 3, "the threads are there: {:?}", switches());
        // They come to rest, and stay there.
        until(rests);
        let before = switches();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(before, switches(), "{route:?}");
        // And they still work.
        finished(bench.read(&target, 0, 256 * KIB));
    }
}
