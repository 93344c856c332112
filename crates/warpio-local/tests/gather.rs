//! Reads of many ranges: whatever the ranges, they give what reading each by itself gives.

mod support;

use std::ops::Range;
use std::time::Instant;

use proptest::prelude::*;
use rustix::fs::{Advice, fadvise};
use support::place::{LEN, Place, small_pool, tiny_pool};
use support::{any_ranges, run};
use warpio_core::config::DirectIo;
use warpio_core::testing::{FakeGpu, GpuControl, ranges_contract};
use warpio_core::{AsyncDeviceRead, AsyncDeviceReadExt, Device, DeviceBytesMut, ErrorKind, PathKind};
use warpio_local::engine::DirectPolicy;
use warpio_local::file::LocalFile;
use warpio_local::open::OpenOptions;

fn gpu() -> (Device, GpuControl) {
    FakeGpu::device(0, small_pool())
}

impl Place {
    async fn open(&self, device: &Device) -> LocalFile {
        let options = OpenOptions::new().read(true).write(true);
        LocalFile::open(&self.context(device), self.path(), &options).await.unwrap()
    }

    /// What a range holds, as far as the file reaches.
    fn want(&self, range: &Range<u64>) -> &[u8] {
        let at = |offset: u64| (offset as usize).min(LEN);
        &self.bytes[at(range.start)..at(range.end)]
    }

    async fn check(&self, file: &LocalFile, ranges: &[Range<u64>]) {
        ranges_contract(file, file.device(), ranges, &self.bytes).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_ranges_are_read_as_each_by_itself(
        ranges in any_ranges(LEN),
        gap in prop_oneof![Just(0u64), Just(4096), Just(1 << 30)],
        pool in prop_oneof![3 => Just(small_pool()), 1 => Just(tiny_pool())],
    ) {
        run(async || {
            let place = Place { gap, ..Place::new() };
            for device in [Device::host_with(pool.clone()), FakeGpu::device(0, pool.clone()).0] {
                place.check(&place.open(&device).await, &ranges).await;
            }
        });
    }
}

#[test]
fn what_is_not_cached_is_read_too_and_forgotten_if_asked() {
    run(async || {
        for leave_clean in [false, true] {
            let policy = DirectPolicy { leave_clean, ..DirectPolicy::default() };
            let place = Place { policy, ..Place::new() };
            let file = place.open(&gpu().0).await;
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            let ranges: Vec<_> = (0..70).map(|n| n * 4096 + 100..n * 4096 + 3000).rev().collect();
            place.check(&file, &ranges).await;
        }
    });
}

#[test]
fn files_that_are_read_past_the_cache_are_so_for_many_ranges() {
    run(async || {
        let policy = DirectPolicy { read: DirectIo::Always, ..DirectPolicy::default() };
        let place = Place { policy, ..Place::new() };
        let file = place.open(&Device::host()).await;
        place.check(&file, &[4096..8192, 10..20, 0..5000]).await;
    });
}

#[test]
fn a_hundred_thousand_ranges_are_one_transfer() {
    run(async || {
        let place = Place::new();
        for device in [Device::host_with(small_pool()), gpu().0] {
            let file = place.open(&device).await;
            let ranges: Vec<_> = (0..100_000u64).map(|n| n * 7919 % 290_000).map(|at| at..at + 5).collect();
            let transfer = file.read_ranges(&ranges, device.alloc(500_000).unwrap());
            let report = transfer.report();
            let read = transfer.await.unwrap();
            assert!(read.results.iter().all(|result| matches!(result, Ok(5))));
            let bytes = read.buffer.freeze().to_host().await.unwrap();
            let want = ranges.iter().flat_map(|range| place.want(range));
            assert!(bytes.iter().eq(want), "other bytes");
            assert_eq!(report.bytes(PathKind::PageCache), 500_000);
        }
        assert_eq!(place.stats.snapshot().finished, 2);
    });
}

#[test]
fn a_hundred_thousand_times_the_same_range_fits_in_small_slots() {
    run(async || {
        let place = Place::new();
        let (device, control) = gpu();
        let file = place.open(&device).await;
        let buffer = device.alloc(300_000).unwrap();
        let copies = control.copies();
        let bytes = file.read_ranges_exact(&vec![1000..1003; 100_000], buffer).await.unwrap().freeze();
        assert!(bytes.to_host().await.unwrap().chunks(3).all(|three| *three == place.bytes[1000..1003]));
        assert!(control.copies() > copies);
    });
}

#[test]
fn a_range_that_no_file_can_hold_fails_alone() {
    run(async || {
        let place = Place::new();
        for device in [Device::host(), gpu().0] {
            let file = place.open(&device).await;
            let far = u64::MAX - 100;
            let ranges = [0..10, far..far + 50, LEN as u64 - 5..LEN as u64 + 5, LEN as u64 + 7..LEN as u64 + 9];
            let results = file.read_ranges(&ranges, device.alloc(72).unwrap()).await.unwrap().results;
            assert_eq!(*results[0].as_ref().unwrap(), 10);
            let error = results[1].as_ref().unwrap_err();
            assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidInput, Some("read")), "{error}");
            assert_eq!((error.offset(), error.length()), (Some(far), Some(50)), "{error}");
            assert!(error.source_name().is_some_and(|name| name.ends_with("data.bin")), "{error}");
            assert_eq!((results[2].as_ref().unwrap(), results[3].as_ref().unwrap()), (&5, &0));

            let alloc = |len| device.alloc(len).unwrap();
            let results = file.read_scatter(vec![(u64::MAX - 3, alloc(10)), (5, alloc(5))]).await.unwrap().results;
            assert_eq!(results[0].as_ref().unwrap_err().kind(), ErrorKind::InvalidInput);
            assert_eq!(*results[1].as_ref().unwrap(), 5);
        }
    });
}

#[test]
fn nothing_to_read_is_read() {
    run(async || {
        let place = Place::new();
        let file = place.open(&Device::host()).await;
        let read = file.read_ranges(&[], Device::host().alloc(3).unwrap()).await.unwrap();
        assert_eq!((read.results.len(), read.buffer.len()), (0, 3));
        assert!(file.read_scatter(Vec::new()).await.unwrap().buffers.is_empty());
        let ends = [5..5, u64::MAX..u64::MAX];
        let read = file.read_ranges(&ends, DeviceBytesMut::from(Vec::new())).await.unwrap();
        assert!(read.results.iter().all(|result| matches!(result, Ok(0))));
    });
}

#[test]
fn what_cannot_be_read_comes_back_at_once() {
    run(async || {
        let place = Place::new();
        let file = place.open(&Device::host()).await;
        #[allow(clippy::reversed_empty_ranges)]
        for ranges in [vec![0..100, 7..3], vec![0..100, 0..1]] {
            let failed = file.read_ranges(&ranges, Device::host().alloc(100).unwrap()).await.unwrap_err();
            assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
            assert_eq!(failed.buffer.unwrap().len(), 100);
        }
        let (other, _control) = FakeGpu::device(1, small_pool());
        let failed = file.read_ranges(&[0..1, 5..5], other.alloc(1).unwrap()).await.unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
        place.stats.close();
        let failed = file.read_ranges(&[0..1, 5..5], Device::host().alloc(1).unwrap()).await.unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Gone);
    });
}

#[test]
fn a_dropped_read_keeps_its_memory_until_the_copies_are_done() {
    run(async || {
        let place = Place::new();
        let (device, control) = gpu();
        let file = place.open(&device).await;
        control.hold();
        let before = control.allocations();
        let ranges: Vec<_> = (0..60).map(|n| n * 4999..n * 4999 + 3000).collect();
        let transfer = file.read_ranges(&ranges, device.alloc(180_000).unwrap());
        // Dropped before that, it would keep nothing.
        control.wait_queued();
        drop(transfer);
        assert_eq!(control.allocations(), before + 1);
        control.release();
        place.stats.idle().await;
        control.wait_freed();
    });
}

#[test]
fn a_deadline_ends_a_read_whose_copies_hang() {
    run(async || {
        let place = Place::new();
        let (device, control) = gpu();
        let file = place.open(&device).await;
        control.hold();
        let transfer = file.read_ranges(&[0..5000, 9000..9010], device.alloc(5010).unwrap());
        let failed = transfer.deadline(Instant::now()).await.unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded);
        control.release();
        place.stats.idle().await;
    });
}

#[test]
fn in_stream_order_a_read_does_not_wait_for_the_device() {
    run(async || {
        let place = Place::new();
        let (device, control) = gpu();
        let file = place.open(&device).await;
        let stream = device.new_stream().unwrap();
        control.hold();
        let ranges = [0..5000, 100_000..100_100, 3..9];
        let read = file.read_ranges(&ranges, device.alloc(5106).unwrap()).on_stream(&stream).await.unwrap();
        assert!(read.results.iter().all(Result::is_ok));
        control.release();
        let bytes = read.buffer.freeze().to_host().await.unwrap();
        let want: Vec<u8> = ranges.iter().flat_map(|range| place.want(range)).copied().collect();
        assert!(bytes[..] == want);
    });
}

#[test]
fn a_lost_device_fails_the_read_and_its_slot_leaks_on_purpose() {
    run(async || {
        let place = Place::new();
        let (device, control) = gpu();
        let file = place.open(&device).await;
        control.fail_records(1);
        let failed = file.read_ranges(&[0..5000, 5..5], device.alloc(5000).unwrap()).await.unwrap_err();
        assert!(failed.buffer.is_none(), "a copy may still write it");
        let buffer = device.alloc(5000).unwrap();
        control.break_down();
        // Whether a stream or a copy hears of it first.
        let failed = file.read_ranges_exact(&[0..5000, 5..5], buffer).await.unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::DeviceLost);
    });
}

#[test]
fn a_small_read_does_not_wait_for_all_of_a_large_one() {
    run(async || {
        let place = Place::new();
        let file = place.open(&Device::host_with(small_pool())).await;
        let many: Vec<_> = (0..200_000u64).map(|n| n * 7919 % 290_000).map(|at| at..at + 5).collect();
        let large = file.read_ranges(&many, Device::host().alloc(1_000_000).unwrap());
        for _ in 0..50 {
            file.read_exact_at(17, Device::host().alloc(100_000).unwrap()).await.unwrap();
        }
        assert!(large.await.unwrap().results.iter().all(Result::is_ok));
    });
}

#[test]
fn a_million_ranges_are_one_transfer() {
    run(async || {
        let place = Place::new();
        let ranges: Vec<_> = (0..1_000_000u64).map(|n| n * 7919 % 299_990).map(|at| at..at + 2).collect();
        for device in [Device::host_with(small_pool()), gpu().0] {
            let file = place.open(&device).await;
            let bytes = file.read_ranges_exact(&ranges, device.alloc(2_000_000).unwrap()).await.unwrap();
            let bytes = bytes.freeze().to_host().await.unwrap();
            assert!(bytes.iter().eq(ranges.iter().flat_map(|range| place.want(range))), "other bytes");
        }
        assert_eq!(place.stats.snapshot().finished, 2);
    });
}

#[test]
fn a_million_ranges_each_to_its_own_place_are_one_transfer() {
    run(async || {
        let place = Place::new();
        let at = |n: u64| n * 7919 % 299_990;
        for device in [Device::host_with(small_pool()), gpu().0] {
            let file = place.open(&device).await;
            let mut rest = device.alloc(2_000_000).unwrap();
            let request = |n| (at(n), rest.split_to(2));
            let read = file.read_scatter((0..1_000_000).map(request).collect()).await.unwrap();
            assert!(read.results.iter().all(|result| matches!(result, Ok(2))));
            let whole = read.buffers.into_iter().reduce(|whole, next| whole.unsplit(next).unwrap()).unwrap();
            let bytes = whole.freeze().to_host().await.unwrap();
            assert!(bytes.iter().eq((0..1_000_000).flat_map(|n| place.want(&(at(n)..at(n) + 2)))), "other bytes");
        }
        assert_eq!(place.stats.snapshot().finished, 2);
    });
}

/// Destinations cannot overlap, as each is memory of its own; here they lie one behind another, in no order and aligned to
/// nothing, with bytes between them that are nobody's.
#[test]
fn bytes_between_the_destinations_stay_as_they_are() {
    run(async || {
        for (device, direct) in [Device::host_with(small_pool()), gpu().0]
            .into_iter()
            .flat_map(|device| [(device.clone(), false), (device, true)])
        {
            let read = if direct { DirectIo::Always } else { DirectIo::Auto };
            let place = Place { policy: DirectPolicy { read, ..DirectPolicy::default() }, ..Place::new() };
            let file = place.open(&device).await;
            // Overlapping, alike, past the end, and empty; a third of all are left out.
            let ranges: Vec<_> = (0..300u64).map(|n| n * 4093 % 301_000).map(|at| at..at + at % 5000).collect();
            let total: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            let blank = vec![0xA5; total as usize];
            let mut rest = device.upload(&blank).await.unwrap();
            let (mut requests, mut kept) = (Vec::new(), Vec::new());
            for (n, range) in ranges.iter().enumerate() {
                let part = rest.split_to((range.end - range.start) as usize);
                if n % 3 == 0 { kept.push((n, part)) } else { requests.push((n, range.start, part)) }
            }
            requests.reverse();
            let (order, requests): (Vec<_>, Vec<_>) = requests.into_iter().map(|(n, at, part)| (n, (at, part))).unzip();
            let read = file.read_scatter(requests).await.unwrap();
            let counts: Vec<_> = read.results.into_iter().map(Result::unwrap).collect();
            let mut parts: Vec<_> = order.into_iter().zip(read.buffers).chain(kept).collect();
            parts.sort_by_key(|(n, _)| *n);
            let whole = parts.into_iter().map(|(_, part)| part).reduce(|whole, next| whole.unsplit(next).unwrap());
            let bytes = whole.unwrap().freeze().to_host().await.unwrap();
            let (mut at, mut counts) = (0, counts.into_iter().rev());
            for (n, range) in ranges.iter().enumerate() {
                let part = &bytes[at..at + (range.end - range.start) as usize];
                at += part.len();
                if n % 3 == 0 {
                    assert!(part.iter().all(|&byte| byte == 0xA5), "{range:?} was not asked for");
                } else {
                    let want = place.want(range);
                    assert!(counts.next() == Some(want.len()) && part.starts_with(want), "{range:?}");
                }
            }
        }
    });
}

#[test]
fn ranges_longer_than_all_staging_memory_pass_through_it_piece_by_piece() {
    run(async || {
        let place = Place::new();
        let long = support::pattern(3 << 20);
        std::fs::write(place.path(), &long).unwrap();
        let (device, _control) = gpu();
        let file = place.open(&device).await;
        // With small ones beside them, so that they are read as one; and alone, so that each is.
        for small in [100, 0] {
            let mut ranges = vec![0..2_000_000u64, 1_000_000..3_000_000];
            ranges.extend((0..small).map(|n| n * 20_000..n * 20_000 + 10));
            let total: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            let bytes = file.read_ranges_exact(&ranges, device.alloc(total as usize).unwrap()).await.unwrap();
            let bytes = bytes.freeze().to_host().await.unwrap();
            let want = ranges.iter().flat_map(|range| &long[range.start as usize..range.end as usize]);
            assert!(bytes.iter().eq(want), "other bytes");
        }
    });
}

#[test]
fn a_file_that_is_cut_short_and_grows_again_is_read_as_it_is() {
    run(async || {
        let place = Place::new();
        let file = place.open(&gpu().0).await;
        let ranges = [0..100, 200_000..200_100, 99_990..100_010];
        for (size, counts) in [(100_000, [100, 0, 10]), (0, [0, 0, 0]), (LEN as u64, [100, 100, 20])] {
            place.truncate(size);
            let read = file.read_ranges(&ranges, file.device().alloc(220).unwrap()).await.unwrap();
            assert_eq!(read.results.into_iter().map(Result::unwrap).collect::<Vec<_>>(), counts, "{size}");
        }
    });
}
