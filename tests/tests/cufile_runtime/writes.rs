//! Writes from device memory.

use warpio::config::{CompatMode, DirectIo};
use warpio::{AsyncDeviceWrite, AsyncDeviceWriteExt, DeviceBytes, Runtime};

use crate::support::{KIB, MIB, Paths, Rig, aligned, bytes};
use warpio::PathKind;

/// The first `len` of the bytes, in device memory that begins at a page.
async fn on_device(rig: &Rig, len: usize) -> DeviceBytes {
    let source = rig.path("source.bin");
    std::fs::write(&source, &bytes()[..len]).unwrap();
    let rt = rig.builder().compat_mode(CompatMode::On).build().unwrap();
    let file = rt.open(&source).await.unwrap();
    let moved = warpio::AsyncDeviceRead::read_at(&file, 0, aligned(&rig.device, len)).await.unwrap();
    moved.buffer.freeze()
}

async fn write(rig: &Rig, rt: &Runtime, len: usize) -> Paths {
    let data = on_device(rig, len).await;
    let path = rig.path("target.bin");
    let file = rt.open_options().read(true).write(true).create(true).truncate(true).open(&path).await.unwrap();
    let transfer = file.write_at(0, data);
    let report = transfer.report();
    transfer.await.unwrap();
    file.sync_all().await.unwrap();
    assert!(std::fs::read(&path).unwrap() == bytes()[..len], "wrong bytes");
    report.paths().collect()
}

#[tokio::test]
async fn they_go_past_host_memory_with_their_edges_beside() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let paths = write(&rig, &rig.runtime(), 5 * MIB + 1000).await;
    assert_eq!(paths, [(PathKind::Gds, 5 * MIB as u64), (PathKind::PageCache, 1000)]);
}

#[tokio::test]
async fn short_ones_and_those_for_the_page_cache_go_our_own_way() {
    let Some(rig) = Rig::new("mode gds") else { return };
    assert_eq!(write(&rig, &rig.runtime(), 8 * KIB).await, [(PathKind::PageCache, 8 * KIB as u64)]);
    let rt = rig.builder().direct_write(DirectIo::Never).on_cufile(rig.driver()).build().unwrap();
    assert_eq!(write(&rig, &rt, MIB).await, [(PathKind::PageCache, MIB as u64)]);
}

#[tokio::test]
async fn a_file_that_cufile_refuses_is_written_all_the_same() {
    let Some(rig) = Rig::new("mode gds; on Write ret -5008") else { return };
    let paths = write(&rig, &rig.runtime(), 3 * MIB).await;
    assert_eq!(paths, [(PathKind::PageCache, 3 * MIB as u64)]);
}

#[tokio::test]
async fn a_sink_is_written_and_published() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let rt = rig.runtime();
    let data = on_device(&rig, 2 * MIB).await;
    let path = rig.path("published.bin");
    let sink = rt.create(&path).await.unwrap();
    sink.write_all_at(0, data.slice(..MIB)).await.unwrap();
    sink.append(data.slice(MIB..)).await.unwrap();
    assert!(!path.exists());
    sink.finish().await.unwrap();
    assert!(std::fs::read(&path).unwrap() == bytes()[..2 * MIB]);
    assert!(rig.mock.counters().bytes_written >= MIB as u64, "by cuFile");
}
