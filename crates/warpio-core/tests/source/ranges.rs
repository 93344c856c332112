//! Reads of many ranges of sources that know single reads only.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use tokio::runtime::Handle;
use warpio_core::testing::{FakeGpu, MemorySource, ranges_contract};
use warpio_core::{AsyncDeviceRead, Description, Device, Error, ErrorKind, Fetch, PoolConfig, Result, Staged};

const LEN: u64 = 200_000;

fn byte(at: u64) -> u8 {
    (at % 251) as u8 ^ (at / 4093) as u8
}

fn bytes() -> Vec<u8> {
    (0..LEN).map(byte).collect()
}

fn pool() -> PoolConfig {
    PoolConfig { slot_len: 64 << 10, budget: 256 << 10, slab_len: 64 << 10, small_slot_len: 8 << 10 }
}

/// A slot of one page, and one for what is small: the least that there may be.
fn tiny_pool() -> PoolConfig {
    PoolConfig { slot_len: 4096, budget: 8192, slab_len: 4096, small_slot_len: 4096 }
}

/// Bytes that are fetched, and how often. Those from `bad` on cannot be.
struct Counted {
    fetches: Arc<AtomicUsize>,
    bad: Range<u64>,
}

impl Fetch for Counted {
    async fn size(&self) -> Result<u64> {
        Ok(LEN)
    }

    async fn fetch(&self, offset: u64, dst: &mut [u8]) -> Result<usize> {
        self.fetches.fetch_add(1, Ordering::Relaxed);
        let end = LEN.min(offset + dst.len() as u64);
        if offset < self.bad.end && end > self.bad.start {
            return Err(Error::new(ErrorKind::Integrity));
        }
        (offset..end).zip(dst).for_each(|(at, to)| *to = byte(at));
        Ok(end.saturating_sub(offset) as usize)
    }

    fn describe(&self) -> Description {
        Description::new("counted", "counted", "staged")
    }
}

fn staged(device: &Device, bad: Range<u64>) -> (Staged<Counted>, Arc<AtomicUsize>) {
    let fetches = Arc::<AtomicUsize>::default();
    (Staged::new(Counted { fetches: fetches.clone(), bad }, device.clone(), Handle::current()), fetches)
}

fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
    let len = prop_oneof![Just(0u64), 1..300u64, 1..9000u64, 60_000..150_000u64];
    prop::collection::vec((0..LEN + 5000, len).prop_map(|(start, len)| start..start + len), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_ranges_are_read_as_each_by_itself(
        ranges in ranges(),
        gap in prop_oneof![Just(0u64), Just(100), Just(1 << 20)],
        pool in prop_oneof![3 => Just(pool()), 1 => Just(tiny_pool())],
    ) {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(async {
            for device in [Device::host_with(pool.clone()), FakeGpu::device(0, pool.clone()).0] {
                let memory = MemorySource::on_device(bytes(), device.clone()).with_gap(gap);
                ranges_contract(&memory, &device, &ranges, &bytes()).await;
                ranges_contract(&staged(&device, 0..0).0.with_gap(gap), &device, &ranges, &bytes()).await;
            }
        });
    }
}

#[tokio::test]
async fn ranges_near_each_other_are_one_fetch() {
    let ranges: Vec<_> = (0..100).map(|n| n * 500..n * 500 + 100).collect();
    for (gap, most) in [(400, 4), (399, 100)] {
        let (gpu, _control) = FakeGpu::device(0, pool());
        for device in [Device::host_with(pool()), gpu] {
            let (source, fetches) = staged(&device, 0..0);
            let source = source.with_gap(gap);
            let read = source.read_ranges(&ranges, device.alloc(10_000).unwrap()).await.unwrap();
            assert!(read.results.iter().all(|result| matches!(result, Ok(100))));
            assert!(fetches.load(Ordering::Relaxed) <= most, "{fetches:?} fetches with gaps of {gap}");
        }
    }
}

#[tokio::test]
async fn a_range_that_fails_leaves_those_that_were_joined_with_it() {
    let (gpu, _control) = FakeGpu::device(0, pool());
    for device in [Device::host_with(pool()), gpu] {
        let (source, _) = staged(&device, 1050..1060);
        let ranges = [0..1000, 1000..1100, 1100..1200, 1040..1050, 1059..1061];
        let read = source.read_ranges(&ranges, device.alloc(1212).unwrap()).await.unwrap();
        let results: Vec<_> = read.results.iter().map(|n| n.as_ref().map_err(|error| error.kind()).copied()).collect();
        let bad = Err(ErrorKind::Integrity);
        assert_eq!(results, [Ok(1000), bad, Ok(100), Ok(10), bad]);
        let packed = read.buffer.freeze().to_host().await.unwrap();
        assert!(packed[1100..1200].iter().copied().eq((1100..1200).map(byte)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_ranges_are_few_fetches() {
    let (gpu, _control) = FakeGpu::device(0, pool());
    let ranges: Vec<_> = (0..1_000_000u64).map(|n| n * 7919 % (LEN - 3)).map(|at| at..at + 3).collect();
    for device in [Device::host_with(pool()), gpu] {
        let (source, fetches) = staged(&device, 0..0);
        let read = source.read_ranges(&ranges, device.alloc(3_000_000).unwrap()).await.unwrap();
        assert!(read.results.iter().all(|result| matches!(result, Ok(3))));
        let bytes = read.buffer.freeze().to_host().await.unwrap();
        assert!(bytes.iter().copied().eq(ranges.iter().flat_map(|range| range.clone().map(byte))), "other bytes");
        // A slot holds the bytes of a run and a part of its table.
        let fetches = fetches.load(Ordering::Relaxed);
        assert!(fetches < 5000, "{fetches} fetches");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_ranges_each_to_its_own_place() {
    let source = MemorySource::on_device(bytes(), Device::host_with(pool()));
    let mut rest = Device::host().alloc(1_000_000).unwrap();
    let place = |n: u64| (n * 7919 % LEN, rest.split_to(1));
    let read = source.read_scatter((0..1_000_000).map(place).collect()).await.unwrap();
    for ((n, result), buffer) in (0u64..).zip(read.results).zip(read.buffers) {
        assert_eq!((result.unwrap(), buffer.as_slice().unwrap()), (1, &[byte(n * 7919 % LEN)][..]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_longer_than_all_staging_memory_pass_through_it_piece_by_piece() {
    let small = PoolConfig { budget: 64 << 10, slot_len: 16 << 10, slab_len: 16 << 10, ..pool() };
    let ranges = [0..LEN, 3..LEN - 7, 100..200, LEN - 5..LEN + 100_000, 50_000..150_000];
    for device in [Device::host_with(small.clone()), FakeGpu::device(0, small).0] {
        ranges_contract(&MemorySource::on_device(bytes(), device.clone()), &device, &ranges, &bytes()).await;
        ranges_contract(&staged(&device, 0..0).0, &device, &ranges, &bytes()).await;
        assert!(device.staging().stats().allocated <= 64 << 10);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_make_no_sense_are_refused_as_a_whole() {
    let source = MemorySource::on_device(bytes(), Device::host());
    #[allow(clippy::reversed_empty_ranges)]
    for (ranges, said) in [
        (vec![0..10, 9..3], "9..3 ends before it starts"),
        (vec![0..60, 0..41], "the ranges have 101 bytes, but the buffer only 100"),
        (vec![0..u64::MAX, 0..u64::MAX], "exceed 2^64 bytes"),
        (vec![5..5, 0..u64::MAX], "but the buffer only 100"),
    ] {
        let failed = source.read_ranges(&ranges, Device::host().alloc(100).unwrap()).await.unwrap_err();
        assert_eq!((failed.error.kind(), failed.error.operation()), (ErrorKind::InvalidInput, Some("read")));
        assert!(failed.error.to_string().contains(said), "{}", failed.error);
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(100), "it comes back");
    }
}
