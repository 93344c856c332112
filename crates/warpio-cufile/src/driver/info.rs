use std::path::{Path, PathBuf};

use warpio_core::Device;

use super::availability::Availability;
use super::open::Driver;
use super::options::DriverOptions;
use super::parameters::{self, BoolParameter, SizeParameter};
use super::properties::{FileSystem, PeerFlags, Properties};
use crate::guard::Surroundings;
use crate::sys::{Library, LibraryVersion, OpError};

/// What there is of cuFile, for people and for `warpio info`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Info {
    /// The library, or why there is none.
    pub library: Result<LibraryInfo, String>,
    /// What was found around the process.
    pub surroundings: Surroundings,
    /// The driver, or why it does not open. `None` without a GPU to open it for.
    pub driver: Option<Result<DriverInfo, String>>,
}

/// The library that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LibraryInfo {
    /// What it was loaded as.
    pub path: PathBuf,
    /// Its version.
    pub version: LibraryVersion,
    /// The functions that only newer versions have.
    pub functions: Vec<&'static str>,
}

/// An open driver.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DriverInfo {
    /// What it says of itself.
    pub properties: Properties,
    /// Ways past host memory for each kind of storage.
    pub peer_flags: Vec<(FileSystem, PeerFlags)>,
    /// Whether GPUDirect Storage is on, and else why not.
    pub availability: Availability,
    /// GPU memory that other devices reach directly, in bytes, where the library tells (since 1.15).
    pub bar1: Option<u64>,
    /// Numbers, as the library has them.
    pub sizes: Vec<(SizeParameter, usize)>,
    /// Switches, as the library has them.
    pub switches: Vec<(BoolParameter, bool)>,
}

impl Info {
    /// Looks for the library, at `path` if that is given, and opens the driver in the context of `device` if that is a
    /// GPU's. This blocks, for half a second as a rule and never for longer than the options allow.
    pub fn probe(path: Option<&Path>, device: Option<&Device>, options: &DriverOptions) -> Self {
        let library = path.map_or_else(Library::find, Library::open);
        let driver = match (library.clone(), device) {
            (Ok(library), Some(device)) => {
                let opened = Driver::open(library, device, options).and_then(|driver| driver.info());
                Some(opened.map_err(|error| error.to_string()))
            }
            _ => None,
        };
        Self {
            library: library.map(LibraryInfo::of).map_err(|reason| reason.to_string()),
            surroundings: options.surroundings.clone().unwrap_or_else(Surroundings::probe),
            driver,
        }
    }
}

impl LibraryInfo {
    fn of(library: &'static Library) -> Self {
        Self { path: library.path().to_owned(), version: library.version(), functions: library.optional() }
    }
}

impl Driver {
    /// What there is to know of the open driver.
    ///
    /// # Errors
    /// What the library answers.
    pub fn info(&self) -> warpio_core::Result<DriverInfo> {
        let library = self.library();
        let sizes = SizeParameter::ALL.iter().filter_map(|&p| Some((p, parameters::size(library, p)?)));
        let switches = BoolParameter::ALL.iter().filter_map(|&p| Some((p, parameters::boolean(library, p)?)));
        Ok(DriverInfo {
            properties: self.properties()?,
            peer_flags: self.peer_flags(),
            availability: self.availability()?,
            bar1: self.bar1(),
            sizes: sizes.collect(),
            switches: switches.collect(),
        })
    }

    fn bar1(&self) -> Option<u64> {
        let (gpu, mut kib) = (self.device().id().ordinal, 0);
        // SAFETY: a valid place for the result; any number may be asked for.
        let status = unsafe { self.library().cuFileGetBARSizeInKB?(gpu as i32, &mut kib) };
        (status.err == OpError::SUCCESS).then_some(kib as u64 * 1024)
    }
}
