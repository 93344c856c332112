//! Local files under the contract suites, with every engine, through the page cache and past it.

mod support;

use std::path::Path;

use support::engines::{Setup, disk, for_each_engine, memory};
use tempfile::TempDir;
use warpio_core::Device;
use warpio_core::PoolConfig;
use warpio_core::testing::{FakeGpu, GpuControl, failed_write_contract, pattern, read_contract, write_contract};
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
