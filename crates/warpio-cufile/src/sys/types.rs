use std::ffi::{c_int, c_void};

/// A code of cuFile: 0 for success, from 5001 on what went wrong. A newer library may answer codes that are not known
/// here, so it stays a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct OpError(pub i32);

impl OpError {
    /// Success.
    pub const SUCCESS: Self = Self(0);
    /// Codes begin behind this number; what is not above it is an `errno`.
    pub const BASE: i32 = 5000;
    /// The driver is closing.
    pub const DRIVER_CLOSING: Self = Self(5006);
    /// A CUDA call failed; its code stands beside.
    pub const CUDA_DRIVER_ERROR: Self = Self(5011);
    /// More memory than can be pinned.
    pub const INVALID_MAPPING_SIZE: Self = Self(5016);
    /// The range exceeds the registered buffer.
    pub const INVALID_MAPPING_RANGE: Self = Self(5017);
    /// The file was opened in a mode that the operation does not allow.
    pub const INVALID_FILE_OPEN_FLAG: Self = Self(5019);
    /// An argument is wrong.
    pub const INVALID_VALUE: Self = Self(5022);
    /// The memory is registered already.
    pub const MEMORY_ALREADY_REGISTERED: Self = Self(5023);
    /// The driver is open, and the setting cannot be changed any more.
    pub const DRIVER_ALREADY_OPEN: Self = Self(5026);
    /// The handle is not, or no longer, registered.
    pub const HANDLE_NOT_REGISTERED: Self = Self(5027);
    /// The GPU's memory cannot be pinned.
    pub const GPU_MEMORY_PINNING_FAILED: Self = Self(5036);
    /// The batch has no slot left.
    pub const BATCH_FULL: Self = Self(5037);
}

/// `CUfileError_t`: what most functions return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[must_use = "it may be a failure"]
pub struct Status {
    /// The code of cuFile.
    pub err: OpError,
    /// The code of the CUDA driver, with [`OpError::CUDA_DRIVER_ERROR`].
    pub cu_err: i32,
}

impl Status {
    /// Success.
    pub const SUCCESS: Self = Self { err: OpError::SUCCESS, cu_err: 0 };
}

/// `CUfileHandle_t`: a registered file.
pub type Handle = *mut c_void;
/// `CUfileBatchHandle_t`: a batch.
pub type BatchHandle = *mut c_void;
/// `CUstream`.
pub type Stream = *mut c_void;

/// `CUfileDescr_t`: a file to register.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Descriptor {
    /// [`OPAQUE_FD`](Self::OPAQUE_FD).
    pub kind: u32,
    /// A union of a file descriptor and a pointer.
    pub fd: FdOrPointer,
    /// For file systems in user space; null otherwise.
    pub fs_ops: *const c_void,
}

/// The union in [`Descriptor`]: the descriptor fills its first half, the rest is zero.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct FdOrPointer {
    /// The file descriptor.
    pub fd: c_int,
    /// Zero.
    pub rest: u32,
}

impl Descriptor {
    /// The file is a file descriptor of Linux.
    pub const OPAQUE_FD: u32 = 1;

    /// The file behind a descriptor.
    pub fn of(fd: c_int) -> Self {
        Self { kind: Self::OPAQUE_FD, fd: FdOrPointer { fd, rest: 0 }, fs_ops: std::ptr::null() }
    }
}

/// `CUfileDrvProps_t`: what the driver is and allows. Sizes are in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct DriverProperties {
    /// nvidia-fs: the major version of the kernel module, 0 without it.
    pub nvfs_major: u32,
    /// nvidia-fs: the minor version.
    pub nvfs_minor: u32,
    /// Up to this size, completions are polled for.
    pub poll_threshold: usize,
    /// The largest request that goes to the kernel.
    pub max_direct_io_size: usize,
    /// Bits of the file systems that are supported.
    pub status_flags: u32,
    /// Bits of what is switched on.
    pub control_flags: u32,
    /// Bits of what the library can do.
    pub feature_flags: u32,
    /// GPU memory for bounce buffers.
    pub max_device_cache_size: u32,
    /// GPU memory of one bounce buffer.
    pub per_buffer_cache_size: u32,
    /// GPU memory that may be pinned.
    pub max_device_pinned_size: u32,
    /// Entries of a batch.
    pub max_batch_io_size: u32,
    /// Milliseconds after which a batch gives up.
    pub max_batch_io_timeout: u32,
}

impl DriverProperties {
    /// Control bit: completions are polled for.
    pub const USE_POLL_MODE: u32 = 1 << 0;
    /// Control bit: what GPUDirect Storage cannot do goes through host memory.
    pub const ALLOW_COMPAT_MODE: u32 = 1 << 1;
    /// Feature bit: peer-to-peer DMA.
    pub const PEER_TO_PEER: u32 = 1 << 4;
}

/// `CUfileIOParams_t`: one entry of a batch.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct IoParams {
    /// [`BATCH`](Self::BATCH).
    pub mode: u32,
    /// The base of the memory: of a registered buffer, where there is one.
    pub base: *mut c_void,
    /// Where in the file.
    pub file_offset: i64,
    /// Where in the memory, from `base` on.
    pub base_offset: i64,
    /// How many bytes.
    pub size: usize,
    /// The registered file.
    pub handle: Handle,
    /// [`READ`](Self::READ) or [`WRITE`](Self::WRITE).
    pub opcode: u32,
    /// Comes back in the event.
    pub cookie: *mut c_void,
}

impl IoParams {
    /// The only mode.
    pub const BATCH: u32 = 1;
    /// From the file into memory.
    pub const READ: u32 = 0;
    /// From memory to the file.
    pub const WRITE: u32 = 1;
}

/// `CUfileIOEvents_t`: what became of an entry.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct IoEvent {
    /// The entry's cookie.
    pub cookie: *mut c_void,
    /// What became of it.
    pub status: EventStatus,
    /// The bytes moved or, as a signed number, why none were.
    pub ret: usize,
}

impl IoEvent {
    /// No event.
    pub const NONE: Self = Self { cookie: std::ptr::null_mut(), status: EventStatus(0), ret: 0 };
}

/// `CUfileStatus_t`, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct EventStatus(pub u32);

impl EventStatus {
    /// Not submitted yet.
    pub const WAITING: Self = Self(1);
    /// Submitted.
    pub const PENDING: Self = Self(2);
    /// Not valid.
    pub const INVALID: Self = Self(4);
    /// Cancelled.
    pub const CANCELED: Self = Self(8);
    /// Done.
    pub const COMPLETE: Self = Self(0x10);
    /// Took too long.
    pub const TIMEOUT: Self = Self(0x20);
    /// Could not be done.
    pub const FAILED: Self = Self(0x40);
}

/// Flags of `cuFileStreamRegister`: what does not change between the call and the operation.
#[derive(Clone, Copy, Debug)]
pub struct StreamFlags;

impl StreamFlags {
    /// The offset in the buffer.
    pub const FIXED_BUFFER_OFFSET: u32 = 1;
    /// The offset in the file.
    pub const FIXED_FILE_OFFSET: u32 = 2;
    /// The size.
    pub const FIXED_FILE_SIZE: u32 = 4;
    /// All of them are multiples of 4 KiB.
    pub const PAGE_ALIGNED: u32 = 8;
}

/// Bytes to have ready for a structure of statistics: the largest known has 5,112, and newer libraries write more.
pub const STATISTICS_LEN: usize = 16 << 10;

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Status>() == 8);
    assert!(size_of::<Descriptor>() == 24 && offset_of!(Descriptor, fd) == 8 && offset_of!(Descriptor, fs_ops) == 16);
    assert!(size_of::<DriverProperties>() == 56);
    assert!(offset_of!(DriverProperties, status_flags) == 24);
    assert!(offset_of!(DriverProperties, max_batch_io_timeout) == 52);
    assert!(size_of::<IoParams>() == 64 && offset_of!(IoParams, base) == 8 && offset_of!(IoParams, size) == 32);
    assert!(offset_of!(IoParams, opcode) == 48 && offset_of!(IoParams, cookie) == 56);
    assert!(size_of::<IoEvent>() == 24 && offset_of!(IoEvent, ret) == 16);
};
