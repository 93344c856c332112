//! What the tests of remote sources share.

use std::time::Duration;

use warpio_core::testing::FakeGpu;
use warpio_core::{AsyncDeviceRead, AsyncDeviceReadExt, Device, Error, PoolConfig, Result};
use warpio_remote::{Http, Remote, RemoteContext, RemoteSettings, S3, S3Builder};
use warpio_tests::servers::fault::{Answer, FaultServer};

/// Bytes that depend on their offset, so that one in the wrong place is seen.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    warpio_core::testing::pattern(len)
}

/// Settings that fail fast.
pub(crate) fn settings(change: impl FnOnce(&mut RemoteSettings)) -> RemoteSettings {
    let mut settings = RemoteSettings::default();
    settings.attempts = 4;
    settings.backoff = Duration::from_millis(2);
    settings.backoff_limit = Duration::from_millis(1500);
    settings.connect_timeout = Duration::from_secs(5);
    settings.stall_timeout = Duration::from_millis(400);
    settings.threads = Some(2);
    change(&mut settings);
    settings
}

pub(crate) fn host(change: impl FnOnce(&mut RemoteSettings)) -> RemoteContext {
    RemoteContext::with_settings(Device::host_with(small_pool()), settings(change))
}

/// A device that nothing but staged copies reaches.
pub(crate) fn gpu(change: impl FnOnce(&mut RemoteSettings)) -> RemoteContext {
    let (device, _) = FakeGpu::device(0, small_pool());
    RemoteContext::with_settings(device, settings(change))
}

/// Few and small slots, so that objects of a test pass through several of them.
pub(crate) fn small_pool() -> PoolConfig {
    PoolConfig { budget: 1 << 20, slot_len: 64 << 10, small_slot_len: 4 << 10, slab_len: 256 << 10 }
}

/// An object on `server`, asked for as a URL.
pub(crate) fn by_http(context: &RemoteContext, server: &FaultServer) -> Result<Remote> {
    Http::builder(&server.url("/bucket/object"))?.source(context)
}

/// The same object, asked for by the protocol of S3.
pub(crate) fn by_s3(context: &RemoteContext, server: &FaultServer) -> Result<Remote> {
    s3(server).bucket(context, "bucket")?.source("object")
}

pub(crate) fn s3(server: &FaultServer) -> S3Builder {
    S3::builder().endpoint(server.url("")).credentials("the-id", "hidden-secret")
}

/// A store with one object of a thousand bytes, which lets everybody in.
pub(crate) async fn store() -> FaultServer {
    let object = pattern(1000);
    FaultServer::start(move |seen| Answer::of(&object, seen).send(&seen.method)).await
}

/// All of a source, in host memory.
pub(crate) async fn read_all(source: &Remote) -> Result<Vec<u8>> {
    Ok(source.read_all().await?.to_host().await?.to_vec())
}

/// Some of a source, in host memory: as much as there is.
pub(crate) async fn read_at(source: &Remote, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
    let buffer = source.device().alloc(len)?;
    let moved = source.read_at(offset, buffer).await?;
    let bytes = moved.buffer.freeze().to_host().await?;
    Ok(bytes[..moved.n].to_vec())
}
