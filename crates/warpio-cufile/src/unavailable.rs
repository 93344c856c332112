use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use warpio_core::{Error, ErrorKind};

use crate::driver::NotApplied;
use crate::error::CuFileError;

/// Why this process cannot use cuFile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailable {
    /// No library was found.
    NoLibrary {
        /// What the dynamic loader says.
        reason: String,
    },
    /// The library lacks a function that all of 1.11 and newer have.
    MissingFunction {
        /// The library.
        path: PathBuf,
        /// The function.
        function: &'static str,
    },
    /// `/proc/modules` cannot be read. libcufile would look for it for ever.
    NoModules,
    /// This is Windows Subsystem for Linux, where libcufile does not work, and may end the process.
    Wsl,
    /// This process was forked from one that used cuFile.
    Forked,
    /// The GPU's context cannot be used.
    NoContext {
        /// What the CUDA driver says.
        reason: String,
    },
    /// No thread could be had to open the driver on.
    NoThread {
        /// What the system says.
        reason: String,
    },
    /// The driver did not open in time. A thread is stuck in it.
    Overdue {
        /// How long it was given.
        limit: Duration,
    },
    /// The driver refused to open.
    Refused(CuFileError),
    /// A setting that was asked for had no effect.
    NotApplied(NotApplied),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLibrary { reason } => write!(f, "libcufile cannot be loaded: {reason}"),
            Self::MissingFunction { path, function } => {
                write!(f, "{} has no {function}; version 1.11 or newer is needed", path.display())
            }
            Self::NoModules => f.write_str(
                "/proc/modules cannot be read (the kernel has no modules, or it is hidden), and libcufile would wait \
                 for it for ever",
            ),
            Self::Wsl => f.write_str("GPUDirect Storage does not work under Windows Subsystem for Linux"),
            Self::Forked => f.write_str(
                "this process was forked from one that used cuFile, which does not survive a fork; start a new process",
            ),
            Self::NoContext { reason } => write!(f, "the GPU's context cannot be used: {reason}"),
            Self::NoThread { reason } => write!(f, "no thread to open the cuFile driver on: {reason}"),
            Self::Overdue { limit } => write!(f, "the cuFile driver did not open within {limit:?}"),
            Self::Refused(error) => write!(f, "the cuFile driver does not open: {error}"),
            Self::NotApplied(error) => error.fmt(f),
        }
    }
}

impl StdError for Unavailable {}

impl From<Unavailable> for Error {
    fn from(reason: Unavailable) -> Self {
        let kind = match &reason {
            Unavailable::NoContext { .. } => ErrorKind::NoDevice,
            Unavailable::NoThread { .. } => ErrorKind::ResourceLimit,
            Unavailable::Overdue { .. } => ErrorKind::Unavailable,
            Unavailable::NotApplied(_) => ErrorKind::InvalidConfig,
            Unavailable::Refused(error) => error.kind(),
            _ => ErrorKind::Unsupported,
        };
        Error::new(kind).with_cause(reason)
    }
}
