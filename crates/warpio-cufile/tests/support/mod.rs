//! What the tests share: a software GPU with a software cuFile, and files.
#![allow(dead_code, reason = "not every test binary uses all of it")]

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use futures::future::BoxFuture;
use tempfile::TempDir;
use warpio_core::engine::Starter;
use warpio_core::plan::Split;
use warpio_core::{
    AsyncDeviceRead, AsyncDeviceWrite, Description, Device, DeviceBytes, DeviceBytesMut, Failed, Moved, PoolConfig,
    Transfer,
};
use warpio_cuda::{CudaDeviceExt, CudaOptions, cuda_device};
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

/// Bytes that depend on their offsets, made once: files are up to 48 MiB long.
pub(crate) fn bytes() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let word = |at: u64| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ at).to_le_bytes();
    BYTES.get_or_init(|| (0..48 * MIB as u64 / 8).flat_map(word).collect())
}

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
        let pool = PoolConfig { budget: 16 * MIB, slot_len: 4 * MIB, small_slot_len: 64 * KIB, slab_len: 4 * MIB };
        let options = CudaOptions { pool, ..CudaOptions::default() };
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

    /// What `call` returns with the device's context current.
    pub(crate) fn device_context<T>(&self, call: impl FnOnce() -> T) -> T {
        self.device.in_context(call).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file of `len` bytes that depend on their offsets: [`bytes`].
    pub(crate) fn file(&self, len: usize) -> PathBuf {
        self.file_of(&bytes()[..len])
    }

    pub(crate) fn file_of(&self, bytes: &[u8]) -> PathBuf {
        let path = self.path("data.bin");
        std::fs::write(&path, bytes).unwrap();
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
        self.starter().read(Arc::new(target.clone()), offset, aligned(&self.device, len))
    }
}

/// Memory that begins at a multiple of 4 KiB, which that of small allocations need not.
pub(crate) fn aligned(device: &Device, len: usize) -> DeviceBytesMut {
    let mut buffer = device.alloc(len + 4096).unwrap();
    let at = buffer.device_ptr().next_multiple_of(4096) - buffer.device_ptr();
    let mut buffer = buffer.split_off(at as usize);
    drop(buffer.split_off(len));
    buffer
}

pub(crate) fn upload(device: &Device, bytes: &[u8]) -> DeviceBytes {
    let mut buffer = aligned(device, bytes.len());
    let stream = device.new_stream().unwrap();
    for (at, piece) in bytes.chunks(MIB).enumerate().map(|(i, piece)| (i * MIB, piece)) {
        let mut slot = device.staging().acquire_blocking(piece.len()).unwrap();
        slot.as_mut_slice()[..piece.len()].copy_from_slice(piece);
        let to = NonNull::new(buffer.as_mut_ptr()).unwrap();
        // SAFETY: within the buffer; slot and buffer are held until the copy is done.
        unsafe { stream.backend().copy_to_device(to.add(at), slot.as_ptr(), piece.len()).unwrap() };
        stream.record().unwrap().synchronize().unwrap();
    }
    buffer.freeze()
}

/// Waits for a transfer, and no longer than a test may take.
#[track_caller]
pub(crate) fn finished(transfer: Transfer) -> Moved<DeviceBytesMut> {
    block_on(transfer.deadline(Instant::now() + PATIENCE)).expect("transfer")
}

/// As [`finished`], for a transfer that may fail.
pub(crate) fn outcome(transfer: Transfer) -> Result<Moved<DeviceBytesMut>, Failed<DeviceBytesMut>> {
    block_on(transfer.deadline(Instant::now() + PATIENCE))
}

pub(crate) fn to_host(buffer: DeviceBytesMut) -> Vec<u8> {
    block_on(buffer.freeze().to_host()).unwrap().to_vec()
}

/// Whether a buffer holds the bytes of [`Rig::file`] from `offset` on.
#[track_caller]
pub(crate) fn assert_bytes(buffer: DeviceBytesMut, offset: usize, n: usize) {
    assert!(to_host(buffer)[..n] == bytes()[offset..offset + n], "wrong bytes");
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

/// Runs the calling test in a process of its own, where this is `false`, and sees that it succeeds there.
#[track_caller]
pub(crate) fn succeeded_in_child(test: &str) -> bool {
    let Some(output) = in_child(test) else { return false };
    let said = text(&output);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    true
}

/// What a child wrote.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A file as the source and sink that the contract suites take.
#[derive(Debug)]
pub(crate) struct Tested {
    starter: Starter,
    target: CuFileTarget,
    path: PathBuf,
}

impl Tested {
    pub(crate) fn new(bench: &Bench, target: CuFileTarget, path: &Path, task: usize) -> Self {
        Self { starter: bench.starter_of(task), target, path: path.to_owned() }
    }

    fn file(&self) -> warpio_core::Result<File> {
        Ok(File::options().write(true).open(&self.path)?)
    }
}

impl AsyncDeviceRead for Tested {
    fn device(&self) -> &Device {
        self.starter.device()
    }

    fn describe(&self) -> Description {
        Description::new("test", "file", "cufile")
    }

    fn size(&self) -> BoxFuture<'_, warpio_core::Result<u64>> {
        Box::pin(async { Ok(std::fs::metadata(&self.path)?.len()) })
    }

    fn read_at(&self, offset: u64, buf: DeviceBytesMut) -> Transfer {
        self.starter.read(Arc::new(self.target.clone()), offset, buf)
    }
}

impl AsyncDeviceWrite for Tested {
    fn device(&self) -> &Device {
        self.starter.device()
    }

    fn describe(&self) -> Description {
        Description::new("test", "file", "cufile").with_capabilities(|c| {
            c.write_at = true;
            c.set_len = true;
        })
    }

    fn write_at(&self, offset: u64, buf: DeviceBytes) -> Transfer<DeviceBytes> {
        self.starter.write(Arc::new(self.target.clone()), offset, buf)
    }

    fn append(&self, buf: DeviceBytes) -> Transfer<DeviceBytes> {
        Transfer::failed(warpio_core::Error::unsupported("not here"), Some(buf))
    }

    fn set_len(&self, len: u64) -> BoxFuture<'_, warpio_core::Result<()>> {
        Box::pin(async move { Ok(self.file()?.set_len(len)?) })
    }

    fn sync(&self) -> BoxFuture<'_, warpio_core::Result<()>> {
        Box::pin(async { Ok(self.file()?.sync_all()?) })
    }

    fn finish(&self) -> BoxFuture<'_, warpio_core::Result<()>> {
        self.sync()
    }
}
