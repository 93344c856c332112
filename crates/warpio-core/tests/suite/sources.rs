//! The sources of this crate under the contract suite.

use warpio_core::testing::{FakeGpu, MemorySource, pattern, read_contract};
use warpio_core::{AsyncDeviceRead, Description, Device, Fetch, PoolConfig, Result, Staged};

const LEN: usize = 1_000_003;

fn small_pool() -> PoolConfig {
    PoolConfig { budget: 1 << 20, slot_len: 128 << 10, small_slot_len: 16 << 10, slab_len: 256 << 10 }
}

#[tokio::test]
async fn memory_into_host_memory() {
    read_contract(&MemorySource::new(pattern(LEN)), LEN).await;
}

#[tokio::test]
async fn memory_into_a_gpu() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    read_contract(&MemorySource::on_device(pattern(LEN), device.clone()), LEN).await;
    gpu.wait_freed();
}

struct Slow(Vec<u8>);

impl Fetch for Slow {
    async fn size(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }

    async fn fetch(&self, offset: u64, dst: &mut [u8]) -> Result<usize> {
        let start = self.0.len().min(offset as usize);
        let n = dst.len().min(self.0.len() - start);
        let (first, second) = (n / 2, n - n / 2);
        dst[..first].copy_from_slice(&self.0[start..start + first]);
        tokio::task::yield_now().await;
        dst[first..n].copy_from_slice(&self.0[start + first..start + first + second]);
        Ok(n)
    }

    fn describe(&self) -> Description {
        Description::new("slow", "slow", "staged")
    }
}

#[tokio::test]
async fn fetched_into_host_memory() {
    let source = Staged::with_parts(Slow(pattern(LEN)), Device::host(), tokio::runtime::Handle::current(), 50_000, 3);
    read_contract(&source, LEN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fetched_into_a_gpu() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let source = Staged::new(Slow(pattern(LEN)), device, tokio::runtime::Handle::current());
    read_contract(&source, LEN).await;
    drop(source);
    tokio::task::spawn_blocking(move || gpu.wait_freed()).await.unwrap();
}

#[tokio::test]
async fn references_and_boxes() {
    let source: Box<dyn AsyncDeviceRead> = Box::new(MemorySource::new(pattern(LEN)));
    read_contract(&source, LEN).await;
    read_contract(&std::sync::Arc::new(source), LEN).await;
}
