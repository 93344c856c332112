//! Files mapped into memory, as sources.

mod support;

use proptest::prelude::*;
use support::fuse::FaultyFs;
use support::place::{LEN, Place, small_pool, tiny_pool};
use support::{any_ranges, run};
use warpio_core::testing::{FakeGpu, pattern, ranges_contract, read_contract};
use warpio_core::{AsyncDeviceRead, AsyncDeviceReadExt, Device, ErrorKind, PathKind, PoolConfig};
use warpio_local::mmap::{MmapOptions, MmapSource, Protection, Sharing};
use warpio_local::page_cache::drop_range;

/// Where a map begins and how long it is: anywhere, at pages and around them, of one byte and of none.
fn parts() -> impl Strategy<Value = (usize, usize)> {
    let near_pages = (0..LEN / 4096, 0..3usize).prop_map(|(page, more)| (page * 4096 + more).saturating_sub(1));
    let offset = prop_oneof![Just(0), 0..=LEN, near_pages];
    let len = prop_oneof![Just(LEN), 0..=LEN, 0..9000usize];
    (offset, len).prop_map(|(offset, len)| (offset, len.min(LEN - offset)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_ranges_of_any_map_are_read_as_each_by_itself(
        (offset, len) in parts(),
        ranges in any_ranges(LEN),
        gap in prop_oneof![Just(0u64), Just(4096), Just(1 << 30)],
        pool in prop_oneof![3 => Just(small_pool()), 1 => Just(tiny_pool())],
        private in any::<bool>(),
        pin in any::<bool>(),
    ) {
        let sharing = if private { Sharing::Private } else { Sharing::Shared };
        let options = MmapOptions::new().offset(offset as u64).len(len as u64).sharing(sharing);
        run(async || {
            let place = Place { gap, ..Place::new() };
            let content = &place.bytes[offset..offset + len];
            let host = Device::host_with(pool.clone());
            ranges_contract(&place.map(&host, options).await.unwrap(), &host, &ranges, content).await;
            let (gpu, control) = FakeGpu::device(0, pool);
            let map = place.map(&gpu, options).await.unwrap();
            if pin {
                let pinned = map.pin().await.map_err(|error| error.kind());
                let refused = private && len > 0;
                assert_eq!(pinned, if refused { Err(ErrorKind::Unsupported) } else { Ok(()) });
            }
            ranges_contract(&map, &gpu, &ranges, content).await;
            ranges_contract(&map, &host, &ranges, content).await;
            drop(map);
            control.wait_unpinned();
        });
    }
}

#[tokio::test]
async fn a_map_is_read_into_host_and_device_memory() {
    let place = Place::new();
    let (gpu, _control) = FakeGpu::device(0, PoolConfig::default());
    for device in [Device::host(), gpu] {
        let map = place.map(&device, MmapOptions::new()).await.unwrap();
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
    let place = Place::new();
    let (gpu, _control) = FakeGpu::device(0, PoolConfig::default());
    for device in [Device::host(), gpu] {
        read_contract(&place.map(&device, MmapOptions::new()).await.unwrap(), LEN).await;
    }
}

#[tokio::test]
async fn a_part_begins_anywhere_and_ends_where_it_says() {
    let place = Place::new();
    let map = place.map(&Device::host(), MmapOptions::new().offset(4099).len(10_000)).await.unwrap();
    assert_eq!(map.size().await.unwrap(), 10_000);
    assert!(map.read_all().await.unwrap().to_host().await.unwrap()[..] == place.bytes[4099..14_099]);
    for (offset, n) in [(9_990, 10), (10_000, 0), (u64::MAX >> 2, 0)] {
        let read = map.read_at(offset, Device::host().alloc(100).unwrap()).await.unwrap();
        assert_eq!(read.n, n, "at {offset}");
    }
    let rest = place.map(&Device::host(), MmapOptions::new().offset(LEN as u64 - 7)).await.unwrap();
    assert!(rest.read_all().await.unwrap().to_host().await.unwrap()[..] == place.bytes[LEN - 7..]);
    let empty = place.map(&Device::host(), MmapOptions::new().offset(LEN as u64)).await.unwrap();
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
        let error = place.map(&Device::host(), options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{options:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_ranges_of_a_map_are_one_transfer() {
    let place = Place::new();
    let (gpu, _control) = FakeGpu::device(0, small_pool());
    let ranges: Vec<_> = (0..1_000_000u64).map(|n| n * 7919 % 290_000).map(|at| at..at + 2).collect();
    for device in [Device::host_with(small_pool()), gpu] {
        let map = place.map(&device, MmapOptions::new().offset(4099)).await.unwrap();
        let transfer = map.read_ranges(&ranges, device.alloc(2_000_000).unwrap());
        let report = transfer.report();
        let read = transfer.await.unwrap();
        assert!(read.results.iter().all(|result| matches!(result, Ok(2))));
        let bytes = read.buffer.freeze().to_host().await.unwrap();
        let want = ranges.iter().flat_map(|range| &place.bytes[4099 + range.start as usize..4099 + range.end as usize]);
        assert!(bytes.iter().eq(want), "other bytes");
        assert_eq!(report.bytes(PathKind::Mmap), 2_000_000);
    }
    assert_eq!(place.stats.snapshot().finished, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_map_larger_than_all_staging_memory_passes_through_it() {
    let place = Place::new();
    let long = pattern(3 << 20);
    std::fs::write(place.path(), &long).unwrap();
    let ranges = [0..3_000_000, 1_000_000..2_500_000, 10..20, 3_000_000..5_000_000, 77..2_000_000];
    for device in [Device::host_with(small_pool()), FakeGpu::device(0, small_pool()).0] {
        let map = place.map(&device, MmapOptions::new().offset(4097)).await.unwrap();
        ranges_contract(&map, &device, &ranges, &long[4097..]).await;
        assert!(device.staging().stats().allocated <= small_pool().budget);
    }
}

#[tokio::test]
async fn what_cannot_be_mapped_is_refused_and_an_empty_file_is_not() {
    let place = Place::new();
    let open = async |path: &std::path::Path| {
        MmapSource::open(&place.context(&Device::host()), path, MmapOptions::new()).await
    };
    for path in ["/proc/version", "/proc/self/cmdline"] {
        let error = open(path.as_ref()).await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Unsupported, Some("map")), "{error}");
    }
    assert_eq!(open("/dev/null".as_ref()).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(open(place.dir.path()).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(open(&place.path().join("below")).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(open(&place.dir.path().join("none")).await.unwrap_err().kind(), ErrorKind::NotFound);
    place.truncate(0);
    let empty = open(&place.path()).await.unwrap();
    assert_eq!((empty.len(), empty.read_all().await.unwrap().len()), (0, 0));
    ranges_contract(&empty, &Device::host(), &[0..0, 0..10, 5..7], &[]).await;
}

#[tokio::test]
async fn a_file_that_is_cut_short_is_an_error_and_no_signal() {
    let place = Place::new();
    let map = place.map(&Device::host(), MmapOptions::new()).await.unwrap();
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
async fn the_zeros_behind_the_end_of_a_file_that_was_cut_short_are_no_bytes_of_it() {
    let place = Place::new();
    let (gpu, _control) = FakeGpu::device(0, PoolConfig::default());
    for device in [Device::host(), gpu] {
        std::fs::write(place.path(), &place.bytes).unwrap();
        let map = place.map(&device, MmapOptions::new().offset(10).len(50_000)).await.unwrap();
        // In the middle of a page: the rest of it can be read, and is zero.
        place.truncate(10 + 5000);
        for (offset, len, n) in [(0, 5000, Some(5000)), (4990, 10, Some(10)), (4990, 11, None), (5000, 1, None)] {
            let read = map.read_at(offset, device.alloc(len).unwrap()).await;
            let n_or_kind = read.map(|read| read.n).map_err(|failed| failed.error.kind());
            assert_eq!(n_or_kind, n.ok_or(ErrorKind::Changed), "{len} bytes at {offset}");
        }
        let read = map.read_ranges(&[4990..5000, 4995..5001, 5005..5006], device.alloc(17).unwrap()).await.unwrap();
        let results: Vec<_> = read.results.iter().map(|n| n.as_ref().map_err(|error| error.kind()).copied()).collect();
        assert_eq!(results, [Ok(10), Err(ErrorKind::Changed), Err(ErrorKind::Changed)]);
        // It grows again: it is the file that counts.
        place.truncate(LEN as u64);
        let zeros = map.read_exact_at(5000, device.alloc(3).unwrap()).await.unwrap();
        assert!(zeros.freeze().to_host().await.unwrap()[..] == [0; 3]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_cannot_be_read_is_an_error_of_the_ranges_that_need_it() {
    let content = pattern(1 << 20);
    let Some(fs) = FaultyFs::mount(content.clone()) else { return };
    let disk = fs.disk();
    fs.set(|faults| faults.broken = 500_000..500_100);
    let place = Place::new();
    let (gpu, _control) = FakeGpu::device(0, small_pool());
    for device in [Device::host(), gpu] {
        let context = place.context(&device);
        // A file that is not cached can be mapped privately only.
        let private = MmapOptions::new().sharing(Sharing::Private);
        let disk = disk.iter().map(|disk| (disk.path.clone(), MmapOptions::new()));
        for (path, options) in disk.chain([(fs.file(), private)]) {
            drop_range(std::fs::File::open(&path).unwrap(), 0..1 << 20).unwrap();
            let map = MmapSource::open(&context, &path, options).await.unwrap();
            let failed = map.read_at(0, device.alloc(1 << 20).unwrap()).await.unwrap_err();
            assert_eq!((failed.error.kind(), failed.error.os_error()), (ErrorKind::Io, Some(libc::EIO)), "{failed}");
            assert!(failed.buffer.is_some(), "it comes back");
            // The kernel caches many pages as one when it reads in order, and where one of them is broken plain reads of the
            // others fail too: how many depends on the disk's read-ahead, and 128 KiB of it reach the second range.
            drop_range(std::fs::File::open(&path).unwrap(), 0..1 << 20).unwrap();
            // The middle ones share a run, at which the second fails.
            let ranges = [0..100, 490_000..490_100, 499_990..500_010, 800_000..900_000];
            let read = map.read_ranges(&ranges, device.alloc(100_220).unwrap()).await.unwrap();
            let results: Vec<_> =
                read.results.iter().map(|n| n.as_ref().map_err(|error| error.kind()).copied()).collect();
            assert_eq!(results, [Ok(100), Ok(100), Err(ErrorKind::Io), Ok(100_000)], "{}", path.display());
            let bytes = read.buffer.freeze().to_host().await.unwrap();
            assert!(bytes[100..200] == content[490_000..490_100] && bytes[220..] == content[800_000..900_000]);
        }
    }
}

#[tokio::test]
async fn a_map_outlives_its_source_for_as_long_as_its_transfers_run() {
    let place = Place::new();
    let (gpu, control) = FakeGpu::device(0, PoolConfig::default());
    control.hold();
    let map = place.map(&gpu, MmapOptions::new()).await.unwrap();
    let transfer = map.read_exact_at(0, gpu.alloc(LEN).unwrap());
    drop(map);
    control.release();
    assert!(transfer.await.unwrap().freeze().to_host().await.unwrap()[..] == place.bytes);
    place.stats.idle().await;
}

#[tokio::test]
async fn many_ranges_of_a_map_that_was_cut_short_fail_alone() {
    let place = Place::new();
    let (gpu, _control) = FakeGpu::device(0, PoolConfig::default());
    for device in [Device::host(), gpu] {
        std::fs::write(place.path(), &place.bytes).unwrap();
        let map = place.map(&device, MmapOptions::new()).await.unwrap();
        place.truncate(100_000);
        // The last two are one run, which fails as a whole; and some are behind the end of the map.
        let len = LEN as u64;
        let ranges = [
            0..10,
            250_000..250_010,
            len - 3..len + 3,
            len + 9..len + 12,
            5000..9000,
            99_990..100_000,
            100_001..100_002,
        ];
        let total = ranges.iter().map(|range| range.end - range.start).sum::<u64>() as usize;
        let read = map.read_ranges(&ranges, device.alloc(total).unwrap()).await.unwrap();
        let results: Vec<_> = read.results.iter().map(|n| n.as_ref().map_err(|error| error.kind()).copied()).collect();
        let changed = Err(ErrorKind::Changed);
        assert_eq!(results, [Ok(10), changed, changed, Ok(0), Ok(4000), Ok(10), changed]);
        let bytes = read.buffer.freeze().to_host().await.unwrap();
        assert!(bytes[29..4029] == place.bytes[5000..9000] && bytes[4029..4039] == place.bytes[99_990..100_000]);
    }
}

#[tokio::test]
async fn maps_are_private_writable_and_populated_if_asked() {
    let place = Place::new();
    let options = MmapOptions::new().protection(Protection::ReadWrite);
    for options in [options, options.sharing(Sharing::Private), MmapOptions::new().populate(true)] {
        let map = place.map(&Device::host(), options).await.unwrap();
        assert!(map.read_all().await.unwrap().to_host().await.unwrap()[..] == place.bytes, "{options:?}");
    }
    let path = place.path();
    let mut mode = std::fs::metadata(&path).unwrap().permissions();
    mode.set_readonly(true);
    std::fs::set_permissions(&path, mode).unwrap();
    if std::fs::File::options().write(true).open(&path).is_err() {
        let error = place.map(&Device::host(), options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        place.map(&Device::host(), options.sharing(Sharing::Private)).await.unwrap();
    }
}

/// What is mapped cannot leave the page cache, nor its file system be unmounted.
#[tokio::test(flavor = "multi_thread")]
async fn a_map_is_gone_when_its_source_and_its_last_transfer_are() {
    let place = Place::new();
    let (gpu, _control) = FakeGpu::device(0, small_pool());
    let mapped = || std::fs::read_to_string("/proc/self/maps").unwrap().contains(place.path().to_str().unwrap());
    for round in 0..200 {
        for device in [Device::host(), gpu.clone()] {
            let map = place.map(&device, MmapOptions::new()).await.unwrap();
            assert!(mapped());
            match round % 2 {
                0 => _ = map.read_exact_at(0, device.alloc(LEN).unwrap()).await.unwrap(),
                _ => {
                    let ranges: Vec<_> = (0..LEN as u64).step_by(10_000).map(|at| at..at + 100).collect();
                    map.read_ranges_exact(&ranges, device.alloc(3000).unwrap()).await.unwrap();
                }
            }
            drop(map);
            assert!(!mapped(), "round {round}");
        }
    }
}

/// Pages that are read in must not become copies, which would never see a change of the file.
#[tokio::test]
async fn a_private_map_that_is_populated_still_shows_the_file() {
    for protection in [Protection::Read, Protection::ReadWrite] {
        let place = Place::new();
        let options = MmapOptions::new().sharing(Sharing::Private).protection(protection).populate(true);
        let map = place.map(&Device::host(), options).await.unwrap();
        let file = std::fs::File::options().write(true).open(place.path()).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[0xA5; 5000], 10_000).unwrap();
        let bytes = map.read_exact_at(10_000, Device::host().alloc(5000).unwrap()).await.unwrap();
        assert!(bytes.freeze().to_host().await.unwrap()[..] == [0xA5; 5000], "{protection:?}");
    }
}
