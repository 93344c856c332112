//! Which way bytes take when it is left to the engine: cached ones through the page cache, others past it, in one
//! transfer, and always the right bytes.

mod support;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};

use support::engines::{disk, memory};
use support::evicted::{Evicted, kept, still_kept, undisturbed_async};
use tempfile::TempDir;
use tokio::runtime::Handle;
use warpio_core::config::DirectIo;
use warpio_core::engine::{Batch, Engine, Stats};
use warpio_core::plan::Split;
use warpio_core::testing::{FakeGpu, pattern};
use warpio_core::{
    AsyncDeviceRead, AsyncDeviceReadExt, AsyncDeviceWrite, Device, DeviceBytes, Moved, PathKind, PoolConfig,
};
use warpio_local::engine::{AutoEngine, DirectPolicy, DirectThreads, PosixEngine, RingOptions, UringEngine};
use warpio_local::file::{FileContext, LocalFile};
use warpio_local::open::OpenOptions;
use warpio_local::page_cache::{drop_range, residency};

const MIB: usize = 1 << 20;
const LEN: usize = 8 * MIB + 777;

fn engines() -> Vec<Arc<dyn Engine>> {
    let uring: Arc<dyn Engine> = Arc::new(UringEngine::start(&RingOptions::default()).unwrap());
    let threads: Arc<dyn Engine> = Arc::new(DirectThreads::start(2).unwrap());
    let auto = |uncached: Arc<dyn Engine>| -> Arc<dyn Engine> {
        let copies = PosixEngine::start_beside(2, Some(uncached.clone())).unwrap();
        Arc::new(AutoEngine::new(copies, uncached))
    };
    vec![auto(uring), auto(threads)]
}

fn context(engine: &Arc<dyn Engine>, device: Device, policy: DirectPolicy) -> FileContext {
    let split = Split::new(MIB).unwrap();
    FileContext {
        engine: engine.clone(),
        split,
        device,
        handle: Handle::current(),
        stats: Stats::default(),
        policy,
        gap: 4096,
    }
}

fn devices() -> [Device; 2] {
    let pool = PoolConfig { budget: 8 * MIB, slot_len: MIB, small_slot_len: 16 << 10, slab_len: 2 * MIB };
    [Device::host(), FakeGpu::device(0, pool).0]
}

/// A file that is in the page cache and on the disk.
fn file_in(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("data.bin");
    std::fs::write(&path, content()).unwrap();
    File::open(&path).unwrap().sync_all().unwrap();
    path
}

fn cool(path: &Path, range: Range<u64>) {
    let left = drop_range(File::open(path).unwrap(), range.clone()).unwrap();
    assert_eq!(left.pages, 0, "{range:?} is still cached");
}

fn cache_the_first_half_of_every_mib(path: &Path) {
    let file = File::open(path).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    let mut half = vec![0; MIB / 2];
    (0..8).for_each(|i| file.read_exact_at(&mut half, i * MIB as u64).unwrap());
}

/// The content of the file.
fn content() -> &'static [u8] {
    static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| pattern(LEN));
    &CONTENT
}

/// Reads it all, checks it, and returns the bytes that went past the cache and through it.
async fn read(file: &LocalFile, offset: usize, len: usize) -> (u64, u64) {
    let transfer = file.read_at(offset as u64, file.device().alloc(len).unwrap());
    let report = transfer.report();
    let Moved { n, buffer } = transfer.await.unwrap();
    let want = &content()[offset.min(LEN)..LEN.min(offset + len)];
    assert_eq!(n, want.len());
    assert!(buffer.freeze().to_host().await.unwrap()[..n] == *want, "wrong bytes");
    (report.bytes(PathKind::Direct), report.bytes(PathKind::PageCache))
}

async fn open(context: &FileContext, path: &Path) -> LocalFile {
    LocalFile::open(context, path, &OpenOptions::new().read(true)).await.unwrap()
}

/// As [`for_each`], for tests that count on cached pages: they run again where the kernel evicted some.
#[expect(clippy::future_not_send, reason = "it is awaited where it is made")]
async fn for_each_kept(policy: DirectPolicy, test: impl AsyncFn(&LocalFile, &Path) -> Result<(), Evicted>) {
    for_each(policy, disk(), async |file, path| undisturbed_async(|| test(file, path)).await).await;
}

async fn for_each(policy: DirectPolicy, dir: TempDir, test: impl AsyncFn(&LocalFile, &Path)) {
    let path = file_in(&dir);
    for engine in engines() {
        for device in devices() {
            let file = open(&context(&engine, device, policy), &path).await;
            test(&file, &path).await;
        }
    }
}

fn reads(read: DirectIo) -> DirectPolicy {
    DirectPolicy { read, ..DirectPolicy::default() }
}

#[tokio::test]
async fn a_cached_file_comes_from_the_cache() {
    for_each_kept(reads(DirectIo::Auto), async |file, path| {
        std::fs::read(path).unwrap();
        let (whole, page, end) =
            (read(file, 0, LEN).await, read(file, 5, 4096).await, read(file, LEN - 10, 4096).await);
        still_kept(File::open(path).unwrap(), 0..LEN as u64)?;
        assert_eq!((whole, page, end), ((0, LEN as u64), (0, 4096), (0, 10)));
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_cold_file_comes_past_the_cache_and_leaves_it_cold() {
    for_each(reads(DirectIo::Auto), disk(), async |file, path| {
        cool(path, 0..LEN as u64);
        assert_eq!(read(file, 0, LEN).await, (LEN as u64, 0));
        let cached = residency(File::open(path).unwrap(), 0..LEN as u64).unwrap();
        assert_eq!(cached.pages, 0, "nothing was cached on the way");
    })
    .await;
}

#[tokio::test]
async fn small_cold_reads_come_past_the_cache() {
    for_each(reads(DirectIo::Auto), disk(), async |file, path| {
        cool(path, 0..LEN as u64);
        assert_eq!(read(file, 3 * MIB, 4096).await, (4096, 0));
        assert_eq!(read(file, 5 * MIB + 3, 100).await, (100, 0));
        assert_eq!(read(file, LEN - 3, 100).await, (3, 0));
    })
    .await;
}

#[tokio::test]
async fn a_half_cached_file_comes_both_ways() {
    for_each_kept(reads(DirectIo::Auto), async |file, path| {
        std::fs::read(path).unwrap();
        cool(path, (4 * MIB) as u64..LEN as u64);
        let (direct, cached) = read(file, 0, LEN).await;
        still_kept(File::open(path).unwrap(), 0..LEN as u64)?;
        assert_eq!((direct, cached), ((LEN - 4 * MIB) as u64, (4 * MIB) as u64));
        Ok(())
    })
    .await;
}

/// Carries out what another engine would, and counts the segments of each batch.
#[derive(Debug)]
struct Counting {
    inner: DirectThreads,
    batches: Mutex<Vec<usize>>,
}

impl Engine for Counting {
    fn submit(&self, batch: Batch) {
        self.batches.lock().unwrap().push(batch.segments().len());
        self.inner.submit(batch);
    }

    fn name(&self) -> &'static str {
        "counting"
    }
}

#[tokio::test]
async fn what_is_cold_of_a_large_read_is_asked_for_first_and_at_once() {
    let dir = disk();
    let path = file_in(&dir);
    let cold = Arc::new(Counting { inner: DirectThreads::start(1).unwrap(), batches: Mutex::default() });
    let copies = PosixEngine::start_beside(1, Some(cold.clone())).unwrap();
    let engine: Arc<dyn Engine> = Arc::new(AutoEngine::new(copies, cold.clone()));
    let context = FileContext {
        split: Split::new(MIB / 16).unwrap(),
        ..context(&engine, Device::host(), DirectPolicy::default())
    };
    let file = open(&context, &path).await;
    let asked_for = || std::mem::take(&mut *cold.batches.lock().unwrap());
    undisturbed_async(async || {
        std::fs::read(&path).unwrap();
        cool(&path, 4 * MIB as u64..LEN as u64);
        asked_for();
        read(&file, 0, LEN).await;
        let of_all = asked_for();
        read(&file, 0, 4 * MIB).await;
        let of_cached = asked_for();
        still_kept(File::open(&path).unwrap(), 0..LEN as u64)?;
        // 4 MiB and 777 bytes in sixteenths; what is cached as a whole asks for nothing.
        assert_eq!((of_all, of_cached), (vec![65], vec![]));
        Ok(())
    })
    .await;
    cool(&path, 0..LEN as u64);
    read(&file, 0, 4 * MIB).await;
    assert_eq!(asked_for(), [64]);
}

#[tokio::test]
async fn a_segment_whose_end_is_cold_is_cut() {
    for_each(reads(DirectIo::Auto), disk(), async |file, path| {
        cool(path, 0..LEN as u64);
        cache_the_first_half_of_every_mib(path);
        let (direct, cached) = read(file, 0, LEN).await;
        assert_eq!(direct + cached, LEN as u64);
        // What is cached in front of a hole is taken; a file system may cache a little more than it was asked for.
        assert!(direct > (2 * MIB) as u64 && cached > (2 * MIB) as u64, "{direct} direct, {cached} cached");
    })
    .await;
}

#[tokio::test]
async fn always_goes_past_a_warm_cache() {
    for_each(reads(DirectIo::Always), disk(), async |file, path| {
        std::fs::read(path).unwrap();
        assert_eq!(read(file, 0, LEN).await, (LEN as u64, 0));
        assert_eq!(read(file, 1, 4096).await, (4096, 0));
    })
    .await;
}

#[tokio::test]
async fn never_goes_through_a_cold_cache() {
    for_each(reads(DirectIo::Never), disk(), async |file, path| {
        cool(path, 0..LEN as u64);
        assert_eq!(read(file, 0, LEN).await, (0, LEN as u64));
    })
    .await;
}

#[tokio::test]
async fn a_file_system_in_memory_is_always_cached() {
    for_each(reads(DirectIo::Auto), memory(), async |file, _| {
        assert_eq!(read(file, 0, LEN).await, (0, LEN as u64));
        assert_eq!(read(file, 7, 100).await, (0, 100));
    })
    .await;
}

#[tokio::test]
async fn small_reads_of_a_file_in_memory_are_cached_ones_over_data_holes_and_the_end() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("holes.bin");
    let file = File::create(&path).unwrap();
    file.write_all_at(content(), 0).unwrap();
    file.set_len(2 * LEN as u64).unwrap();
    for policy in [reads(DirectIo::Auto), reads(DirectIo::Always)] {
        for engine in engines() {
            for device in devices() {
                let file = open(&context(&engine, device, policy), &path).await;
                for offset in [0, 5, 4095, LEN - 3000] {
                    let reading = file.read_exact_at(offset as u64, file.device().alloc(3000).unwrap());
                    let bytes = reading.await.unwrap().freeze().to_host().await.unwrap();
                    assert!(bytes == content()[offset..offset + 3000], "{offset}");
                    assert_eq!(read(&file, offset, 3000).await, (0, 3000), "nothing goes past the cache");
                }
                let hole = file.read_exact_at(LEN as u64 + 9000, file.device().alloc(5000).unwrap());
                assert!(hole.await.unwrap().freeze().to_host().await.unwrap() == [0; 5000][..]);
                let end = file.read_at(2 * LEN as u64 - 10, file.device().alloc(50).unwrap()).await.unwrap();
                assert_eq!(end.n, 10);
            }
        }
    }
}

#[tokio::test]
async fn writes_go_through_the_cache_or_past_it_as_they_are_told() {
    let dir = disk();
    for engine in engines() {
        for device in devices() {
            for (write, direct) in [(DirectIo::Auto, false), (DirectIo::Never, false), (DirectIo::Always, true)] {
                let policy = DirectPolicy { write, ..DirectPolicy::default() };
                let path = dir.path().join("written.bin");
                let options = OpenOptions::new().read(true).write(true).create(true).truncate(true);
                let file = LocalFile::open(&context(&engine, device.clone(), policy), &path, &options).await.unwrap();
                let data: DeviceBytes = device.upload(content()).await.unwrap().into();
                let transfer = file.write_at(0, data);
                let report = transfer.report();
                transfer.await.unwrap();
                assert!(std::fs::read(&path).unwrap() == content(), "wrong bytes");
                // The end of the file is no whole page, so a little always goes through the cache.
                assert_eq!(report.bytes(PathKind::Direct) > 8 * MIB as u64 - 1, direct, "{write}");
            }
        }
    }
}

#[tokio::test]
async fn what_was_not_cached_can_leave_the_cache_again() {
    let policy = DirectPolicy { read: DirectIo::Never, leave_clean: true, ..DirectPolicy::default() };
    for_each_kept(policy, async |file, path| {
        cool(path, 0..LEN as u64);
        assert_eq!(read(file, 0, LEN).await, (0, LEN as u64));
        let left = residency(File::open(path).unwrap(), 0..LEN as u64).unwrap();
        assert!(left.fraction() < 0.1, "{left:?}");
        std::fs::read(path).unwrap();
        assert_eq!(read(file, 0, LEN).await, (0, LEN as u64));
        let left = kept(residency(File::open(path).unwrap(), 0..LEN as u64))?;
        assert!(left.is_full(), "what was cached before stays: {left:?}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn what_was_written_can_leave_the_cache() {
    let dir = disk();
    for engine in engines() {
        let policy = DirectPolicy { leave_clean: true, ..DirectPolicy::default() };
        let path = dir.path().join("written.bin");
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(true);
        let file = LocalFile::open(&context(&engine, Device::host(), policy), &path, &options).await.unwrap();
        file.write_at(0, Device::host().upload(content()).await.unwrap().into()).await.unwrap();
        let left = residency(File::open(&path).unwrap(), 0..LEN as u64).unwrap();
        assert!(left.fraction() < 0.1, "{left:?}");
        assert!(std::fs::read(&path).unwrap() == content(), "wrong bytes");
    }
}
