use std::error::Error as StdError;
use std::ffi::{CStr, c_char, c_int};
use std::fmt;

use warpio_core::{Error, ErrorKind};

use super::table::Table;

/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub(crate) const OUT_OF_MEMORY: c_int = 2;
/// `CUDA_ERROR_NOT_READY`.
pub(crate) const NOT_READY: c_int = 600;
/// `CUDA_ERROR_NOT_SUPPORTED`.
pub(crate) const NOT_SUPPORTED: c_int = 801;
/// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`.
pub(crate) const CAPTURE_UNSUPPORTED: c_int = 900;
/// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT`.
pub(crate) const CAPTURE_IMPLICIT: c_int = 906;

/// What the CUDA driver answered: the [`source`](StdError::source) of this crate's errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaError {
    code: i32,
    name: &'static str,
    text: &'static str,
    call: &'static str,
}

impl CudaError {
    pub(super) fn new(table: &Table, code: c_int, call: &'static str) -> Self {
        let name = describe(table.cuGetErrorName, code).unwrap_or("an error unknown to this driver");
        let text = describe(table.cuGetErrorString, code).unwrap_or("no description");
        Self { code, name, text, call }
    }

    /// The driver's number for the error, a `CUresult`.
    pub fn code(&self) -> i32 {
        self.code
    }

    /// The driver's name for the error, such as `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The driver function that failed.
    pub fn call(&self) -> &'static str {
        self.call
    }

    pub(crate) fn into_error(self) -> Error {
        Error::new(kind_of(self.code)).with_cause(self)
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({}), {}", self.call, self.name, self.code, self.text)
    }
}

impl StdError for CudaError {}

fn describe(function: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int, code: c_int) -> Option<&'static str> {
    let mut text = std::ptr::null();
    // SAFETY: a valid place for the result; the functions accept any code.
    let failed = unsafe { function(code, &mut text) };
    if failed != 0 || text.is_null() {
        return None;
    }
    // SAFETY: the driver answers with a constant of its own, and the library is never unloaded.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// What a code means to the caller.
pub(crate) fn kind_of(code: c_int) -> ErrorKind {
    match code {
        OUT_OF_MEMORY => ErrorKind::OutOfMemory,
        100 | 101 => ErrorKind::NoDevice,
        NOT_SUPPORTED => ErrorKind::Unsupported,
        CAPTURE_UNSUPPORTED..=908 => ErrorKind::InvalidInput,
        // Errors after which every further call on the context fails: not initialised (a forked child), shutting
        // down, uncorrectable ECC and NVLink errors, a contained fault, illegal address, launch timeout, destroyed
        // context, device assert, hardware stack, illegal instruction, misaligned address, address space, program
        // counter, launch failure, tensor memory leak, a failed external device, and the unknown.
        3 | 4 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 911 | 999 => ErrorKind::DeviceLost,
        _ => ErrorKind::Device,
    }
}

/// Whether the context is lost with this code.
pub(crate) fn is_sticky(code: c_int) -> bool {
    kind_of(code) == ErrorKind::DeviceLost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_after_which_nothing_works_mean_a_lost_device() {
        for code in [4, 214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999] {
            assert!(is_sticky(code), "{code}");
        }
        for code in [1, 2, 100, 101, 201, 400, 600, 701, 704, 712, 720, 801, 900, 907] {
            assert!(!is_sticky(code), "{code}");
        }
    }

    #[test]
    fn other_codes_keep_their_meaning() {
        for (code, kind) in [
            (1, ErrorKind::Device),
            (2, ErrorKind::OutOfMemory),
            (100, ErrorKind::NoDevice),
            (101, ErrorKind::NoDevice),
            (801, ErrorKind::Unsupported),
            (900, ErrorKind::InvalidInput),
            (123_456, ErrorKind::Device),
        ] {
            assert_eq!(kind_of(code), kind, "{code}");
        }
    }
}
