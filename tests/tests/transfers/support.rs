use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use warpio::{DeviceBytes, DeviceSpec, Runtime};
use warpio_tests::mock_gpu::{self, Session};

pub(crate) const MIB: usize = 1 << 20;

/// The GPU for one test alone, and a directory.
pub(crate) struct Place {
    pub(crate) gpu: Session,
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { gpu: mock_gpu::session(), dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file with bytes that depend on their offset.
    pub(crate) fn file(&self, name: &str, len: usize) -> (PathBuf, Vec<u8>) {
        let bytes = content(len);
        let path = self.path(name);
        std::fs::write(&path, &bytes).unwrap();
        (path, bytes)
    }
}

/// Small slots and little of them, so that transfers wait for one another.
pub(crate) fn runtime() -> Runtime {
    Runtime::builder()
        .device(DeviceSpec::Cuda(0))
        .slot_size(256 << 10)
        .task_size(256 << 10)
        .staging_budget(3 << 20)
        .ignore_environment()
        .build()
        .unwrap()
}

pub(crate) fn content(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

pub(crate) async fn host(bytes: &DeviceBytes) -> Vec<u8> {
    bytes.to_host().await.unwrap().to_vec()
}

pub(crate) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

pub(crate) async fn shutdown(rt: Runtime) {
    rt.shutdown(Duration::from_secs(20)).await.unwrap();
}
