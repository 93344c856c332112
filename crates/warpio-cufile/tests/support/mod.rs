//! What the tests share: a software GPU with a software cuFile, and files.
#![allow(dead_code, reason = "not every test binary uses all of it")]

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use tempfile::TempDir;
use warpio_core::engine::Starter;
use warpio_core::plan::Split;
use warpio_core::testing::pattern;
use warpio_core::{Device, DeviceBytes, DeviceBytesMut, Moved, PoolConfig, Transfer};
use warpio_cuda::{CudaOptions, cuda_device};
use warpio_cufile::{
    CuFile, CuFileEngine, CuFileTarget, Driver, DriverOptions, EngineOptions, Library, Surroundings, wait_for_releases,
};
use warpio_local::engine::{DirectThreads, OpenFile};
use warpio_tests::mock_cufile::{self, Control, Edition, Session};
use warpio_tests::mock_gpu;

pub(crate) const KIB: usize = 1 << 10;
pub(crate) const MIB: usize = 1 << 20;

/// How long a test waits for what has to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A machine on which cuFile may be called, whatever this one is like.
pub(crate) fn surroundings() -> Surroundings {
    let mut found = Surroundings::probe_under(Path::new("/nowhere"));
    found.modules = true;
    found.udev = true;
    found
}

pub(crate) fn options() -> DriverOptions {
    DriverOptions::new().surroundings(surroundings())
}

/// Both mocks for one test, when everything of earlier tests is gone.
pub(crate) struct Rig {
    pub(crate) device: Device,
    pub(crate) mock: Control,
    pub(crate) library: &'static Library,
    dir: TempDir,
    session: Session,
}

impl Rig {
    /// `None`, and a word about it, on a real GPU.
    pub(crate) fn new(plan: &str) -> Option<Self> {
        Self::with(Edition::Current, plan)
    }

    pub(crate) fn with(edition: Edition, plan: &str) -> Option<Self> {
        let Some(session) = mock_cufile::session(edition) else {
            let test = std::thread::current().name().unwrap_or_default().to_owned();
            eprintln!("SKIPPED on a real GPU: {test}");
            return None;
        };
        let mock = session.control();
        until(|| {
            wait_for_releases();
            warpio_cuda::wait_for_releases();
            mock.counters().open == 0 && gpu(&session).counters().contexts == 0
        });
        gpu(&session).ctl("reset");
        mock.ctl("reset");
        mock.ctl(plan);
        let mut options = CudaOptions::default();
        options.pool = PoolConfig { budget: 16 * MIB, slot_len: 4 * MIB, small_slot_len: 64 * KIB, slab_len: 4 * MIB };
        let device = cuda_device(0, options).unwrap();
        let library = Library::open(mock_cufile::path(edition).unwrap()).unwrap();
        Some(Self { device, mock, library, dir: tempfile::tempdir().unwrap(), session })
    }

    pub(crate) fn gpu(&self) -> mock_gpu::Control {
        gpu(&self.session)
    }

    pub(crate) fn driver(&self) -> Driver {
        Driver::open(self.library, &self.device, &options()).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file of `len` bytes that depend on their offsets.
    pub(crate) fn file(&self, len: usize) -> PathBuf {
        let path = self.path("data.bin");
        std::fs::write(&path, pattern(len)).unwrap();
        // Direct reads would have to wait for it anyway.
        File::open(&path).unwrap().sync_all().unwrap();
        path
    }

    /// An engine, and the file to read with it.
    pub(crate) fn engine(&self, options: EngineOptions) -> Bench {
        Bench::new(self, options)
    }
}

fn gpu(session: &Session) -> mock_gpu::Control {
    session.gpu().control().expect("the mock")
}

/// Opens a file past the page cache where its file system has that.
pub(crate) fn open_direct(path: &Path, write: bool) -> OwnedFd {
    let open = |flags| File::options().read(true).write(write).create(write).custom_flags(flags).open(path);
    open(libc::O_DIRECT).or_else(|_| open(0)).unwrap().into()
}

/// An engine under test, with one for what it does not do.
pub(crate) struct Bench {
    pub(crate) engine: Arc<CuFileEngine>,
    other: Arc<DirectThreads>,
    pub(crate) driver: Driver,
    device: Device,
}

impl Bench {
    fn new(rig: &Rig, options: EngineOptions) -> Self {
        let driver = rig.driver();
        let engine = Arc::new(CuFileEngine::start(&driver, options).unwrap());
        Self { engine, other: Arc::new(DirectThreads::start(2).unwrap()), driver, device: rig.device.clone() }
    }

    /// A file, and the target that leaves to the other engine what cuFile does not do.
    pub(crate) fn target(&self, path: &Path, write: bool) -> CuFileTarget {
        let other = File::options().read(true).write(write).open(path).unwrap();
        let other = Arc::new(OpenFile::new(other.into()));
        self.alone(path, write).with_otherwise(self.other.clone(), other)
    }

    /// A file for cuFile alone.
    pub(crate) fn alone(&self, path: &Path, write: bool) -> CuFileTarget {
        CuFileTarget::new(Arc::new(CuFile::new(open_direct(path, write)).unwrap()))
    }

    pub(crate) fn starter(&self) -> Starter {
        self.starter_of(4 * MIB)
    }

    pub(crate) fn starter_of(&self, task: usize) -> Starter {
        Starter::new(self.engine.clone(), Split::new(task).unwrap(), "test", self.device.clone())
    }

    pub(crate) fn read(&self, target: &CuFileTarget, offset: u64, len: usize) -> Transfer {
        self.starter().read(Arc::new(target.clone()), offset, self.device.alloc(len).unwrap())
    }
}

/// Waits for a transfer, and no longer than a test may take.
#[track_caller]
pub(crate) fn finished(transfer: Transfer) -> Moved<DeviceBytesMut> {
    block_on(transfer.deadline(Instant::now() + PATIENCE)).expect("transfer")
}

pub(crate) fn to_host(buffer: DeviceBytesMut) -> Vec<u8> {
    block_on(buffer.freeze().to_host()).unwrap().to_vec()
}

pub(crate) fn upload(device: &Device, bytes: &[u8]) -> DeviceBytes {
    block_on(device.upload(bytes)).unwrap().freeze()
}

/// Whether a buffer holds the bytes of [`Rig::file`] from `offset` on.
#[track_caller]
pub(crate) fn assert_bytes(buffer: DeviceBytesMut, offset: usize, n: usize) {
    let bytes = to_host(buffer);
    assert!(bytes[..n] == pattern(offset + n)[offset..], "wrong bytes");
}

/// Waits for something that nobody announces.
#[track_caller]
pub(crate) fn until(mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "waited in vain");
        std::thread::yield_now();
    }
}

const CHILD: &str = "WARPIO_TEST_CHILD";

/// Runs the calling test in a process of its own. In that process, this is `None`.
pub(crate) fn in_child(test: &str) -> Option<Output> {
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap();
    Some(child)
}

/// What a child wrote.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
