//! The driver's result codes, with their names and texts.

use std::ffi::{CStr, c_char, c_int};

use crate::ffi::Out;

/// A `CUresult` other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_int);

/// What an entry point comes to.
pub(crate) type Result<T = ()> = std::result::Result<T, Code>;

macro_rules! codes {
    ($($name:ident = $value:literal, $text:literal;)+) => {
        #[allow(dead_code, reason = "the whole table is kept: any code can be injected")]
        impl Code {
            $(pub(crate) const $name: Code = Code($value);)+
        }

        /// Code, name and text of each error.
        const TABLE: &[(c_int, &CStr, &CStr)] = &[
            $((
                $value,
                match CStr::from_bytes_with_nul(concat!("CUDA_ERROR_", stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
                $text,
            ),)+
        ];
    };
}

codes! {
    INVALID_VALUE = 1, c"invalid argument";
    OUT_OF_MEMORY = 2, c"out of memory";
    NOT_INITIALIZED = 3, c"initialization error";
    DEINITIALIZED = 4, c"driver shutting down";
    STUB_LIBRARY = 34, c"CUDA driver is a stub library";
    CALL_REQUIRES_NEWER_DRIVER = 36, c"API call is not supported in the installed CUDA driver";
    DEVICE_UNAVAILABLE = 46, c"CUDA-capable device(s) is/are busy or unavailable";
    NO_DEVICE = 100, c"no CUDA-capable device is detected";
    INVALID_DEVICE = 101, c"invalid device ordinal";
    INVALID_IMAGE = 200, c"device kernel image is invalid";
    INVALID_CONTEXT = 201, c"invalid device context";
    MAP_FAILED = 205, c"mapping of buffer object failed";
    UNMAP_FAILED = 206, c"unmapping of buffer object failed";
    NO_BINARY_FOR_GPU = 209, c"no kernel image is available for execution on the device";
    ECC_UNCORRECTABLE = 214, c"uncorrectable ECC error encountered";
    UNSUPPORTED_LIMIT = 215, c"limit is not supported on this architecture";
    PEER_ACCESS_UNSUPPORTED = 217, c"peer access is not supported between these two devices";
    INVALID_PTX = 218, c"a PTX JIT compilation failed";
    NVLINK_UNCORRECTABLE = 220, c"uncorrectable NVLink error detected during the execution";
    FILE_NOT_FOUND = 301, c"file not found";
    OPERATING_SYSTEM = 304, c"OS call failed or operation not supported on this OS";
    INVALID_HANDLE = 400, c"invalid resource handle";
    ILLEGAL_STATE = 401, c"the operation cannot be performed in the present state";
    NOT_FOUND = 500, c"named symbol not found";
    NOT_READY = 600, c"device not ready";
    ILLEGAL_ADDRESS = 700, c"an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, c"too many resources requested for launch";
    LAUNCH_TIMEOUT = 702, c"the launch timed out and was terminated";
    PEER_ACCESS_ALREADY_ENABLED = 704, c"peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED = 705, c"peer access has not been enabled";
    PRIMARY_CONTEXT_ACTIVE = 708, c"cannot set while device is active in this process";
    CONTEXT_IS_DESTROYED = 709, c"context is destroyed";
    ASSERT = 710, c"device-side assert triggered";
    HOST_MEMORY_ALREADY_REGISTERED = 712, c"part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED = 713, c"pointer does not correspond to a registered memory region";
    HARDWARE_STACK_ERROR = 714, c"hardware stack error";
    ILLEGAL_INSTRUCTION = 715, c"an illegal instruction was encountered";
    MISALIGNED_ADDRESS = 716, c"misaligned address";
    INVALID_ADDRESS_SPACE = 717, c"operation not supported on global/shared address space";
    INVALID_PC = 718, c"invalid program counter";
    LAUNCH_FAILED = 719, c"unspecified launch failure";
    NOT_PERMITTED = 800, c"operation not permitted";
    NOT_SUPPORTED = 801, c"operation not supported";
    SYSTEM_NOT_READY = 802, c"system not yet initialized";
    SYSTEM_DRIVER_MISMATCH = 803, c"system has unsupported display driver / cuda driver combination";
    COMPAT_NOT_SUPPORTED_ON_DEVICE = 804, c"forward compatibility was attempted on non supported HW";
    STREAM_CAPTURE_UNSUPPORTED = 900, c"operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, c"operation failed due to a previous error during capture";
    STREAM_CAPTURE_MERGE = 902, c"operation would result in a merge of separate capture sequences";
    STREAM_CAPTURE_UNMATCHED = 903, c"capture was not ended in the same stream as it began";
    STREAM_CAPTURE_UNJOINED = 904, c"capturing stream has unjoined work";
    STREAM_CAPTURE_ISOLATION = 905, c"dependency created on uncaptured work in another stream";
    STREAM_CAPTURE_IMPLICIT = 906, c"operation would make the legacy stream depend on a capturing blocking stream";
    CAPTURED_EVENT = 907, c"operation not permitted on an event last recorded in a capturing stream";
    STREAM_CAPTURE_WRONG_THREAD = 908, c"attempt to terminate a thread-local capture sequence from another thread";
    TIMEOUT = 909, c"wait operation timed out";
    EXTERNAL_DEVICE = 911, c"an async error has occured in external entity outside of CUDA";
    UNKNOWN = 999, c"unknown error";
}

fn entry(code: c_int) -> Option<(&'static CStr, &'static CStr)> {
    if code == 0 {
        return Some((c"CUDA_SUCCESS", c"no error"));
    }
    TABLE.iter().find(|(value, ..)| *value == code).map(|(_, name, text)| (*name, *text))
}

fn describe(out: &Out<*const c_char>, found: Option<&'static CStr>) -> c_int {
    let text = found.map_or(std::ptr::null(), CStr::as_ptr);
    match out.set(text) {
        Err(Code(refused)) => refused,
        Ok(()) if found.is_none() => Code::INVALID_VALUE.0,
        Ok(()) => 0,
    }
}

/// The identifier of a code. Works at any time, also before `cuInit`.
#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(code: c_int, out: Out<*const c_char>) -> c_int {
    describe(&out, entry(code).map(|(name, _)| name))
}

/// The description of a code. Works at any time, also before `cuInit`.
#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(code: c_int, out: Out<*const c_char>) -> c_int {
    describe(&out, entry(code).map(|(_, text)| text))
}
