//! What cuFile answers, in each of its ways, as one error.

mod code;
mod decode;

use std::error::Error as StdError;
use std::fmt;
use std::io;

use warpio_core::{Error, ErrorKind};

pub use decode::decode;

use crate::sys::{EventStatus, OpError, Status};

/// What cuFile answered: the [`source`](StdError::source) of this crate's errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CuFileError {
    call: &'static str,
    failure: Failure,
}

/// In which way cuFile said that something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// A code of cuFile.
    Code(OpError),
    /// An error of the CUDA driver, a `CUresult`.
    Cuda(i32),
    /// An error of the system, an `errno`.
    Os(i32),
    /// An event of a batch that did not complete.
    Event(EventStatus),
    /// An answer that makes no sense, as text.
    Nonsense(&'static str),
}

impl CuFileError {
    /// The failure of a call.
    pub fn new(call: &'static str, failure: Failure) -> Self {
        Self { call, failure }
    }

    /// The function that failed.
    pub fn call(&self) -> &'static str {
        self.call
    }

    /// What it answered.
    pub fn failure(&self) -> Failure {
        self.failure
    }

    /// The code of cuFile, if it answered one.
    pub fn code(&self) -> Option<i32> {
        match self.failure {
            Failure::Code(code) => Some(code.0),
            Failure::Cuda(_) => Some(OpError::CUDA_DRIVER_ERROR.0),
            _ => None,
        }
    }

    /// Success, or the failure that a status means.
    ///
    /// # Errors
    /// The failure.
    pub fn check(status: Status, call: &'static str) -> Result<(), Self> {
        match status {
            Status { err: OpError::SUCCESS, .. } => Ok(()),
            Status { err: OpError::CUDA_DRIVER_ERROR, cu_err } if cu_err != 0 => {
                Err(Self::new(call, Failure::Cuda(cu_err)))
            }
            Status { err, .. } => Err(Self::new(call, Failure::of_number(err.0))),
        }
    }

    /// Whether the same would happen by every other way to the file: there is no use in trying one.
    pub fn is_final(&self) -> bool {
        // The file system is full, or the file as large as it may be; the file behind the descriptor is gone.
        matches!(self.failure, Failure::Os(libc::ENOSPC | libc::EDQUOT | libc::EFBIG | libc::EROFS | libc::ESTALE))
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        match self.failure {
            Failure::Code(code) => code::kind(code),
            Failure::Cuda(code) => code::cuda_kind(code),
            Failure::Os(errno) => Error::from(io::Error::from_raw_os_error(errno)).kind(),
            Failure::Event(EventStatus::TIMEOUT) => ErrorKind::DeadlineExceeded,
            Failure::Event(_) | Failure::Nonsense(_) => ErrorKind::Io,
        }
    }
}

impl Failure {
    /// A number of cuFile: its own code above 5000, an `errno` below.
    pub fn of_number(number: i32) -> Self {
        match number {
            n if n > OpError::BASE => Self::Code(OpError(n)),
            n => Self::Os(n),
        }
    }
}

impl fmt::Display for CuFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.call)?;
        match self.failure {
            Failure::Code(code) => {
                write!(f, "{} ({}), {}", code::name(code), code.0, code::meaning(code))
            }
            Failure::Cuda(code) => {
                let cuda = OpError::CUDA_DRIVER_ERROR;
                write!(f, "{} ({}), the CUDA driver answered {code}", code::name(cuda), cuda.0)
            }
            Failure::Os(errno) => io::Error::from_raw_os_error(errno).fmt(f),
            Failure::Event(status) => write!(f, "the entry ended as {}", code::status(status)),
            Failure::Nonsense(what) => f.write_str(what),
        }
    }
}

impl StdError for CuFileError {}

impl From<CuFileError> for Error {
    fn from(error: CuFileError) -> Self {
        let kind = error.kind();
        match error.failure {
            // The number of the system is the cause, where everybody looks for it.
            Failure::Os(errno) => {
                Error::new(kind).with_message(error.to_string()).with_cause(io::Error::from_raw_os_error(errno))
            }
            _ => Error::new(kind).with_cause(error),
        }
    }
}
