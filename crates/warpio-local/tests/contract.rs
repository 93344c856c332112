//! Local files under the contract suites, with every engine.

use std::sync::Arc;

use tokio::runtime::Handle;
use warpio_core::engine::{Engine, Stats};
use warpio_core::plan::Split;
use warpio_core::testing::{FakeGpu, pattern, read_contract, write_contract};
use warpio_core::{Device, PoolConfig};
use warpio_local::engine::PosixEngine;
use warpio_local::file::{FileContext, FileSink, LocalFile};
use warpio_local::open::OpenOptions;

const LEN: usize = 1_000_003;

fn context(device: Device) -> FileContext {
    let engine: Arc<dyn Engine> = Arc::new(PosixEngine::start(3).unwrap());
    let split = Split::new(128 << 10).unwrap();
    FileContext {
        engine,
        split,
        device,
        handle: Handle::current(),
        stats: Stats::default(),
        policy: Default::default(),
    }
}

fn gpu() -> (Device, warpio_core::testing::GpuControl) {
    let pool = PoolConfig { budget: 1 << 20, slot_len: 128 << 10, small_slot_len: 16 << 10, slab_len: 256 << 10 };
    FakeGpu::device(0, pool)
}

async fn read(device: Device) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.bin");
    std::fs::write(&path, pattern(LEN)).unwrap();
    let context = context(device);
    let file = LocalFile::open(&context, &path, &OpenOptions::new().read(true)).await.unwrap();
    read_contract(&file, LEN).await;
    file.close().await.unwrap();
    context.stats.idle().await;
}

async fn write(device: Device) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.bin");
    let context = context(device);
    let options = OpenOptions::new().read(true).write(true).create(true);
    let file = LocalFile::open(&context, &path, &options).await.unwrap();
    write_contract(&file, || async { std::fs::read(&path).unwrap() }).await;
    file.close().await.unwrap();
}

#[tokio::test]
async fn read_into_host_memory() {
    read(Device::host()).await;
}

#[tokio::test]
async fn read_into_a_gpu() {
    let (device, gpu) = gpu();
    read(device).await;
    assert_eq!(gpu.allocations(), 0, "every buffer was freed");
}

#[tokio::test]
async fn write_from_host_memory() {
    write(Device::host()).await;
}

#[tokio::test]
async fn write_from_a_gpu() {
    let (device, gpu) = gpu();
    write(device).await;
    assert_eq!(gpu.allocations(), 0, "every buffer was freed");
}

#[tokio::test]
async fn a_sink_under_its_temporary_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.bin");
    let sink = FileSink::create(&context(Device::host()), &path).await.unwrap();
    let temporary = sink.temporary_path().unwrap();
    write_contract(&sink, || async { std::fs::read(&temporary).or_else(|_| std::fs::read(&path)).unwrap() }).await;
    assert!(path.exists() && !temporary.exists());
}
