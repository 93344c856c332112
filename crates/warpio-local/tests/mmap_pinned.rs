//! Maps whose pages a device reads by itself.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::poll_immediate;
use support::place::{LEN, Place, small_pool};
use warpio_core::testing::FakeGpu;
use warpio_core::{AsyncDeviceRead, AsyncDeviceReadExt, Device, ErrorKind, Moved, PathKind, PoolConfig};
use warpio_local::mmap::MmapOptions;

#[tokio::test]
async fn a_pinned_map_is_read_by_the_device_without_staging_memory() {
    let place = Place::new();
    let (gpu, control) = FakeGpu::device(0, PoolConfig::default());
    let map = place.map(&gpu, MmapOptions::new().offset(4099).len(200_000)).await.unwrap();
    map.pin().await.unwrap();
    map.pin().await.unwrap();
    assert!(map.is_pinned());
    assert_eq!(control.pins(), 1);
    // Reading back needs some.
    map.read_exact_at(0, gpu.alloc(200_000).unwrap()).await.unwrap();
    assert_eq!(control.staging_allocations(), 0);
    for (offset, len) in [(0, 200_000), (7, 100), (199_999, 50), (200_000, 3), (1 << 40, 3)] {
        let transfer = map.read_at(offset, gpu.alloc(len).unwrap());
        let report = transfer.report();
        let read = transfer.await.unwrap();
        let want = &place.bytes[4099..204_099];
        let want = &want[(offset as usize).min(want.len())
            ..(offset as usize + len).min(want.len()).max((offset as usize).min(want.len()))];
        assert_eq!(read.n, want.len(), "at {offset}");
        assert!(read.buffer.freeze().to_host().await.unwrap()[..read.n] == *want, "at {offset}");
        assert_eq!(report.bytes(PathKind::Mmap), want.len() as u64);
    }
    // Host memory and many ranges go through the processor still.
    let host = map.read_exact_at(3, Device::host().alloc(50).unwrap()).await.unwrap();
    assert!(host.as_slice().unwrap() == &place.bytes[4102..4152]);
    let packed = map.read_ranges_exact(&[9..19, 0..5], gpu.alloc(15).unwrap()).await.unwrap();
    assert!(packed.freeze().to_host().await.unwrap()[10..] == place.bytes[4099..4104]);
    drop(map);
    place.stats.idle().await;
    control.wait_unpinned();
}

#[tokio::test]
async fn a_pinned_map_that_is_dropped_in_a_transfer_stays_until_that_is_done() {
    let place = Place::new();
    let (gpu, control) = FakeGpu::device(0, PoolConfig::default());
    let map = place.map(&gpu, MmapOptions::new()).await.unwrap();
    map.pin().await.unwrap();
    control.hold();
    let transfer = map.read_exact_at(0, gpu.alloc(LEN).unwrap());
    let dropped = map.read_at(5, gpu.alloc(100).unwrap());
    drop((map, dropped));
    assert_eq!(control.pins(), 1, "the device may still read it");
    control.release();
    assert!(transfer.await.unwrap().freeze().to_host().await.unwrap()[..] == place.bytes);
    place.stats.idle().await;
    control.wait_unpinned();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_pins_at_the_same_time_pins_once() {
    let place = Place::new();
    let (gpu, control) = FakeGpu::device(0, PoolConfig::default());
    let map = Arc::new(place.map(&gpu, MmapOptions::new()).await.unwrap());
    control.hold();
    let pins: Vec<_> = std::iter::repeat_with(|| map.clone()).take(8).collect();
    let pins: Vec<_> = pins.into_iter().map(|map| tokio::spawn(async move { map.pin().await })).collect();
    control.wait_pinning();
    control.release();
    for pin in pins {
        pin.await.unwrap().unwrap();
    }
    assert_eq!((map.is_pinned(), control.pins()), (true, 1));
    drop(map);
    control.wait_unpinned();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pin_that_nobody_waits_for_goes_on() {
    let place = Place::new();
    let (gpu, control) = FakeGpu::device(0, PoolConfig::default());
    let map = place.map(&gpu, MmapOptions::new()).await.unwrap();
    control.hold();
    for _ in 0..3 {
        assert!(poll_immediate(map.pin()).await.is_none(), "it is held");
    }
    control.release();
    map.pin().await.unwrap();
    assert_eq!((map.is_pinned(), control.pins()), (true, 1));
    assert!(map.read_all().await.unwrap().to_host().await.unwrap()[..] == place.bytes);

    // Its source is gone before it is done.
    let gone = place.map(&gpu, MmapOptions::new()).await.unwrap();
    control.hold();
    assert!(poll_immediate(gone.pin()).await.is_none());
    control.wait_pinning();
    drop((gone, map));
    control.release();
    place.stats.idle().await;
    control.wait_unpinned();
}

#[tokio::test]
async fn many_ranges_of_a_map_that_is_dropped_are_read_to_their_end() {
    let place = Place::new();
    let (gpu, control) = FakeGpu::device(0, small_pool());
    for pin in [false, true] {
        let map = place.map(&gpu, MmapOptions::new().offset(4097)).await.unwrap();
        if pin {
            map.pin().await.unwrap();
        }
        control.hold();
        let ranges: Vec<_> = (0..500u64).map(|n| n * 7919 % 290_000).map(|at| at..at + 50).collect();
        let transfer = map.read_ranges_exact(&ranges, gpu.alloc(25_000).unwrap());
        let whole = map.read_at(0, gpu.alloc(LEN).unwrap());
        let dropped = map.read_scatter(vec![(7, gpu.alloc(9).unwrap()), (100_000, gpu.alloc(10_000).unwrap())]);
        drop((map, dropped));
        assert_eq!(control.pins(), usize::from(pin), "the device may still read it");
        control.release();
        let bytes = transfer.await.unwrap().freeze().to_host().await.unwrap();
        let want = ranges.iter().flat_map(|range| &place.bytes[4097 + range.start as usize..4097 + range.end as usize]);
        assert!(bytes.iter().eq(want), "other bytes");
        let Moved { n, buffer } = whole.await.unwrap();
        assert!(n == LEN - 4097 && buffer.freeze().to_host().await.unwrap()[..n] == place.bytes[4097..]);
        place.stats.idle().await;
        control.wait_unpinned();
    }
}

#[tokio::test]
async fn what_cannot_be_pinned_is_read_on_without() {
    let place = Place::new();
    let (gpu, control) = FakeGpu::device(0, PoolConfig::default());
    control.refuse_pins(true);
    for device in [Device::host(), gpu.clone()] {
        let map = place.map(&device, MmapOptions::new()).await.unwrap();
        let error = map.pin().await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Unsupported, Some("pin")), "{error}");
        assert!(!map.is_pinned());
        assert!(map.read_all().await.unwrap().to_host().await.unwrap()[..] == place.bytes);
    }
    control.refuse_pins(false);
    let empty = place.map(&gpu, MmapOptions::new().len(0)).await.unwrap();
    empty.pin().await.unwrap();
    let map = place.map(&gpu, MmapOptions::new()).await.unwrap();
    place.truncate(10);
    assert_eq!(map.pin().await.unwrap_err().kind(), ErrorKind::Changed);
    assert_eq!(control.pins(), 0);
}

#[tokio::test]
async fn a_pinned_file_that_is_cut_short_is_an_error() {
    let place = Place::new();
    let (gpu, control) = FakeGpu::device(0, PoolConfig::default());
    let map = place.map(&gpu, MmapOptions::new()).await.unwrap();
    map.pin().await.unwrap();
    place.truncate(100_000);
    let failed = map.read_at(0, gpu.alloc(LEN).unwrap()).await.unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Changed, "{}", failed.error);
    assert!(failed.buffer.is_some());
    control.break_down();
    let failed = map.read_at(0, gpu.alloc(0).unwrap()).await;
    drop((failed, map));
    place.stats.idle().await;
}

/// Cut and written again, a file has other pages than those that are pinned.
#[tokio::test]
async fn a_pinned_file_that_is_written_again_is_read_as_it_is_now() {
    let place = Place::new();
    let (gpu, control) = FakeGpu::device(0, small_pool());
    let map = place.map(&gpu, MmapOptions::new().offset(4099)).await.unwrap();
    map.pin().await.unwrap();
    map.read_exact_at(0, gpu.alloc(100_000).unwrap()).await.unwrap();
    assert_eq!((map.is_pinned(), control.staging_allocations()), (true, 0));

    let new: Vec<u8> = place.bytes.iter().map(|byte| !byte).collect();
    std::fs::write(place.path(), &new).unwrap();
    let read = map.read_exact_at(0, gpu.alloc(LEN - 4099).unwrap());
    let report = read.report();
    let bytes = read.await.unwrap().freeze();
    assert!(control.staging_allocations() > 0, "the device has read pages that may not be the file's any more");
    assert_eq!(report.bytes(PathKind::Mmap), (LEN - 4099) as u64);
    assert!(bytes.to_host().await.unwrap()[..] == new[4099..]);
    assert!(!map.is_pinned());
    let error = map.pin().await.unwrap_err();
    assert_eq!((error.kind(), control.pins()), (ErrorKind::Changed, 1), "{error}");

    let anew = place.map(&gpu, MmapOptions::new()).await.unwrap();
    anew.pin().await.unwrap();
    assert_eq!((anew.is_pinned(), control.pins()), (true, 2));
    drop((map, anew, bytes));
    place.stats.idle().await;
    control.wait_unpinned();
}

/// Where the file system's clock ticks slowly, the change has the time of the one before.
#[tokio::test]
async fn a_change_at_once_after_pinning_is_seen() {
    for round in 0..20 {
        let place = Place::new();
        let (gpu, control) = FakeGpu::device(0, small_pool());
        let map = place.map(&gpu, MmapOptions::new()).await.unwrap();
        std::fs::write(place.path(), vec![round; LEN]).unwrap();
        map.pin().await.unwrap();
        std::fs::write(place.path(), vec![!round; LEN]).unwrap();
        let bytes = map.read_exact_at(0, gpu.alloc(LEN).unwrap()).await.unwrap();
        assert!(!map.is_pinned() && control.staging_allocations() > 0);
        assert!(bytes.freeze().to_host().await.unwrap()[..].iter().all(|byte| *byte == !round));
    }
}

/// It is refused, or else, where the writer was kept waiting for longer than a tick of the clock, found to have changed.
#[tokio::test]
async fn a_file_that_is_being_written_is_not_read_from_pinned_pages() {
    let place = Place::new();
    let (gpu, control) = FakeGpu::device(0, small_pool());
    let (path, stop) = (place.path(), Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let (wrote, written) = std::sync::mpsc::sync_channel(0);
    let writer = std::thread::spawn(move || {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        while !stopped.load(Ordering::Relaxed) {
            std::os::unix::fs::FileExt::write_at(&file, &[1], 7).unwrap();
            let _ = wrote.try_send(());
        }
    });
    for _ in 0..10 {
        let map = place.map(&gpu, MmapOptions::new()).await.unwrap();
        match map.pin().await {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Changed, "{error}"),
            Ok(()) => {
                // Whoever is told of two waits for a whole one.
                (0..2).for_each(|_| written.recv().unwrap());
                map.read_exact_at(0, gpu.alloc(10_000).unwrap()).await.unwrap();
                assert!(!map.is_pinned());
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    let map = place.map(&gpu, MmapOptions::new()).await.unwrap();
    map.pin().await.unwrap();
    assert!(map.is_pinned());
    drop(map);
    place.stats.idle().await;
    control.wait_unpinned();
}
