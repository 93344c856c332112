use std::time::{Duration, Instant};

use warpio::{AsyncDeviceRead, AsyncDeviceReadExt, ErrorKind, MmapOptions, MmapSource, Moved};
use warpio_tests::mock_gpu::Control;

use crate::support::{MIB, Place, host, runtime, shutdown};

/// Waits until no map is pinned any more, and no staging memory either, on whichever thread its last handle was dropped.
fn until_unpinned(control: Control) {
    let end = Instant::now() + Duration::from_secs(30);
    while control.counters().registered_ranges > 0 {
        assert!(Instant::now() < end, "{:?}", control.counters());
        warpio::cuda::wait_for_releases();
        std::thread::yield_now();
    }
    assert_eq!(control.counters().violations, 0);
}

/// Pins it. `None`, where a real driver does not.
async fn pinned(place: &Place, map: MmapSource) -> Option<MmapSource> {
    let pins = futures::future::join_all((0..4).map(|_| map.pin())).await;
    if place.gpu.control().is_none() && pins.iter().any(Result::is_err) {
        eprintln!("skipped: this driver does not pin pages of this file: {pins:?}");
        return None;
    }
    pins.into_iter().for_each(Result::unwrap);
    Some(map)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_map_is_read_by_the_gpu_and_unpinned_at_the_end() {
    let place = Place::new();
    // Of other tests.
    if let Some(control) = place.gpu.control() {
        until_unpinned(control);
    }
    let (path, want) = place.file("data.bin", 5 * MIB + 77);
    let rt = runtime();
    let map = rt.open_mmap(&path, MmapOptions::new().offset(4099)).await.unwrap();
    let Some(map) = pinned(&place, map).await else { return };
    if let Some(control) = place.gpu.control() {
        let counters = control.counters();
        assert_eq!((counters.registered_ranges, counters.registered_bytes), (1, 5 * MIB as u64 + 77 - 4096));
    }
    for (offset, len) in [(0, want.len() - 4099), (12_345, 2 * MIB), (want.len() - 4109, 10)] {
        let bytes = map.read_exact_at(offset as u64, rt.device().alloc(len).unwrap()).await.unwrap().freeze();
        assert!(host(&bytes).await == want[4099 + offset..4099 + offset + len], "{len} bytes at {offset}");
    }
    drop(map);
    shutdown(rt).await;
    if let Some(control) = place.gpu.control() {
        until_unpinned(control);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_map_that_is_dropped_in_a_transfer_outlives_it() {
    let place = Place::new();
    let Some(control) = place.gpu.control() else { return eprintln!("skipped: not on a real GPU") };
    until_unpinned(control);
    let (path, want) = place.file("data.bin", 3 * MIB);
    let rt = runtime();
    let map = pinned(&place, rt.open_mmap(&path, MmapOptions::new()).await.unwrap()).await.unwrap();
    control.ctl("hold");
    let transfer = map.read_at(0, rt.device().alloc(3 * MIB).unwrap());
    let dropped = map.read_at(MIB as u64, rt.device().alloc(MIB).unwrap());
    control.ctl("wait held 1");
    drop((map, dropped));
    warpio::cuda::wait_for_releases();
    assert_eq!(control.counters().registered_ranges, 1, "the GPU may still read it; no staging memory is used");
    control.ctl("release");
    let Moved { n, buffer } = transfer.await.unwrap();
    assert!(n == 3 * MIB && host(&buffer.freeze()).await == want);
    shutdown(rt).await;
    control.ctl("wait idle");
    until_unpinned(control);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_cut_short_while_it_is_mapped_is_an_error_of_what_is_gone() {
    let place = Place::new();
    let (path, want) = place.file("data.bin", 2 * MIB);
    let rt = runtime();
    for pin in [false, true] {
        std::fs::write(&path, &want).unwrap();
        let map = rt.open_mmap(&path, MmapOptions::new()).await.unwrap();
        let map = if pin { pinned(&place, map).await } else { Some(map) };
        let Some(map) = map else { continue };
        std::fs::File::options().write(true).open(&path).unwrap().set_len(MIB as u64 + 5).unwrap();
        let failed = map.read_at(0, rt.device().alloc(2 * MIB).unwrap()).await.unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Changed, "{}", failed.error);
        let ranges = [MIB as u64..MIB as u64 + 5, MIB as u64 + 4..MIB as u64 + 6, 100..200];
        let read = map.read_ranges(&ranges, rt.device().alloc(107).unwrap()).await.unwrap();
        let results: Vec<_> = read.results.iter().map(|n| n.as_ref().map_err(warpio::Error::kind).copied()).collect();
        assert_eq!(results, [Ok(5), Err(ErrorKind::Changed), Ok(100)]);
        let bytes = host(&read.buffer.freeze()).await;
        assert!(bytes[..5] == want[MIB..MIB + 5] && bytes[7..] == want[100..200]);
    }
    shutdown(rt).await;
}

/// The pages that are pinned are no longer the file's then, and a real GPU would read them still.
#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_file_that_is_written_again_is_read_as_it_is_now() {
    let place = Place::new();
    let (path, old) = place.file("data.bin", 5 * MIB + 77);
    let rt = runtime();
    let Some(map) = pinned(&place, rt.open_mmap(&path, MmapOptions::new()).await.unwrap()).await else { return };
    let read =
        async || host(&map.read_exact_at(0, rt.device().alloc(old.len()).unwrap()).await.unwrap().freeze()).await;
    assert!(read().await == old && map.is_pinned(), "reading alone changes nothing");
    let new: Vec<u8> = old.iter().map(|byte| !byte).collect();
    std::fs::write(&path, &new).unwrap();
    for _ in 0..2 {
        assert!(read().await == new, "bytes of before");
        assert!(!map.is_pinned());
    }
    drop(map);
    shutdown(rt).await;
}
