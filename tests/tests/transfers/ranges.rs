use proptest::prelude::*;
use warpio::{AsyncDeviceRead, AsyncDeviceReadExt, Device, DeviceBytesMut, MmapOptions};
use warpio_core::testing::ranges_contract;
use warpio_tests::ranges::any_ranges;

use crate::support::{MIB, Place, host, runtime, shutdown};

#[tokio::test(flavor = "multi_thread")]
async fn many_pieces_are_scattered_by_one_kernel_a_slot() {
    let place = Place::new();
    let (path, want) = place.file("data.bin", 3 * MIB);
    let rt = runtime();
    let file = rt.open(&path).await.unwrap();
    // In no order, unaligned, of many lengths, some of them overlapping or the same.
    let ranges: Vec<_> = (0..2000u64).map(|n| (n * 7_919_317 % (3 << 20) - n % 2, n * 31 % 4097)).collect();
    let ranges: Vec<_> = ranges.iter().map(|&(at, len)| at..(at + len).min(3 << 20)).collect();
    let total: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let wanted: Vec<u8> =
        ranges.iter().flat_map(|range| &want[range.start as usize..range.end as usize]).copied().collect();

    let kernels = place.gpu.control().map(|control| control.counters().kernels_run);
    let packed = file.read_ranges_exact(&ranges, rt.device().alloc(total as usize).unwrap()).await.unwrap();
    assert!(host(&packed.freeze()).await == wanted, "other bytes");
    if let (Some(before), Some(control)) = (kernels, place.gpu.control()) {
        let run = control.counters().kernels_run - before;
        assert!((1..200).contains(&run), "{run} kernels");
    }

    let alloc = |len: u64| rt.device().alloc(len as usize).unwrap();
    let requests = ranges.iter().map(|range| (range.start, alloc(range.end - range.start))).collect();
    let scattered = file.read_scatter(requests).await.unwrap();
    for (range, buffer) in ranges.iter().zip(scattered.buffers) {
        assert!(host(&buffer.freeze()).await == want[range.start as usize..range.end as usize], "{range:?}");
    }
    shutdown(rt).await;
}

/// One ends where the next begins, in the file as in the GPU's memory; a driver takes no copy that spans two allocations.
#[tokio::test(flavor = "multi_thread")]
async fn neighbours_on_the_device_are_not_taken_for_one_buffer() {
    const COUNT: usize = 32;
    const PIECE: usize = 64 << 10;
    let place = Place::new();
    let (path, want) = place.file("data.bin", COUNT * PIECE);
    let rt = runtime();
    let file = rt.open(&path).await.unwrap();
    let mut buffers: Vec<_> = (0..COUNT).map(|_| rt.device().alloc(PIECE).unwrap()).collect();
    buffers.sort_by_key(|buffer| buffer.device_ptr());
    let follows = |pair: &&[DeviceBytesMut]| pair[0].device_ptr() + PIECE as u64 == pair[1].device_ptr();
    let neighbours = buffers.windows(2).filter(follows).count();
    assert!(place.gpu.control().is_none() || neighbours > 0, "the software GPU has them follow each other");
    let requests = buffers.into_iter().enumerate().map(|(n, buffer)| ((n * PIECE) as u64, buffer)).collect();
    let read = file.read_scatter(requests).await.unwrap();
    for (n, (buffer, result)) in read.buffers.into_iter().zip(read.results).enumerate() {
        assert_eq!(result.unwrap(), PIECE);
        assert!(
            host(&buffer.freeze()).await == want[n * PIECE..(n + 1) * PIECE],
            "buffer {n} of {neighbours} neighbours"
        );
    }
    shutdown(rt).await;
}

const LEN: usize = MIB + 4321;

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn any_ranges_of_files_and_maps_are_read_as_each_by_itself(
        ranges in any_ranges(LEN, 256 << 10, 200),
        (from, pin) in (0..9000usize, any::<bool>()),
    ) {
        let place = Place::new();
        let (path, content) = place.file("data.bin", LEN);
        tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
            let rt = runtime();
            ranges_contract(&rt.open(&path).await.unwrap(), rt.device(), &ranges, &content).await;
            let map = rt.open_mmap(&path, MmapOptions::new().offset(from as u64)).await.unwrap();
            if pin && let Err(error) = map.pin().await {
                // Not every driver pins every file system's pages.
                assert!(place.gpu.control().is_none(), "{error}");
            }
            for device in [rt.device(), &Device::host()] {
                ranges_contract(&map, device, &ranges, &content[from..]).await;
            }
            drop(map);
            shutdown(rt).await;
        });
    }
}
