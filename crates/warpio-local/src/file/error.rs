//! What the modules below say, as the error that users match on.

use std::io;

use warpio_core::{Error, ErrorKind};

use crate::atomic_file::CommitError;
use crate::open::OpenError;

impl From<OpenError> for Error {
    /// The message names the path and says what to do.
    fn from(error: OpenError) -> Self {
        let kind = match &error {
            OpenError::NotFound { .. } => ErrorKind::NotFound,
            OpenError::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            OpenError::PermissionDenied { .. } | OpenError::ReadOnlyFilesystem { .. } => ErrorKind::PermissionDenied,
            OpenError::TooManyOpenFiles { .. } => ErrorKind::ResourceLimit,
            OpenError::NoSpace { .. } => ErrorKind::StorageFull,
            OpenError::DirectUnsupported { .. } => ErrorKind::Unsupported,
            OpenError::Busy { .. } => ErrorKind::Unavailable,
            OpenError::IsDirectory { .. }
            | OpenError::NotADirectory { .. }
            | OpenError::NotRegular { .. }
            | OpenError::InvalidPath { .. }
            | OpenError::InvalidOptions { .. } => ErrorKind::InvalidInput,
            OpenError::Io { .. } => ErrorKind::Io,
        };
        with_message(kind, &error)
    }
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        let kind = match &error {
            CommitError::Exists { .. } => ErrorKind::AlreadyExists,
            CommitError::Sync { source, .. }
            | CommitError::Publish { source, .. }
            | CommitError::NotDurable { source, .. } => Error::from(copy(source)).kind(),
        };
        with_message(kind, &error)
    }
}

/// The message of `error`, and what the kernel said as the cause.
fn with_message(kind: ErrorKind, error: &(dyn std::error::Error + 'static)) -> Error {
    let message = Error::new(kind).with_message(error.to_string());
    match error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
        Some(source) => message.with_cause(copy(source)),
        None => message,
    }
}

/// An `io::Error` cannot be cloned, but what the kernel says is a number.
fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => error.kind().into(),
    }
}
