//! Runtimes, files and surroundings for the tests.

pub(crate) mod child;
pub(crate) mod machine;

use std::path::{Path, PathBuf};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use warpio::config::{DirectIo, EngineChoice};
use warpio::core::PoolConfig;
use warpio::core::testing::{FakeGpu, GpuControl, pattern};
use warpio::{Device, DeviceBytes, ErrorKind, Runtime, RuntimeBuilder};

pub(crate) const MIB: usize = 1 << 20;
pub(crate) const KIB: usize = 1 << 10;

/// Segments are as long as this, so that small files have several.
pub(crate) const TASK: usize = 128 * KIB;

/// Long after anything has gone wrong.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A GPU with two large staging slots.
pub(crate) fn gpu() -> (Device, GpuControl) {
    let pool = PoolConfig { budget: 320 * KIB, slot_len: TASK, small_slot_len: 16 * KIB, slab_len: 256 * KIB };
    FakeGpu::device(0, pool)
}

/// A runtime's settings apart from the environment.
pub(crate) fn builder() -> RuntimeBuilder {
    Runtime::builder().ignore_environment().task_size(TASK as u64)
}

/// A runtime on host memory.
pub(crate) fn on_host() -> Runtime {
    builder().on_device(Device::host()).build().unwrap()
}

/// A runtime on a GPU, and what holds its work back.
pub(crate) fn on_gpu() -> (Runtime, GpuControl) {
    let (device, control) = gpu();
    (builder().on_device(device).build().unwrap(), control)
}

/// As [`on_gpu`], with one thread for cached files, which reads the segments of a transfer in their order.
pub(crate) fn on_gpu_in_order() -> (Runtime, GpuControl) {
    let (device, control) = gpu();
    (builder().threads(1).on_device(device).build().unwrap(), control)
}

/// Runs `test` with host memory and a GPU, each engine, and past the page cache too.
pub(crate) async fn for_each_runtime(test: impl AsyncFn(&Runtime)) {
    for (engine, direct) in [
        (EngineChoice::Auto, DirectIo::Auto),
        (EngineChoice::Posix, DirectIo::Auto),
        (EngineChoice::Auto, DirectIo::Always),
        (EngineChoice::TokioUring, DirectIo::Always),
        (EngineChoice::Posix, DirectIo::Never),
    ] {
        for device in [Device::host(), gpu().0] {
            let settings = builder().engine(engine).direct_read(direct).direct_write(direct);
            let rt = settings.on_device(device).build().unwrap();
            test(&rt).await;
            rt.shutdown(LONG).await.unwrap();
        }
    }
}

/// Runs `test` on a tokio runtime of this thread, as one does in a thread whose mounts or user are its own.
pub(crate) fn block_on<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

/// A directory that is gone at the end.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Where the build lies, which is on a disk more often than the system's temporary directory.
    pub(crate) fn on_disk() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    pub(crate) fn dir(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// A file with `len` bytes of the pattern.
    pub(crate) fn file(&self, name: &str, len: usize) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, pattern(len)).unwrap();
        path
    }
}

/// The names in a directory, in order.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What device memory holds.
pub(crate) async fn host(bytes: &DeviceBytes) -> Vec<u8> {
    bytes.to_host().await.unwrap().to_vec()
}

/// `bytes` in the memory of the runtime's device.
pub(crate) async fn upload(rt: &Runtime, bytes: &[u8]) -> DeviceBytes {
    rt.device().upload(bytes).await.unwrap().freeze()
}

/// Looks once at what a future has come to.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Waits for what no event tells of.
pub(crate) async fn until(what: &str, done: impl Fn() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < LONG, "waited in vain until {what}");
        tokio::task::yield_now().await;
    }
}

/// What is expected of an error that a user reads.
#[track_caller]
pub(crate) fn is(error: &warpio::Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
}
