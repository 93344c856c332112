//! A file, and the engines that read it in a runtime.

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tokio::runtime::Handle;
use warpio_core::engine::Stats;
use warpio_core::plan::Split;
use warpio_core::testing::pattern;
use warpio_core::{Device, PoolConfig, Result};
use warpio_local::engine::{AutoEngine, DirectPolicy, DirectThreads, PosixEngine};
use warpio_local::file::FileContext;
use warpio_local::mmap::{MmapOptions, MmapSource};

/// How long the file is.
pub(crate) const LEN: usize = 300_000;

/// Slots so small that few ranges fit in one, and little of them.
pub(crate) fn small_pool() -> PoolConfig {
    PoolConfig { slot_len: 64 << 10, budget: 512 << 10, slab_len: 128 << 10, small_slot_len: 8 << 10 }
}

/// The smallest that there may be: a slot of one page, and one for what is small.
pub(crate) fn tiny_pool() -> PoolConfig {
    PoolConfig { slot_len: 4096, budget: 8192, slab_len: 4096, small_slot_len: 4096 }
}

/// A file on a disk, what it holds, and how it is read.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
    pub(crate) bytes: Vec<u8>,
    pub(crate) stats: Stats,
    pub(crate) gap: u64,
    pub(crate) policy: DirectPolicy,
}

impl Place {
    pub(crate) fn new() -> Self {
        let (dir, bytes) = (super::disk_dir(), pattern(LEN));
        let place = Self { dir, bytes, stats: Stats::default(), gap: 4096, policy: DirectPolicy::default() };
        super::file_with(&place.path(), &place.bytes);
        place
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("data.bin")
    }

    /// Cuts the file short, or lets it grow.
    pub(crate) fn truncate(&self, len: u64) {
        std::fs::File::options().write(true).open(self.path()).unwrap().set_len(len).unwrap();
    }

    pub(crate) fn context(&self, device: &Device) -> FileContext {
        let threads = Arc::new(DirectThreads::start(2).unwrap());
        let copies = PosixEngine::start_beside(3, Some(threads.clone())).unwrap();
        FileContext {
            engine: Arc::new(AutoEngine::new(copies, threads)),
            split: Split::new(16 << 10).unwrap(),
            device: device.clone(),
            handle: Handle::current(),
            stats: self.stats.clone(),
            policy: self.policy,
            gap: self.gap,
        }
    }

    /// The file, mapped.
    pub(crate) async fn map(&self, device: &Device, options: MmapOptions) -> Result<MmapSource> {
        MmapSource::open(&self.context(device), self.path(), options).await
    }
}
