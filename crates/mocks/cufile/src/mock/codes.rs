//! Types and numbers of the API.

use std::ffi::{c_int, c_void};

/// `CUfileError_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Status {
    pub(crate) err: c_int,
    pub(crate) cu_err: c_int,
}

impl Status {
    pub(crate) const SUCCESS: Self = Self { err: 0, cu_err: 0 };

    pub(crate) const fn of(err: c_int) -> Self {
        Self { err, cu_err: 0 }
    }

    pub(crate) const fn cuda(cu_err: c_int) -> Self {
        Self { err: CUDA_DRIVER_ERROR, cu_err }
    }
}

pub(crate) const DRIVER_NOT_INITIALIZED: c_int = 5001;
pub(crate) const CUDA_DRIVER_ERROR: c_int = 5011;
pub(crate) const INVALID_MAPPING_RANGE: c_int = 5017;
pub(crate) const INVALID_FILE_TYPE: c_int = 5018;
pub(crate) const INVALID_FILE_OPEN_FLAG: c_int = 5019;
pub(crate) const INVALID_VALUE: c_int = 5022;
pub(crate) const MEMORY_ALREADY_REGISTERED: c_int = 5023;
pub(crate) const MEMORY_NOT_REGISTERED: c_int = 5024;
pub(crate) const DRIVER_ALREADY_OPEN: c_int = 5026;
pub(crate) const HANDLE_NOT_REGISTERED: c_int = 5027;
pub(crate) const HANDLE_ALREADY_REGISTERED: c_int = 5028;
pub(crate) const INTERNAL_ERROR: c_int = 5030;
pub(crate) const BATCH_FULL: c_int = 5037;
pub(crate) const BATCH_SETUP: c_int = 5039;
pub(crate) const BATCH_SUBMIT: c_int = 5040;
pub(crate) const INVALID_CONTEXT: c_int = 5047;

/// `CUfileDescr_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Descriptor {
    pub(crate) kind: u32,
    pub(crate) fd: u64,
    pub(crate) fs_ops: *const c_void,
}

/// `CUfileDrvProps_t`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Properties {
    pub(crate) nvfs_major: u32,
    pub(crate) nvfs_minor: u32,
    pub(crate) poll_threshold_kb: usize,
    pub(crate) max_direct_io_kb: usize,
    pub(crate) status_flags: u32,
    pub(crate) control_flags: u32,
    pub(crate) feature_flags: u32,
    pub(crate) max_device_cache_kb: u32,
    pub(crate) per_buffer_cache_kb: u32,
    pub(crate) max_pinned_kb: u32,
    pub(crate) max_batch: u32,
    pub(crate) batch_timeout_ms: u32,
}

/// `CUfileIOParams_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct IoParams {
    pub(crate) mode: u32,
    pub(crate) base: u64,
    pub(crate) file_offset: i64,
    pub(crate) base_offset: i64,
    pub(crate) size: usize,
    pub(crate) handle: u64,
    pub(crate) opcode: u32,
    pub(crate) cookie: u64,
}

/// `CUfileIOEvents_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct IoEvent {
    pub(crate) cookie: u64,
    pub(crate) status: u32,
    pub(crate) ret: i64,
}

pub(crate) const COMPLETE: u32 = 0x10;

const _: () = {
    assert!(size_of::<Descriptor>() == 24);
    assert!(size_of::<Properties>() == 56);
    assert!(size_of::<IoParams>() == 64);
    assert!(size_of::<IoEvent>() == 24);
};
