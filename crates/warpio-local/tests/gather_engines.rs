//! Reads of many ranges by every engine in each of its modes, cached or not: they give what reading each range by itself
//! gives.

mod support;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rustix::fs::{Advice, fadvise};
use support::any_ranges;
use support::engines::{Setup, disk, memory, setups};
use support::place::{small_pool, tiny_pool};
use warpio_core::config::DirectIo;
use warpio_core::testing::{FakeGpu, ranges_contract};
use warpio_core::{AsyncDeviceRead, Device, PathKind, PoolConfig};
use warpio_local::engine::{DirectPolicy, Mode, RingOptions};
use warpio_local::file::LocalFile;
use warpio_local::open::OpenOptions;

const LEN: usize = 700_001;

fn cached_pages(file: &LocalFile) -> u64 {
    warpio_local::page_cache::residency(file, 0..LEN as u64).unwrap().pages
}

async fn open(setup: &Setup, device: &Device, path: &std::path::Path, read: DirectIo) -> LocalFile {
    let policy = DirectPolicy { read, ..DirectPolicy::default() };
    let context = warpio_local::file::FileContext { policy, ..setup.context(device.clone()) };
    LocalFile::open(&context, path, &OpenOptions::new().read(true).write(true)).await.unwrap()
}

#[test]
fn every_engine_reads_any_ranges() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut runner = TestRunner::default();
    let bytes = support::pattern(LEN);
    tokio.block_on(async {
        for dir in [disk(), memory()] {
            let path = dir.path().join("data.bin");
            support::file_with(&path, &bytes);
            for setup in setups(&RingOptions { depth: 16, ..RingOptions::default() }) {
                for policy in [DirectIo::Auto, DirectIo::Always, DirectIo::Never] {
                    // An engine that takes no reads of many ranges, and asks for alignment, has to have room for that.
                    let pools = [small_pool(), tiny_pool()];
                    let pools = if setup.mode == Mode::Direct { &pools[..1] } else { &pools };
                    let devices =
                        |pool: &PoolConfig| [Device::host_with(pool.clone()), FakeGpu::device(0, pool.clone()).0];
                    for device in pools.iter().flat_map(devices) {
                        let file = open(&setup, &device, &path, policy).await;
                        let cached = runner.rng().next_u32() % LEN as u32;
                        std::fs::File::open(&path).unwrap().sync_all().unwrap();
                        // A part of it has to come from the disk.
                        fadvise(&file, u64::from(cached), None, Advice::DontNeed).unwrap();
                        let ranges = any_ranges(LEN).new_tree(&mut runner).unwrap().current();
                        println!(
                            "{setup:?}, {policy:?}, on {device} with {:?}, cached up to {cached}: {ranges:?}",
                            device.staging()
                        );
                        ranges_contract(&file, &device, &ranges, &bytes).await;
                    }
                }
            }
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_cached_goes_past_the_cache_and_the_rest_comes_out_of_it() {
    let dir = disk();
    let path = dir.path().join("data.bin");
    let bytes = support::pattern(LEN);
    support::file_with(&path, &bytes);
    std::fs::File::open(&path).unwrap().sync_all().unwrap();
    for setup in setups(&RingOptions::default()).into_iter().filter(|setup| setup.mode == Mode::Buffered) {
        let (gpu, _control) = FakeGpu::device(0, PoolConfig::default());
        for device in [Device::host(), gpu] {
            let file = open(&setup, &device, &path, DirectIo::Auto).await;
            if !setup.engine.gathers() || file.describe().engine == "posix" {
                continue;
            }
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            fadvise(&file, 0, None, Advice::Random).unwrap();
            let mut page = [0; 4096];
            for at in (0..40).map(|n| n * 8192) {
                assert_eq!(rustix::io::pread(&file, &mut page, at).unwrap(), 4096);
            }
            let cached = cached_pages(&file);
            let ranges: Vec<_> = (0..80u64).rev().map(|n| n * 4096 + 5..n * 4096 + 4000).collect();
            let transfer = file.read_ranges(&ranges, device.alloc(80 * 3995).unwrap());
            let report = transfer.report();
            let read = transfer.await.unwrap();
            assert!(read.results.iter().all(|result| matches!(result, Ok(3995))));
            if report.bytes(PathKind::Direct) == 0 {
                support::skipped("this file system has no direct I/O");
                return;
            }
            assert_eq!(report.bytes(PathKind::Direct) + report.bytes(PathKind::PageCache), 80 * 3995);
            // A page that was tried before it was asked about may have been read into the cache.
            assert!(cached_pages(&file) <= cached + 2, "what went past the cache is cached now");
            println!("{setup:?}, on {device}");
            ranges_contract(&file, &device, &ranges, &bytes).await;
        }
    }
}
