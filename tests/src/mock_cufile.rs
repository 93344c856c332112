//! The software cuFile for tests: finds it, loads it, and controls it.
//!
//! It works over the software GPU. [`session`] gives a test both for itself.

use std::{
    env,
    ffi::{CString, c_char, c_int},
    mem::ManuallyDrop,
    path::PathBuf,
    sync::OnceLock,
};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};

use crate::mock_gpu;

/// Which of the two libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edition {
    /// With all functions.
    Current,
    /// With those of 1.11.
    Old,
}

/// What the software cuFile holds and has done, as its `mock_cufile_counters` gives it: first what is alive, from
/// `max_in_flight` on what was done since the last reset. Bytes where not said otherwise.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it; the mock's README explains the others")]
pub struct Counters {
    pub open: u64,
    pub handles: u64,
    pub buffers: u64,
    pub pinned_bytes: u64,
    pub batches: u64,
    pub streams: u64,
    pub in_flight: u64,
    pub blocked: u64,
    pub max_in_flight: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub entries: u64,
    pub leaks: u64,
    pub violations: u64,
    pub idle_us: u64,
}

type Ctl = unsafe extern "C" fn(*const c_char) -> c_int;
type CountersInto = unsafe extern "C" fn(*mut Counters, usize) -> c_int;
type Calls = unsafe extern "C" fn(*const c_char) -> u64;

/// The controls of a loaded software cuFile.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    ctl: Ctl,
    counters: CountersInto,
    calls: Calls,
}

impl Control {
    fn of(library: &Library) -> Result<Self, libloading::Error> {
        // SAFETY: the mock exports these functions with these signatures, and is never unloaded.
        unsafe {
            let ctl: Symbol<Ctl> = library.get("mock_cufile_ctl")?;
            let counters: Symbol<CountersInto> = library.get("mock_cufile_counters")?;
            let calls: Symbol<Calls> = library.get("mock_cufile_calls")?;
            Ok(Self { ctl: *ctl, counters: *counters, calls: *calls })
        }
    }

    /// Carries out commands, separated by `;`. The mock's README lists them.
    ///
    /// # Errors
    ///
    /// -1 if a command was not understood, -3 if one waited in vain.
    pub fn try_ctl(&self, commands: &str) -> Result<(), c_int> {
        let text = CString::new(commands).map_err(|_| -1)?;
        // SAFETY: a NUL-terminated string that lives until the call returns.
        match unsafe { (self.ctl)(text.as_ptr()) } {
            0 => Ok(()),
            code => Err(code),
        }
    }

    /// Carries out commands.
    ///
    /// # Panics
    ///
    /// If one fails.
    #[track_caller]
    pub fn ctl(&self, commands: &str) {
        if let Err(code) = self.try_ctl(commands) {
            panic!("the mock cuFile answers {code} to {commands:?}");
        }
    }

    /// The counters as they are now.
    ///
    /// # Panics
    ///
    /// If the mock's counters are not those that this module knows.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        // SAFETY: a place for the counters, with its size.
        let code = unsafe { (self.counters)(&raw mut counters, size_of::<Counters>()) };
        assert_eq!(code, 0, "the mock cuFile has other counters");
        counters
    }

    /// How often an entry point was called since the last reset, named without `cuFile`.
    pub fn calls(&self, name: &str) -> u64 {
        let Ok(name) = CString::new(name) else {
            return 0;
        };
        // SAFETY: a NUL-terminated string that lives until the call returns.
        unsafe { (self.calls)(name.as_ptr()) }
    }
}

/// Where the mock lies: beside the test executable or one folder above it.
pub fn path(edition: Edition) -> Option<PathBuf> {
    let file = match edition {
        Edition::Current => "libmock_cufile.so",
        Edition::Old => "libmock_cufile_old.so",
    };
    let executable = env::current_exe().ok()?;
    executable.ancestors().skip(1).take(2).map(|folder| folder.join(file)).find(|file| file.is_file())
}

/// Loads the mock, once.
///
/// # Panics
///
/// If the mock is not there or does not load. The package that runs the test needs it as a dev-dependency.
pub fn load(edition: Edition) -> Control {
    static LOADED: [OnceLock<Control>; 2] = [OnceLock::new(), OnceLock::new()];
    *LOADED[edition as usize].get_or_init(|| {
        let Some(path) = path(edition) else {
            panic!("no mock of cuFile beside the test executable: is it a dev-dependency?");
        };
        // SAFETY: loading the mock runs nothing but its dynamic relocations.
        let loaded = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL | libc::RTLD_NODELETE) };
        // Never closed: its threads run its code.
        match loaded.map(ManuallyDrop::new).and_then(|library| Control::of(&library)) {
            Ok(control) => control,
            Err(error) => panic!("{} does not load: {error}", path.display()),
        }
    })
}

/// The software GPU and a software cuFile for one test at a time. Both are reset at both ends.
#[derive(Debug)]
pub struct Session {
    control: Control,
    // Behind `drop`: cuFile lets go of streams first.
    gpu: mock_gpu::Session,
}

impl Session {
    /// The controls of cuFile.
    pub fn control(&self) -> Control {
        self.control
    }

    /// The GPU's session.
    pub fn gpu(&self) -> &mock_gpu::Session {
        &self.gpu
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Not `ctl`: a test may be panicking.
        let _ = self.control.try_ctl("reset");
    }
}

/// Waits for both, and takes them. `None` on a real GPU, whose memory the mock cannot reach.
pub fn session(edition: Edition) -> Option<Session> {
    let gpu = mock_gpu::session();
    gpu.control()?;
    let control = load(edition);
    control.ctl("reset");
    Some(Session { control, gpu })
}
