//! Which way the bytes of a transfer take.

use warpio::cufile::GdsPath;
use warpio::{Device, PathKind};

use crate::support::{KIB, MIB, Rig, aligned, bytes, chill, read};

#[tokio::test]
async fn what_is_cached_comes_from_the_cache_and_the_rest_past_host_memory() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.cold(12 * MIB);
    let rt = rig.runtime();
    assert_eq!((rt.gds().await.unwrap(), rt.engine()), (GdsPath::NvidiaFs, "cufile"));
    let file = rt.open(&path).await.unwrap();
    assert_eq!(read(&file, &rig.device, 0, 12 * MIB).await.unwrap(), [(PathKind::Gds, 12 * MIB as u64)]);
    // The first half of it is read by somebody else.
    drop(std::fs::read(&path).unwrap());
    assert_eq!(read(&file, &rig.device, 0, 12 * MIB).await.unwrap(), [(PathKind::PageCache, 12 * MIB as u64)]);
    chill(&path);
    let half = std::fs::File::open(&path).unwrap();
    warpio_local::page_cache::warm_range(&half, 0..8 * MIB as u64).unwrap();
    let paths = read(&file, &rig.device, 0, 12 * MIB).await.unwrap();
    let gds = paths.iter().find(|(path, _)| *path == PathKind::Gds).map_or(0, |(_, bytes)| *bytes);
    assert!((1..=4 * MIB as u64).contains(&gds), "{paths:?}");
    assert_eq!(paths.iter().map(|(_, bytes)| bytes).sum::<u64>(), 12 * MIB as u64);
    let total: u64 = rt.stats().transfers.read.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(total, 36 * MIB as u64, "and the runtime counts them");
}

#[tokio::test]
async fn peer_to_peer_is_told_apart() {
    let Some(rig) = Rig::new("mode p2p") else { return };
    let path = rig.cold(2 * MIB);
    let rt = rig.runtime();
    assert_eq!(rt.gds().await.unwrap(), GdsPath::PeerToPeer);
    let file = rt.open(&path).await.unwrap();
    assert_eq!(read(&file, &rig.device, 0, 2 * MIB).await.unwrap(), [(PathKind::P2p, 2 * MIB as u64)]);
}

#[tokio::test]
async fn short_reads_and_edges_go_our_own_way() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.cold(4 * MIB);
    let rt = rig.runtime();
    let file = rt.open(&path).await.unwrap();
    let short = read(&file, &rig.device, 0, 12 * KIB).await.unwrap();
    assert!(short.iter().all(|(path, _)| *path != PathKind::Gds), "{short:?}");
    chill(&path);
    let odd = read(&file, &rig.device, MIB, MIB + 333).await.unwrap();
    assert_eq!(odd.iter().find(|(path, _)| *path == PathKind::Gds), Some(&(PathKind::Gds, MIB as u64)), "{odd:?}");
    assert_eq!(odd.iter().map(|(_, bytes)| bytes).sum::<u64>(), MIB as u64 + 333);
}

#[tokio::test]
async fn a_threshold_of_ones_own_is_kept() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.cold(4 * MIB);
    let rt = rig.builder().gds_threshold(2 * MIB as u64).on_cufile(rig.driver()).build().unwrap();
    let file = rt.open(&path).await.unwrap();
    let short = read(&file, &rig.device, 0, MIB).await.unwrap();
    assert!(short.iter().all(|(path, _)| *path != PathKind::Gds), "{short:?}");
    chill(&path);
    assert_eq!(read(&file, &rig.device, 0, 2 * MIB).await.unwrap(), [(PathKind::Gds, 2 * MIB as u64)]);
}

#[tokio::test]
async fn host_memory_is_read_our_own_way() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.cold(2 * MIB);
    let rt = rig.runtime();
    let file = rt.open(&path).await.unwrap();
    let paths = read(&file, &Device::host(), 0, 2 * MIB).await.unwrap();
    assert!(paths.iter().all(|(path, _)| *path != PathKind::Gds), "{paths:?}");
}

#[tokio::test]
async fn a_driver_that_does_not_do_what_it_claims_costs_one_read() {
    let Some(rig) = Rig::new("mode gds; truth compat") else { return };
    let path = rig.cold(4 * MIB);
    let rt = rig.runtime();
    let file = rt.open(&path).await.unwrap();
    for _ in 0..3 {
        let paths = read(&file, &rig.device, 0, 4 * MIB).await.unwrap();
        assert!(paths.iter().all(|(path, _)| *path != PathKind::Gds), "{paths:?}");
        chill(&path);
    }
    assert_eq!(rig.mock.calls("Read"), 1);
}

#[tokio::test]
async fn every_interface_can_be_forced() {
    use warpio::config::CuFileApi;
    for (api, call) in
        [(CuFileApi::Sync, "Read"), (CuFileApi::Batch, "BatchIOSubmit"), (CuFileApi::Stream, "ReadAsync")]
    {
        let Some(rig) = Rig::new("mode gds") else { return };
        let path = rig.cold(4 * MIB);
        let rt = rig.builder().cufile_api(api).on_cufile(rig.driver()).build().unwrap();
        let file = rt.open(&path).await.unwrap();
        assert_eq!(read(&file, &rig.device, 0, 4 * MIB).await.unwrap(), [(PathKind::Gds, 4 * MIB as u64)], "{api}");
        assert!(rig.mock.calls(call) > u64::from(api == CuFileApi::Sync), "{api}");
    }
}

#[tokio::test]
async fn many_files_come_and_go() {
    let Some(rig) = Rig::new("mode gds; device_us 200 parallel 4") else { return };
    let path = rig.cold(MIB);
    let rt = rig.runtime();
    let device = rig.device.clone();
    let reads = (0..60).map(|i| {
        let (rt, path, device) = (rt.clone(), path.clone(), device.clone());
        async move {
            let file = rt.open_options().read(true).open(&path).await.unwrap();
            if i % 5 == 0 {
                // Dropped in flight.
                drop(warpio::AsyncDeviceRead::read_at(&file, 0, aligned(&device, 256 * KIB)));
            }
            read(&file, &device, i % 4 * 256 * KIB, 256 * KIB).await.unwrap();
            file.close().await.unwrap();
        }
    });
    futures::future::join_all(reads).await;
    rt.shutdown(std::time::Duration::from_secs(20)).await.unwrap();
    drop(rt);
    crate::support::until(|| rig.mock.counters().open == 0);
    assert_eq!((rig.mock.counters().handles, rig.mock.counters().violations), (0, 0));
    assert_eq!(std::fs::read(&path).unwrap(), bytes()[..MIB]);
}
