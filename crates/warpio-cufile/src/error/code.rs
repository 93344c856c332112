//! The names of codes, what they mean, and what kind of failure they are.

use warpio_core::ErrorKind;

use crate::sys::{EventStatus, OpError};

/// Number, name, meaning, and what kind of failure it is.
type Row = (i32, &'static str, &'static str, ErrorKind);

/// From 5039 on, the numbers are those of 1.15 and newer; older libraries do not use them.
const ROWS: &[Row] = &[
    (5001, "DRIVER_NOT_INITIALIZED", "the driver is not loaded", ErrorKind::Unsupported),
    (5002, "DRIVER_INVALID_PROPS", "the driver has invalid properties", ErrorKind::Unsupported),
    (5003, "DRIVER_UNSUPPORTED_LIMIT", "a property of the driver is beyond its limit", ErrorKind::Unsupported),
    (5004, "DRIVER_VERSION_MISMATCH", "nvidia-fs and the library do not go together", ErrorKind::Unsupported),
    (5005, "DRIVER_VERSION_READ_ERROR", "the version of nvidia-fs cannot be read", ErrorKind::Unsupported),
    (5006, "DRIVER_CLOSING", "the driver is closing", ErrorKind::Gone),
    (5007, "PLATFORM_NOT_SUPPORTED", "GPUDirect Storage does not work on this platform", ErrorKind::Unsupported),
    (5008, "IO_NOT_SUPPORTED", "GPUDirect Storage does not work on this file", ErrorKind::Unsupported),
    (5009, "DEVICE_NOT_SUPPORTED", "the GPU does not support GPUDirect Storage", ErrorKind::Unsupported),
    (5010, "NVFS_DRIVER_ERROR", "an error of nvidia-fs", ErrorKind::Io),
    (5011, "CUDA_DRIVER_ERROR", "an error of the CUDA driver", ErrorKind::Device),
    (5012, "CUDA_POINTER_INVALID", "the address is none of device memory", ErrorKind::InvalidInput),
    (5013, "CUDA_MEMORY_TYPE_INVALID", "the memory is of a kind that is not supported", ErrorKind::InvalidInput),
    (5014, "CUDA_POINTER_RANGE_ERROR", "the range exceeds the allocation", ErrorKind::InvalidInput),
    (5015, "CUDA_CONTEXT_MISMATCH", "the memory belongs to another context", ErrorKind::InvalidInput),
    (5016, "INVALID_MAPPING_SIZE", "more memory than can be pinned", ErrorKind::OutOfMemory),
    (5017, "INVALID_MAPPING_RANGE", "the range exceeds the registered buffer", ErrorKind::InvalidInput),
    (5018, "INVALID_FILE_TYPE", "this kind of file is not supported", ErrorKind::Unsupported),
    (5019, "INVALID_FILE_OPEN_FLAG", "the file was opened in an unsupported mode", ErrorKind::InvalidInput),
    (5020, "DIO_NOT_SET", "the file was not opened for direct I/O", ErrorKind::InvalidInput),
    (5022, "INVALID_VALUE", "an argument is not valid", ErrorKind::InvalidInput),
    (5023, "MEMORY_ALREADY_REGISTERED", "the memory is registered already", ErrorKind::InvalidInput),
    (5024, "MEMORY_NOT_REGISTERED", "the memory is not registered", ErrorKind::InvalidInput),
    (5025, "PERMISSION_DENIED", "access is not permitted", ErrorKind::PermissionDenied),
    (5026, "DRIVER_ALREADY_OPEN", "the driver is open already", ErrorKind::InvalidConfig),
    (5027, "HANDLE_NOT_REGISTERED", "the file is not registered", ErrorKind::Unsupported),
    (5028, "HANDLE_ALREADY_REGISTERED", "the descriptor is registered already", ErrorKind::InvalidInput),
    (5029, "DEVICE_NOT_FOUND", "the device is not found", ErrorKind::NoDevice),
    (5030, "INTERNAL_ERROR", "an internal error", ErrorKind::Io),
    (5031, "GETNEWFD_FAILED", "no file descriptor can be had", ErrorKind::ResourceLimit),
    (5033, "NVFS_SETUP_ERROR", "nvidia-fs or CUDA cannot be set up", ErrorKind::Unsupported),
    (5034, "IO_DISABLED", "GPUDirect Storage is disabled for this file", ErrorKind::Unsupported),
    (5035, "BATCH_SUBMIT_FAILED", "the batch was not submitted", ErrorKind::Io),
    (5036, "GPU_MEMORY_PINNING_FAILED", "the GPU's memory cannot be pinned", ErrorKind::OutOfMemory),
    (5037, "BATCH_FULL", "the batch is full", ErrorKind::ResourceLimit),
    (5038, "ASYNC_NOT_SUPPORTED", "the stream API does not work here", ErrorKind::Unsupported),
    (5039, "INTERNAL_BATCH_SETUP_ERROR", "the batch cannot be set up", ErrorKind::ResourceLimit),
    (5040, "INTERNAL_BATCH_SUBMIT_ERROR", "the batch cannot be submitted", ErrorKind::Io),
    (5041, "INTERNAL_BATCH_GETSTATUS_ERROR", "the batch does not tell its status", ErrorKind::Io),
    (5042, "INTERNAL_BATCH_CANCEL_ERROR", "the batch cannot be cancelled", ErrorKind::Unavailable),
    (5043, "NOMEM_ERROR", "out of memory", ErrorKind::OutOfMemory),
    (5044, "IO_ERROR", "an I/O error", ErrorKind::Io),
    (5045, "INTERNAL_BUF_REGISTER_ERROR", "the buffer cannot be registered", ErrorKind::Io),
    (5046, "HASH_OPR_ERROR", "an error of an internal table", ErrorKind::Io),
    (5047, "INVALID_CONTEXT_ERROR", "the batch or context is not valid", ErrorKind::Io),
    (5048, "NVFS_INTERNAL_DRIVER_ERROR", "an internal error of nvidia-fs", ErrorKind::Io),
    (5049, "BATCH_NOCOMPAT_ERROR", "a batch that compatibility mode cannot do", ErrorKind::Unsupported),
    (5050, "IO_MAX_ERROR", "an error without a name", ErrorKind::Io),
];

fn row(code: OpError) -> Option<&'static Row> {
    ROWS.iter().find(|(number, ..)| *number == code.0)
}

/// The name of a code, without its prefix.
pub(super) fn name(code: OpError) -> &'static str {
    row(code).map_or("a code unknown to this version of warpio", |(_, name, ..)| name)
}

pub(super) fn meaning(code: OpError) -> &'static str {
    row(code).map_or("see cufile.log", |(_, _, meaning, _)| meaning)
}

pub(super) fn kind(code: OpError) -> ErrorKind {
    row(code).map_or(ErrorKind::Io, |(.., kind)| *kind)
}

/// As the CUDA crate takes them: after these, nothing works in the context any more.
pub(super) fn cuda_kind(code: i32) -> ErrorKind {
    match code {
        2 => ErrorKind::OutOfMemory,
        100 | 101 => ErrorKind::NoDevice,
        3 | 4 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 911 | 999 => ErrorKind::DeviceLost,
        _ => ErrorKind::Device,
    }
}

pub(super) fn status(status: EventStatus) -> &'static str {
    match status {
        EventStatus::WAITING => "waiting",
        EventStatus::PENDING => "pending",
        EventStatus::INVALID => "invalid",
        EventStatus::CANCELED => "cancelled",
        EventStatus::COMPLETE => "complete",
        EventStatus::TIMEOUT => "timed out",
        EventStatus::FAILED => "failed",
        _ => "a status unknown to this version of warpio",
    }
}
