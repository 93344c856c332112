use std::fmt;

/// The kinds of failure, by what they mean to the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file or object does not exist.
    NotFound,
    /// Access was refused: permissions, credentials, a read-only file system.
    PermissionDenied,
    /// The target exists and must not.
    AlreadyExists,
    /// The call itself is wrong: a length that overflows, a buffer of another device, a directory for a file.
    InvalidInput,
    /// A setting has a value that cannot be used; the message names the variable.
    InvalidConfig,
    /// The source, store or machine cannot do this.
    Unsupported,
    /// The source ended before the bytes that were asked for.
    UnexpectedEof,
    /// The source is not what it was when the transfer began.
    Changed,
    /// The transfer was cancelled.
    Cancelled,
    /// The deadline passed first.
    DeadlineExceeded,
    /// What should have done the work is gone: a runtime that was shut down, an engine that ended.
    Gone,
    /// Host or device memory, or the staging budget, does not suffice.
    OutOfMemory,
    /// The file system or the quota is full.
    StorageFull,
    /// A limit of the process or machine was reached, such as open file descriptors.
    ResourceLimit,
    /// No such device, or no driver.
    NoDevice,
    /// The device reported an error for this operation.
    Device,
    /// The device context is lost: nothing more can be done on it.
    DeviceLost,
    /// There is no tokio runtime to run on.
    NoRuntime,
    /// The other side refused or failed in a way that may pass: overload, a dropped connection.
    Unavailable,
    /// The bytes that arrived are not the bytes that were promised.
    Integrity,
    /// Any other error of the operating system or storage.
    #[default]
    Io,
}

impl ErrorKind {
    pub(super) fn is_retryable(self) -> bool {
        matches!(self, Self::Unavailable | Self::ResourceLimit | Self::DeadlineExceeded)
    }

    fn text(self) -> &'static str {
        match self {
            Self::NotFound => "not found",
            Self::PermissionDenied => "permission denied",
            Self::AlreadyExists => "already exists",
            Self::InvalidInput => "invalid input",
            Self::InvalidConfig => "invalid setting",
            Self::Unsupported => "not supported here",
            Self::UnexpectedEof => "the source ended before the bytes that were asked for",
            Self::Changed => "the source changed while it was read",
            Self::Cancelled => "cancelled",
            Self::DeadlineExceeded => "the deadline passed",
            Self::Gone => "the runtime or engine that did the work is gone",
            Self::OutOfMemory => "out of memory",
            Self::StorageFull => "no space left on the storage",
            Self::ResourceLimit => "a resource limit was reached",
            Self::NoDevice => "no such device",
            Self::Device => "device error",
            Self::DeviceLost => "the device context is lost",
            Self::NoRuntime => "no tokio runtime",
            Self::Unavailable => "unavailable for now",
            Self::Integrity => "the bytes are not the ones that were promised",
            Self::Io => "I/O error",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
