//! Local files under the contract suites, with every engine, through the page cache and past it.

mod support;

use std::path::Path;
use std::sync::Arc;

use support::engines::{Setup, disk, for_each_engine, memory};
use tempfile::TempDir;
use warpio_core::engine::Starter;
use warpio_core::plan::Split;
use warpio_core::testing::{FakeGpu, GpuControl, failed_write_contract, pattern, read_contract, write_contract};
use warpio_core::{AsyncDeviceWrite, Device, ErrorKind, PoolConfig};
use warpio_local::engine::{DirectThreads, Mode, OpenFile, RingTarget};
use warpio_local::file::{FileSink, LocalFile};
use warpio_local::open::OpenOptions;

const LEN: usize = 1_000_003;

fn gpu() -> (Device, GpuControl) {
    let pool = PoolConfig { budget: 1 << 20, slot_len: 128 << 10, small_slot_len: 16 << 10, slab_len: 256 << 10 };
    FakeGpu::device(0, pool)
}

async fn read(setup: &Setup, dir: &Path, device: Device) {
    let path = dir.join("data.bin");
    std::fs::write(&path, pattern(LEN)).unwrap();
    let context = setup.context(device);
    let file = LocalFile::open(&context, &path, &OpenOptions::new().read(true)).await.unwrap();
    read_contract(&file, LEN).await;
    file.close().await.unwrap();
    context.stats.idle().await;
}

async fn write(setup: &Setup, dir: &Path, device: Device) {
    let path = dir.join("written.bin");
    let context = setup.context(device);
    let options = OpenOptions::new().read(true).write(true).create(true);
    let file = LocalFile::open(&context, &path, &options).await.unwrap();
    write_contract(&file, || async { std::fs::read(&path).unwrap() }).await;
    file.close().await.unwrap();
    let file = LocalFile::open(&context, &path, &options).await.unwrap();
    failed_write_contract(&file).await;
    drop(file);
    std::fs::remove_file(&path).unwrap();
}

async fn host(dir: TempDir) {
    for_each_engine(async |setup| {
        read(setup, dir.path(), Device::host()).await;
        write(setup, dir.path(), Device::host()).await;
    })
    .await;
}

async fn device(dir: TempDir) {
    for_each_engine(async |setup| {
        let (device, gpu) = gpu();
        read(setup, dir.path(), device.clone()).await;
        write(setup, dir.path(), device).await;
        assert_eq!(gpu.allocations(), 0, "{setup:?}: every buffer was freed");
    })
    .await;
}

#[tokio::test]
async fn host_memory_and_a_disk() {
    host(disk()).await;
}

#[tokio::test]
async fn host_memory_and_a_file_system_in_memory() {
    host(memory()).await;
}

#[tokio::test]
async fn a_gpu_and_a_disk() {
    device(disk()).await;
}

#[tokio::test]
async fn a_gpu_and_a_file_system_in_memory() {
    device(memory()).await;
}

#[tokio::test]
async fn a_sink_under_its_temporary_name() {
    let dir = disk();
    for_each_engine(async |setup| {
        let path = dir.path().join("data.bin");
        let sink = FileSink::create(&setup.context(Device::host()), &path).await.unwrap();
        let temporary = sink.temporary_path().unwrap();
        write_contract(&sink, || async { std::fs::read(&temporary).or_else(|_| std::fs::read(&path)).unwrap() }).await;
        assert!(path.exists() && !temporary.exists());
        std::fs::remove_file(&path).unwrap();
        let sink = FileSink::create(&setup.context(Device::host()), &path).await.unwrap();
        failed_write_contract(&sink).await;
        assert!(!path.exists() && sink.temporary_path().is_none(), "nothing is left");
    })
    .await;
}

/// A change of length that was asked for before and made only afterwards would cut a file that others read.
#[tokio::test]
async fn a_finished_file_keeps_its_length() {
    let dir = disk();
    for_each_engine(async |setup| {
        let path = dir.path().join("data.bin");
        let sink = FileSink::create(&setup.context(Device::host()), &path).await.unwrap();
        sink.write_at(0, Device::host().upload(&pattern(LEN)).await.unwrap().freeze()).await.unwrap();
        let cut = sink.set_len(3);
        sink.finish().await.unwrap();
        let error = cut.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(std::fs::read(&path).unwrap() == pattern(LEN));
    })
    .await;
}

#[tokio::test]
async fn what_is_submitted_as_soon_as_an_engine_is_there_is_done() {
    let dir = disk();
    let path = dir.path().join("data.bin");
    std::fs::write(&path, pattern(LEN)).unwrap();
    let open = || std::fs::File::open(&path).unwrap().into();
    for _ in 0..50 {
        // Open before the engine is there, so that nothing comes in between.
        let (fd, buffer) = (open(), Device::host().alloc(LEN).unwrap());
        let target = Arc::new(RingTarget::new(Arc::new(OpenFile::new(fd)), Mode::Direct));
        let engine = Arc::new(DirectThreads::start(2).unwrap());
        let starter = Starter::new(engine, Split::new(128 << 10).unwrap(), "data.bin", Device::host());
        assert_eq!(starter.read(target, 0, buffer).await.unwrap().n, LEN);
    }
}
