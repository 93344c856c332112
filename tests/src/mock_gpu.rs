//! The software GPU for tests: finds it, loads it in place of the driver, and controls it.
//!
//! [`session`] is the way in: it loads the mock before the first CUDA call and gives a test the GPU for itself, since
//! what it is told to do holds for the whole process. With `WARPIO_TEST_CUDA=real` nothing is loaded and the machine's
//! own driver answers; such a session has no [`Control`].

use std::{
    env,
    ops::Deref,
    path::PathBuf,
    ptr::NonNull,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use libloading::os::unix::{Library, Symbol};

use crate::mock;

/// The file that cargo makes of the `mock-cuda` package.
const FILE: &str = "libmock_cuda.so";

/// The variable that keeps the mock away, set to `real`.
const CHOICE: &str = "WARPIO_TEST_CUDA";

/// What the software GPU holds and has done, as its `mock_cuda_counters` gives it: first what is alive, from
/// `copies_submitted` on what was done since the last reset. Bytes where not said otherwise.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it; the mock's README explains the others")]
pub struct Counters {
    pub device_allocations: u64,
    pub device_bytes: u64,
    pub pinned_allocations: u64,
    pub pinned_bytes: u64,
    pub registered_ranges: u64,
    pub registered_bytes: u64,
    pub contexts: u64,
    /// Without default streams.
    pub streams: u64,
    pub events: u64,
    pub modules: u64,
    /// Streams that stand with a copy at the closed gate.
    pub copies_held: u64,
    pub copies_in_flight: u64,
    pub bytes_in_flight: u64,
    pub copies_submitted: u64,
    pub copies_completed: u64,
    /// Copies that a broken context discarded.
    pub copies_discarded: u64,
    pub bytes_copied: u64,
    pub max_copies_in_flight: u64,
    pub max_bytes_in_flight: u64,
    pub kernels_run: u64,
    pub host_functions_run: u64,
    /// Misuses that hardware would suffer silently: memory freed under a transfer, or used before its stream-ordered
    /// allocation.
    pub violations: u64,
}

type Resolve = unsafe extern "C" fn(u64, usize) -> *mut u8;

/// The controls of the loaded software GPU. Entry points are named whatever their version.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    common: mock::Control<Counters>,
    resolve: Resolve,
}

impl Deref for Control {
    type Target = mock::Control<Counters>;

    fn deref(&self) -> &Self::Target {
        &self.common
    }
}

impl Control {
    fn of(library: &Library) -> Result<Self, libloading::Error> {
        // SAFETY: the mock exports this function and these counters, and what `load` opens stays.
        unsafe {
            let resolve: Symbol<Resolve> = library.get("mock_cuda_resolve")?;
            Ok(Self { common: mock::Control::of(library, "mock_cuda", "the mock GPU")?, resolve: *resolve })
        }
    }

    /// Where the CPU finds the bytes of a device pointer, as long as the allocation lives.
    pub fn resolve(&self, pointer: u64, len: usize) -> Option<NonNull<u8>> {
        // SAFETY: any address and length may be asked for.
        NonNull::new(unsafe { (self.resolve)(pointer, len) })
    }
}

/// Where the mock lies: beside the test executable or one folder above it. For children, which get it by `LD_PRELOAD`.
pub fn path() -> Option<PathBuf> {
    mock::beside(FILE)
}

/// Whether the machine's own driver is to be used.
pub fn is_real() -> bool {
    env::var_os(CHOICE).is_some_and(|choice| choice == "real")
}

/// Loads the mock, once, so that CUDA calls from here on reach it. `None` with `WARPIO_TEST_CUDA=real`.
///
/// It must run before the first CUDA call of the process.
///
/// # Panics
///
/// If the mock is not there or does not load. The package that runs the test needs `mock-cuda` as a dev-dependency.
pub fn load() -> Option<Control> {
    static LOADED: OnceLock<Option<Control>> = OnceLock::new();
    *LOADED.get_or_init(|| (!is_real()).then(load_mock))
}

fn load_mock() -> Control {
    let Some(path) = path() else {
        panic!("there is no {FILE} beside the test executable: is mock-cuda a dev-dependency?");
    };
    mock::load(&path, Control::of)
}

/// The GPU for one test at a time: the software GPU is one for the whole process. It is reset at both ends.
#[derive(Debug)]
pub struct Session {
    control: Option<Control>,
    _alone: MutexGuard<'static, ()>,
}

impl Session {
    /// The controls; none on a real GPU.
    pub fn control(&self) -> Option<Control> {
        self.control
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(control) = self.control {
            // Not `ctl`: a test may be panicking.
            let _ = control.try_ctl("reset");
        }
    }
}

/// Waits for the GPU and takes it.
pub fn session() -> Session {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let control = load();
    if let Some(control) = control {
        control.ctl("reset");
    }
    Session { control, _alone: alone }
}
