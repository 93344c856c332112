//! What the controls of the mocks have in common.

use std::{
    env,
    ffi::{CString, c_char, c_int},
    mem::ManuallyDrop,
    path::{Path, PathBuf},
};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};

type Ctl = unsafe extern "C" fn(*const c_char) -> c_int;
type CountersInto<C> = unsafe extern "C" fn(*mut C, usize) -> c_int;
type Calls = unsafe extern "C" fn(*const c_char) -> u64;

/// The controls of a loaded mock, whose counters are a `C`.
#[derive(Clone, Copy, Debug)]
pub struct Control<C> {
    mock: &'static str,
    ctl: Ctl,
    counters: CountersInto<C>,
    calls: Calls,
}

impl<C: Default> Control<C> {
    /// Those of `library`, a mock that calls its functions by `prefix` and is called `mock` in messages.
    ///
    /// # Safety
    ///
    /// Its counters are a `C`, and it is never unloaded.
    pub(crate) unsafe fn of(library: &Library, prefix: &str, mock: &'static str) -> Result<Self, libloading::Error> {
        // SAFETY: the mocks export these functions with these signatures; for the counters the caller vouches.
        unsafe {
            let ctl: Symbol<Ctl> = library.get(format!("{prefix}_ctl"))?;
            let counters: Symbol<CountersInto<C>> = library.get(format!("{prefix}_counters"))?;
            let calls: Symbol<Calls> = library.get(format!("{prefix}_calls"))?;
            Ok(Self { mock, ctl: *ctl, counters: *counters, calls: *calls })
        }
    }

    /// Carries out commands, separated by `;`. The mock's README lists them.
    ///
    /// # Errors
    ///
    /// -1 if a command was not understood, -2 if one was refused, -3 if one waited in vain.
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
            panic!("{} answers {code} to {commands:?}", self.mock);
        }
    }

    /// The counters as they are now.
    ///
    /// # Panics
    ///
    /// If the mock's counters are not those that this package knows.
    pub fn counters(&self) -> C {
        let mut counters = C::default();
        // SAFETY: a place for the counters, with its size.
        let code = unsafe { (self.counters)(&raw mut counters, size_of::<C>()) };
        assert_eq!(code, 0, "{} has other counters", self.mock);
        counters
    }

    /// How often an entry point was called since the last reset: as the mock's README names them.
    pub fn calls(&self, name: &str) -> u64 {
        let Ok(name) = CString::new(name) else {
            return 0;
        };
        // SAFETY: a NUL-terminated string that lives until the call returns.
        unsafe { (self.calls)(name.as_ptr()) }
    }
}

/// Where cargo puts a mock: beside the test executable or one folder above it.
pub(crate) fn beside(file: &str) -> Option<PathBuf> {
    let executable = env::current_exe().ok()?;
    executable.ancestors().skip(1).take(2).map(|folder| folder.join(file)).find(|file| file.is_file())
}

/// Loads the mock at `path` and takes its controls by `of`.
///
/// # Panics
///
/// If it does not load.
pub(crate) fn load<T>(path: &Path, of: impl FnOnce(&Library) -> Result<T, libloading::Error>) -> T {
    // SAFETY: loading a mock runs nothing but its dynamic relocations.
    let loaded = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL | libc::RTLD_NODELETE) };
    // Never closed: its threads run its code.
    match loaded.map(ManuallyDrop::new).and_then(|library| of(&library)) {
        Ok(control) => control,
        Err(error) => panic!("{} does not load: {error}", path.display()),
    }
}
