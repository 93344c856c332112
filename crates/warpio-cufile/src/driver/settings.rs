use std::error::Error as StdError;
use std::fmt;

use warpio_core::{Error, ErrorKind};

use super::open::Driver;
use super::properties::Properties;
use crate::error::CuFileError;
use crate::sys::Library;

/// A setting that can be changed while the driver is open, as far as the library lets it. Sizes are in bytes, in
/// multiples of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Whether completions are polled for, and up to which size.
    PollMode {
        /// Whether they are.
        on: bool,
        /// Up to which size.
        threshold: u64,
    },
    /// The largest request that goes to the kernel.
    MaxDirectIoSize(u64),
    /// GPU memory for bounce buffers.
    MaxDeviceCacheSize(u64),
    /// GPU memory that may be pinned.
    MaxPinnedSize(u64),
}

const KIB: u64 = 1 << 10;

impl Setting {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PollMode { .. } => "poll mode",
            Self::MaxDirectIoSize(_) => "largest direct I/O",
            Self::MaxDeviceCacheSize(_) => "device cache size",
            Self::MaxPinnedSize(_) => "pinned memory size",
        }
    }

    fn value(self) -> String {
        match self {
            Self::PollMode { on, threshold } => format!("{on} up to {threshold} bytes"),
            Self::MaxDirectIoSize(bytes) | Self::MaxDeviceCacheSize(bytes) | Self::MaxPinnedSize(bytes) => {
                format!("{bytes} bytes")
            }
        }
    }

    /// Refuses a size that the library could not be told.
    pub(super) fn check(self) -> Result<(), Error> {
        let bytes = match self {
            Self::PollMode { threshold, .. } => threshold,
            Self::MaxDirectIoSize(bytes) | Self::MaxDeviceCacheSize(bytes) | Self::MaxPinnedSize(bytes) => bytes,
        };
        if bytes.is_multiple_of(KIB) {
            return Ok(());
        }
        let message = format!("the {} is {bytes} bytes, but cuFile takes multiples of 1024 only", self.name());
        Err(Error::new(ErrorKind::InvalidConfig).with_message(message))
    }

    pub(super) fn apply(self, library: &Library) -> Result<(), CuFileError> {
        // SAFETY: the setters take any value.
        let (status, call) = unsafe {
            match self {
                Self::PollMode { on, threshold } => {
                    ((library.cuFileDriverSetPollMode)(on, (threshold / KIB) as usize), "cuFileDriverSetPollMode")
                }
                Self::MaxDirectIoSize(bytes) => {
                    ((library.cuFileDriverSetMaxDirectIOSize)((bytes / KIB) as usize), "cuFileDriverSetMaxDirectIOSize")
                }
                Self::MaxDeviceCacheSize(bytes) => {
                    ((library.cuFileDriverSetMaxCacheSize)((bytes / KIB) as usize), "cuFileDriverSetMaxCacheSize")
                }
                Self::MaxPinnedSize(bytes) => (
                    (library.cuFileDriverSetMaxPinnedMemSize)((bytes / KIB) as usize),
                    "cuFileDriverSetMaxPinnedMemSize",
                ),
            }
        };
        CuFileError::check(status, call)
    }

    /// The same setting with the value that the driver has.
    pub(super) fn read(self, properties: &Properties) -> Self {
        match self {
            Self::PollMode { .. } => {
                Self::PollMode { on: properties.poll_mode(), threshold: properties.poll_threshold() }
            }
            Self::MaxDirectIoSize(_) => Self::MaxDirectIoSize(properties.max_direct_io_size()),
            Self::MaxDeviceCacheSize(_) => Self::MaxDeviceCacheSize(properties.max_device_cache_size()),
            Self::MaxPinnedSize(_) => Self::MaxPinnedSize(properties.max_device_pinned_size()),
        }
    }

    pub(super) fn not_applied(self, found: Self) -> NotApplied {
        NotApplied { setting: self.name().to_owned(), wanted: self.value(), found: Some(found.value()) }
    }
}

/// The library took a setting and did not apply it, or does not know it: it ignores some once its driver is open, also
/// when another library of the process opened it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotApplied {
    /// Which setting.
    pub setting: String,
    /// What was asked for.
    pub wanted: String,
    /// What it is; `None` if this library does not have it.
    pub found: Option<String>,
}

impl fmt::Display for NotApplied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, wanted, found } = self;
        match found {
            Some(found) => write!(f, "cuFile did not apply the setting {setting} = {wanted}: it is {found}"),
            None => write!(f, "this version of cuFile does not have the setting {setting} = {wanted}"),
        }
    }
}

impl StdError for NotApplied {}

impl From<NotApplied> for Error {
    fn from(error: NotApplied) -> Self {
        Error::new(ErrorKind::InvalidConfig).with_cause(error)
    }
}

/// A setting for a while: what was before comes back when this is dropped.
#[derive(Debug)]
#[must_use = "the setting is undone when this is dropped"]
pub struct Scoped {
    driver: Driver,
    before: Setting,
}

impl Driver {
    /// Changes a setting of the open driver, until the guard is dropped.
    ///
    /// # Errors
    /// [`NotApplied`] as the cause where the library said yes and did nothing, as it does with most settings once its
    /// driver is open; [`InvalidConfig`](ErrorKind::InvalidConfig) for a size that is no multiple of 1024; what the
    /// library answers.
    pub fn scoped(&self, setting: Setting) -> Result<Scoped, Error> {
        self.check_process()?;
        setting.check()?;
        let before = setting.read(&self.properties()?);
        setting.apply(self.library())?;
        let found = setting.read(&self.properties()?);
        if found != setting {
            return Err(setting.not_applied(found).into());
        }
        Ok(Scoped { driver: self.clone(), before })
    }
}

impl Drop for Scoped {
    fn drop(&mut self) {
        if self.driver.check_process().is_ok()
            && let Err(error) = self.before.apply(self.driver.library())
        {
            tracing::warn!(%error, setting = self.before.name(), "a setting of cuFile cannot be restored");
        }
    }
}
