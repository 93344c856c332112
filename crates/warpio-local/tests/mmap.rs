//! Files mapped into memory, as sources.

mod support;

use std::sync::Arc;

use tempfile::TempDir;
use tokio::runtime::Handle;
use warpio_core::engine::Stats;
use warpio_core::plan::Split;
use warpio_core::testing::{FakeGpu, pattern, read_contract};
use warpio_core::{AsyncDeviceRead, AsyncDeviceReadExt, Device, ErrorKind, PathKind, PoolConfig};
use warpio_local::engine::{AutoEngine, DirectPolicy, DirectThreads, PosixEngine};
use warpio_local::file::FileContext;
use warpio_local::mmap::{MmapOptions, MmapSource};

const LEN: usize = 300_000;

struct Place {
    dir: TempDir,
    bytes: Vec<u8>,
    stats: Stats,
}

impl Place {
    fn new() -> Self {
        let (dir, bytes) = (support::disk_dir(), support::pattern(LEN));
        support::file_with(&dir.path().join("data.bin"), &bytes);
        Self { dir, bytes, stats: Stats::default() }
    }

    async fn open(&self, device: &Device, options: MmapOptions) -> warpio_core::Result<MmapSource> {
        let threads = Arc::new(DirectThreads::start(1).unwrap());
        let copies = PosixEngine::start_beside(3, Some(threads.clone())).unwrap();
        let context = FileContext {
            engine: Arc::new(AutoEngine::new(copies, threads)),
            split: Split::new(16 << 10).unwrap(),
            device: device.clone(),
            handle: Handle::current(),
            stats: self.stats.clone(),
            policy: DirectPolicy::default(),
            gap: 4096,
        };
        MmapSource::open(&context, self.dir.path().join("data.bin"), options).await
    }

    fn truncate(&self, len: u64) {
        std::fs::File::options().write(true).open(self.dir.path().join("data.bin")).unwrap().set_len(len).unwrap();
    }
}

#[tokio::test]
async fn a_map_is_read_into_host_and_device_memory() {
    let place = Place::new();
    let (gpu, _control) = FakeGpu::device(0, PoolConfig::default());
    for device in [Device::host(), gpu] {
        let map = place.open(&device, MmapOptions::new()).await.unwrap();
        let transfer = map.read_exact_at(5, device.alloc(LEN - 5).unwrap());
        let report = transfer.report();
        assert!(transfer.await.unwrap().freeze().to_host().await.unwrap()[..] == place.bytes[5..]);
        assert_eq!(report.paths().collect::<Vec<_>>(), [(PathKind::Mmap, (LEN - 5) as u64)]);
        let ranges = [9..9000, 0..3, 5000..5001];
        let many = map.read_ranges_exact(&ranges, device.alloc(8995).unwrap()).await.unwrap();
        let want: Vec<u8> =
            ranges.iter().flat_map(|r| &place.bytes[r.start as usize..r.end as usize]).copied().collect();
        assert!(many.freeze().to_host().await.unwrap()[..] == want);
    }
}

#[tokio::test]
async fn maps_pass_the_suite_of_sources() {
    let place = Place { bytes: pattern(LEN), ..Place::new() };
    std::fs::write(place.dir.path().join("data.bin"), &place.bytes).unwrap();
    let (gpu, _control) = FakeGpu::device(0, PoolConfig::default());
    for device in [Device::host(), gpu] {
        read_contract(&place.open(&device, MmapOptions::new()).await.unwrap(), LEN).await;
    }
}

#[tokio::test]
async fn a_part_begins_anywhere_and_ends_where_it_says() {
    let place = Place::new();
    let map = place.open(&Device::host(), MmapOptions::new().offset(4099).len(10_000)).await.unwrap();
    assert_eq!(map.size().await.unwrap(), 10_000);
    assert!(map.read_all().await.unwrap().to_host().await.unwrap()[..] == place.bytes[4099..14_099]);
    for (offset, n) in [(9_990, 10), (10_000, 0), (u64::MAX >> 2, 0)] {
        let read = map.read_at(offset, Device::host().alloc(100).unwrap()).await.unwrap();
        assert_eq!(read.n, n, "at {offset}");
    }
    let rest = place.open(&Device::host(), MmapOptions::new().offset(LEN as u64 - 7)).await.unwrap();
    assert!(rest.read_all().await.unwrap().to_host().await.unwrap()[..] == place.bytes[LEN - 7..]);
    let empty = place.open(&Device::host(), MmapOptions::new().offset(LEN as u64)).await.unwrap();
    assert_eq!(empty.read_at(0, Device::host().alloc(5).unwrap()).await.unwrap().n, 0);
}

#[tokio::test]
async fn a_part_that_is_not_there_is_refused() {
    let place = Place::new();
    let len = LEN as u64;
    let wrong = [
        MmapOptions::new().offset(len + 1),
        MmapOptions::new().offset(len).len(1),
        MmapOptions::new().len(len + 1),
        MmapOptions::new().offset(1).len(u64::MAX),
    ];
    for options in wrong {
        let error = place.open(&Device::host(), options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{options:?}");
    }
}

#[tokio::test]
async fn a_file_that_is_cut_short_is_an_error_and_no_signal() {
    let place = Place::new();
    let map = place.open(&Device::host(), MmapOptions::new()).await.unwrap();
    place.truncate(100_000);
    for (offset, len) in [(0, LEN), (99_999, 2), (290_000, 10)] {
        let failed = map.read_at(offset, Device::host().alloc(len).unwrap()).await.unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Changed, "{}", failed.error);
        assert!(failed.buffer.is_some());
    }
    let bytes = map.read_exact_at(0, Device::host().alloc(100_000).unwrap()).await.unwrap();
    assert!(bytes.as_slice().unwrap() == &place.bytes[..100_000]);
}

#[tokio::test]
async fn a_map_outlives_its_source_for_as_long_as_its_transfers_run() {
    let place = Place::new();
    let (gpu, control) = FakeGpu::device(0, PoolConfig::default());
    control.hold();
    let map = place.open(&gpu, MmapOptions::new()).await.unwrap();
    let transfer = map.read_exact_at(0, gpu.alloc(LEN).unwrap());
    drop(map);
    control.release();
    assert!(transfer.await.unwrap().freeze().to_host().await.unwrap()[..] == place.bytes);
    place.stats.idle().await;
}
