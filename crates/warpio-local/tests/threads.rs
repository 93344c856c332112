//! What an engine's threads do when there is nothing to do, and when the engine is gone. In a binary of its own, because
//! threads are found by name.

mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use support::engines::{Setup, disk, rings};
use warpio_core::testing::pattern;
use warpio_core::{AsyncDeviceReadExt, Device};
use warpio_local::engine::RingOptions;
use warpio_local::file::LocalFile;
use warpio_local::open::OpenOptions;

const LEN: usize = 1_000_003;

/// The ring threads of this process, and how often each was given a processor.
fn ring_threads() -> BTreeMap<String, u64> {
    let mut threads = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        // A thread may end meanwhile.
        let path = task.unwrap().path();
        let Ok(status) = std::fs::read_to_string(path.join("status")) else { continue };
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t")).unwrap_or("0");
        if field("Name").starts_with("warpio-") && field("Name").contains("uring") || field("Name").contains("tokio-ur")
        {
            let switches = |name| field(name).trim().parse::<u64>().unwrap();
            let count = switches("voluntary_ctxt_switches") + switches("nonvoluntary_ctxt_switches");
            threads.insert(path.display().to_string(), count);
        }
    }
    threads
}

async fn read_once(setup: &Setup) {
    let dir = disk();
    let path = dir.path().join("data.bin");
    std::fs::write(&path, pattern(LEN)).unwrap();
    let file = LocalFile::open(&setup.context(Device::host()), &path, &OpenOptions::new().read(true)).await.unwrap();
    let read = file.read_exact_at(0, Device::host().alloc(LEN).unwrap()).await.unwrap();
    assert!(read.as_slice().unwrap() == pattern(LEN));
}

fn within_a_minute(what: &str, happened: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !happened() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn they_rest_when_idle_and_end_with_the_engine() {
    for setup in rings(&RingOptions { threads: 2, ..RingOptions::default() }) {
        read_once(&setup).await;
        assert_eq!(ring_threads().len(), 2, "{setup:?}");
        // What the last transfer left to do is done when a stretch of time passes without a turn. A thread that polls
        // never lets one pass.
        let quiet = Duration::from_millis(100);
        within_a_minute("a ring thread is never idle", || {
            let before = ring_threads();
            std::thread::sleep(quiet);
            ring_threads() == before
        });
        drop(setup);
        within_a_minute("a ring thread outlives its engine", || ring_threads().is_empty());
    }
}
