use std::collections::HashMap;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};

use super::api::Api;
use super::search::candidates;
use crate::Unavailable;
use crate::driver::DriverState;

/// libcufile, loaded. It stays loaded until the process ends: it starts threads that run its code.
pub struct Library {
    api: Api,
    path: PathBuf,
    version: LibraryVersion,
    pub(crate) driver: Mutex<DriverState>,
}

impl Library {
    /// The library of this process, looked for at the first call: what `WARPIO_CUFILE_LIBRARY` names, else
    /// `libcufile.so.0`, `libcufile.so`, and the folders of toolkits, wheels and Conda.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find() -> Result<&'static Self, Unavailable> {
        static FOUND: OnceLock<Result<&'static Library, Unavailable>> = OnceLock::new();
        let look = || {
            let mut refusals = Vec::new();
            for path in candidates(|name| std::env::var_os(name), Path::new("/")) {
                match Self::open(&path) {
                    Ok(library) => return Ok(library),
                    Err(Unavailable::NoLibrary { reason }) => refusals.push(reason),
                    Err(reason) => return Err(reason),
                }
            }
            // The first name is the one that everybody has; the reasons of the others only repeat it.
            let reason = refusals.into_iter().next().unwrap_or_default();
            Err(Unavailable::NoLibrary { reason })
        };
        FOUND.get_or_init(look).clone()
    }

    /// The library at `path`, or of that name. Loading it again gives the same one.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn open(path: impl AsRef<Path>) -> Result<&'static Self, Unavailable> {
        let path = path.as_ref();
        let mut opened = opened();
        if let Some(library) = opened.get(path) {
            return Ok(library);
        }
        // SAFETY: whoever names a library vouches for what its initialisers do; those of libcufile only set up its
        // own data. It is never unloaded.
        let loaded = unsafe { Loaded::open(Some(path), RTLD_NOW | RTLD_LOCAL | libc::RTLD_NODELETE) };
        // What the loader says stands in the cause.
        let loaded = loaded.map(ManuallyDrop::new).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            Unavailable::NoLibrary { reason: cause.unwrap_or_else(|| error.to_string()) }
        })?;
        // SAFETY: as above.
        let api = unsafe { Api::resolve(&loaded) };
        let api = api.map_err(|function| Unavailable::MissingFunction { path: path.to_owned(), function })?;
        let mut number = 0;
        // SAFETY: a valid place for the result; the call needs nothing to be open.
        let status = unsafe { (api.cuFileGetVersion)(&mut number) };
        let version = LibraryVersion::from_number(if status.err.0 == 0 { number } else { 0 });
        let library: &'static Self =
            Box::leak(Box::new(Self { api, path: path.to_owned(), version, driver: Mutex::default() }));
        opened.insert(path.to_owned(), library);
        Ok(library)
    }

    /// What the library was loaded as.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its version.
    pub fn version(&self) -> LibraryVersion {
        self.version
    }
}

fn opened() -> MutexGuard<'static, HashMap<PathBuf, &'static Library>> {
    static OPENED: OnceLock<Mutex<HashMap<PathBuf, &'static Library>>> = OnceLock::new();
    OPENED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

impl Deref for Library {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("path", &self.path).field("version", &self.version).finish_non_exhaustive()
    }
}

/// The version of libcufile, as far as it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LibraryVersion {
    /// The first number; 1 so far.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl LibraryVersion {
    /// From the library's own form: 1000 times the first number plus ten times the second.
    pub fn from_number(number: i32) -> Self {
        let number = number.max(0) as u32;
        Self { major: number / 1000, minor: number % 1000 / 10 }
    }
}

impl fmt::Display for LibraryVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
