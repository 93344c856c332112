//! What the tests share: both mocks, a cuFile driver, and files of which it is known what is cached.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use warpio::cufile::{Driver, DriverOptions, Library, Surroundings, wait_for_releases};
use warpio::{AsyncDeviceRead, Device, DeviceBytesMut, Moved, PathKind, Result, Runtime, RuntimeBuilder, Transfer};
use warpio_tests::mock_cufile::{self, Control, Edition, Session};

pub(crate) const KIB: usize = 1 << 10;
pub(crate) const MIB: usize = 1 << 20;

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Rig {
    pub(crate) device: Device,
    pub(crate) mock: Control,
    dir: TempDir,
    _session: Session,
}

impl Rig {
    /// `None`, and a word about it, on a real GPU and where files live in memory.
    pub(crate) fn new(plan: &str) -> Option<Self> {
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let Some(session) = mock_cufile::session(Edition::Current) else {
            eprintln!("SKIPPED on a real GPU: {test}");
            return None;
        };
        let (mock, gpu) = (session.control(), session.gpu().control()?);
        until(|| {
            wait_for_releases();
            warpio::cuda::wait_for_releases();
            mock.counters().open == 0 && gpu.counters().contexts == 0
        });
        gpu.ctl("reset");
        mock.ctl("reset");
        mock.ctl(plan);
        let device = warpio::cuda::cuda_device(0, warpio::cuda::CudaOptions::default()).unwrap();
        // Beside the test's own executable: the folder for temporary files may be memory.
        let folder = std::env::current_exe().unwrap();
        let dir = tempfile::tempdir_in(folder.parent().unwrap()).unwrap();
        let rig = Self { device, mock, dir, _session: session };
        if rig.lives_in_memory() {
            eprintln!("SKIPPED: the build folder lies in memory, where everything is cached: {test}");
            return None;
        }
        Some(rig)
    }

    fn lives_in_memory(&self) -> bool {
        let probe = File::create(self.path("probe")).unwrap();
        warpio_local::engine::OpenFile::new(probe.into()).is_in_memory()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A driver on a machine where cuFile may be called, whatever this one is like.
    pub(crate) fn driver(&self) -> Driver {
        let mut machine = Surroundings::probe_under(Path::new("/nowhere"));
        machine.modules = true;
        machine.udev = true;
        let options = DriverOptions::new().surroundings(machine);
        Driver::open(self.library(), &self.device, &options).unwrap()
    }

    pub(crate) fn library(&self) -> &'static Library {
        Library::open(mock_cufile::path(Edition::Current).unwrap()).unwrap()
    }

    /// A runtime on the software GPU, without cuFile so far.
    pub(crate) fn builder(&self) -> RuntimeBuilder {
        Runtime::builder().ignore_environment().on_device(self.device.clone())
    }

    /// A runtime with an open cuFile driver.
    pub(crate) fn runtime(&self) -> Runtime {
        self.builder().on_cufile(self.driver()).build().unwrap()
    }

    /// A file of `len` bytes of [`bytes`], of which nothing is cached.
    pub(crate) fn cold(&self, len: usize) -> PathBuf {
        let path = self.path("data.bin");
        std::fs::write(&path, &bytes()[..len]).unwrap();
        chill(&path);
        path
    }
}

/// Throws a file out of the page cache.
pub(crate) fn chill(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    let len = file.metadata().unwrap().len();
    warpio_local::page_cache::drop_range(&file, 0..len).unwrap();
}

/// Bytes that depend on their offsets.
pub(crate) fn bytes() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let word = |at: u64| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ at).to_le_bytes();
    BYTES.get_or_init(|| (0..16 * MIB as u64 / 8).flat_map(word).collect())
}

/// Memory that begins at a multiple of 4 KiB.
pub(crate) fn aligned(device: &Device, len: usize) -> DeviceBytesMut {
    let mut buffer = device.alloc(len + 4096).unwrap();
    let at = buffer.device_ptr().next_multiple_of(4096) - buffer.device_ptr();
    let mut buffer = buffer.split_off(at as usize);
    drop(buffer.split_off(len));
    buffer
}

pub(crate) type Paths = Vec<(PathKind, u64)>;

/// Reads, looks at the bytes, and says which way they took.
pub(crate) async fn read(source: &impl AsyncDeviceRead, device: &Device, offset: usize, len: usize) -> Result<Paths> {
    let transfer: Transfer = source.read_at(offset as u64, aligned(device, len));
    let report = transfer.report();
    let Moved { n, buffer } = transfer.deadline(Instant::now() + PATIENCE).await?;
    let host = buffer.freeze().to_host().await?;
    assert!(host[..n] == bytes()[offset..offset + n], "wrong bytes");
    Ok(report.paths().collect())
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
