//! Files that appear whole or not at all.

use std::os::unix::fs::PermissionsExt;

use warpio::core::testing::pattern;
use warpio::{AsyncDeviceWrite, AsyncDeviceWriteExt, ErrorKind};

use crate::support::{LONG, MIB, Scratch, for_each_runtime, is, names, on_gpu, poll, upload};

#[tokio::test]
async fn a_file_shows_when_it_is_finished_and_not_before() {
    let scratch = Scratch::on_disk();
    let path = scratch.path("file");
    for_each_runtime(async |rt| {
        std::fs::write(&path, b"old").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let sink = rt.create(&path).await.unwrap();
        sink.write_at(MIB as u64, upload(rt, &pattern(10)).await).await.unwrap();
        sink.write_at(0, upload(rt, &pattern(MIB)).await).await.unwrap();
        sink.sync().await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        sink.finish().await.unwrap();
        assert!(std::fs::read(&path).unwrap() == [pattern(MIB), pattern(10)].concat());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(scratch.dir()), ["file"]);
    })
    .await;
}

#[tokio::test]
async fn what_was_refused_unseen_is_not_published() {
    let scratch = Scratch::on_disk();
    let path = scratch.path("file");
    for_each_runtime(async |rt| {
        std::fs::write(&path, b"old").unwrap();
        let sink = rt.create(&path).await.unwrap();
        drop(sink.write_at(u64::MAX, upload(rt, b"nowhere").await));
        sink.write_at(0, upload(rt, b"somewhere").await).await.unwrap();
        let error = sink.finish().await.unwrap_err();
        is(&error, ErrorKind::InvalidInput, &["finish", "file", "earlier write", "offset"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(names(scratch.dir()), ["file"], "the temporary file is gone when finish returns");
    })
    .await;
}

#[tokio::test]
async fn what_was_dropped_before_it_was_written_is_not_published() {
    let scratch = Scratch::on_disk();
    let path = scratch.path("file");
    let (rt, gpu) = on_gpu();
    let sink = rt.create(&path).await.unwrap();
    let data = upload(&rt, &pattern(MIB)).await;
    gpu.hold();
    // It waits for what the GPU did before.
    drop(sink.write_at(0, data));
    gpu.release();
    let error = sink.finish().await.unwrap_err();
    is(&error, ErrorKind::Cancelled, &["finish", "file"]);
    assert_eq!(names(scratch.dir()), [""; 0]);
}

#[tokio::test]
async fn finish_waits_for_what_is_under_way() {
    let scratch = Scratch::on_disk();
    let path = scratch.path("file");
    let (rt, gpu) = on_gpu();
    let sink = rt.create(&path).await.unwrap();
    let data = upload(&rt, &pattern(MIB)).await;
    gpu.hold();
    let write = sink.write_at(0, data);
    let mut finish = AsyncDeviceWrite::finish(&sink);
    assert!(poll(&mut finish).is_pending());
    assert!(!path.exists(), "a part of it is missing");
    for late in [sink.write_at(0, from_host()), sink.append(from_host())] {
        is(&late.await.unwrap_err().error, ErrorKind::InvalidInput, &["finished already"]);
    }
    is(&sink.set_len(0).await.unwrap_err(), ErrorKind::InvalidInput, &["finished already"]);
    gpu.release();
    finish.await.unwrap();
    write.await.unwrap();
    assert!(std::fs::read(&path).unwrap() == pattern(MIB));
}

/// Bytes in host memory, as the GPU does nothing now.
fn from_host() -> warpio::DeviceBytes {
    warpio::DeviceBytesMut::from(b"late".to_vec()).freeze()
}

#[tokio::test]
async fn a_sink_is_finished_once() {
    let scratch = Scratch::on_disk();
    for_each_runtime(async |rt| {
        let sink = rt.create(scratch.path("file")).await.unwrap();
        AsyncDeviceWrite::finish(&sink).await.unwrap();
        let error = AsyncDeviceWrite::finish(&sink).await.unwrap_err();
        is(&error, ErrorKind::InvalidInput, &["file", "finished already"]);
        drop(sink);
        assert_eq!(names(scratch.dir()), ["file"], "what was published stays");
    })
    .await;
}

#[tokio::test]
async fn a_lost_gpu_loses_the_file_and_says_so() {
    let scratch = Scratch::on_disk();
    let (rt, gpu) = on_gpu();
    let sink = rt.create(scratch.path("file")).await.unwrap();
    let data = upload(&rt, &pattern(MIB)).await;
    gpu.hold();
    let write = sink.write_all_at(0, data);
    gpu.break_down();
    let failed = write.await.unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeviceLost);
    let error = sink.finish().await.unwrap_err();
    is(&error, ErrorKind::DeviceLost, &["earlier write"]);
    assert_eq!(names(scratch.dir()), [""; 0]);
    rt.shutdown(LONG).await.unwrap();
}

#[tokio::test]
async fn a_file_in_place_tells_of_a_failed_write_at_its_end_too() {
    let scratch = Scratch::on_disk();
    for_each_runtime(async |rt| {
        let file = rt.open_options().write(true).create(true).open(scratch.path("file")).await.unwrap();
        file.write_at(0, upload(rt, b"abc").await).await.unwrap();
        file.finish().await.unwrap();
        drop(file.write_at(u64::MAX, upload(rt, b"nowhere").await));
        is(&file.finish().await.unwrap_err(), ErrorKind::InvalidInput, &["earlier write", "file"]);
        file.sync_data().await.unwrap();
        file.close().await.unwrap();
    })
    .await;
}
