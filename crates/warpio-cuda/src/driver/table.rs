//! The entry points of libcuda that this crate calls, resolved once.
//!
//! cudarc resolves a function at its first call and panics where it is missing, and it reads the result as a Rust
//! enum, for which a code of a newer driver is undefined behaviour. Here a missing function is a reason not to use the
//! driver, and a code is an integer.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use cudarc::driver::sys::{CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUmemoryPool, CUmodule, CUstream};

/// `CU_STREAM_NON_BLOCKING`.
pub(crate) const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING`.
pub(crate) const EVENT_DISABLE_TIMING: c_uint = 2;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
pub(crate) const CAPTURE_MODE_RELAXED: c_int = 2;
/// `CU_STREAM_CAPTURE_STATUS_NONE`.
pub(crate) const CAPTURE_STATUS_NONE: c_int = 0;
/// `CU_MEMHOSTREGISTER_PORTABLE` and `CU_MEMHOSTALLOC_PORTABLE`: pinned for every context.
pub(crate) const HOST_PORTABLE: c_uint = 1;
/// `CU_MEMHOSTREGISTER_READ_ONLY`: the device only reads it.
pub(crate) const HOST_READ_ONLY: c_uint = 8;
/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`.
pub(crate) const POOL_RELEASE_THRESHOLD: c_uint = 4;
/// `CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM`.
pub(crate) const ATTRIBUTE_HOST_POINTERS: c_int = 91;
/// `CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED`.
pub(crate) const ATTRIBUTE_READ_ONLY_PINS: c_int = 113;
/// `CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED`.
pub(crate) const ATTRIBUTE_MEMORY_POOLS: c_int = 115;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`.
pub(crate) const ATTRIBUTE_CAPABILITY_MAJOR: c_int = 75;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR`.
pub(crate) const ATTRIBUTE_CAPABILITY_MINOR: c_int = 76;

/// `CUmemPoolProps`, as it has been laid out since CUDA 12.6; older drivers take the later fields for reserved bytes.
#[repr(C)]
pub(crate) struct PoolProperties {
    /// `CU_MEM_ALLOCATION_TYPE_PINNED` = 1.
    pub(crate) allocation_type: c_int,
    /// `CU_MEM_HANDLE_TYPE_NONE` = 0.
    pub(crate) handle_types: c_int,
    /// `CU_MEM_LOCATION_TYPE_DEVICE` = 1.
    pub(crate) location_type: c_int,
    pub(crate) location: c_int,
    pub(crate) security: *mut c_void,
    /// 0 leaves the size to the driver.
    pub(crate) max_size: usize,
    pub(crate) usage: u16,
    pub(crate) reserved: [u8; 54],
}

const _: () = assert!(size_of::<PoolProperties>() == 88);

macro_rules! table {
    (
        required { $(fn $name:ident($($arg:ty),*);)+ }
        optional { $(fn $optional:ident($($optional_arg:ty),*);)+ }
    ) => {
        /// Functions of the loaded driver, under their own names.
        #[allow(non_snake_case)]
        pub(crate) struct Table {
            $(pub(crate) $name: unsafe extern "C" fn($($arg),*) -> c_int,)+
            $(pub(crate) $optional: Option<unsafe extern "C" fn($($optional_arg),*) -> c_int>,)+
        }

        impl Table {
            /// Resolves every function.
            ///
            /// # Errors
            /// The name of the first required one that the driver lacks.
            ///
            /// # Safety
            /// libcuda can be loaded: `is_culib_present` said so.
            pub(super) unsafe fn load() -> Result<Self, &'static str> {
                // SAFETY: the caller knows that the library is there; cudarc never unloads it.
                let library = unsafe { cudarc::driver::sys::culib() };
                Ok(Self {
                    // SAFETY: the signatures are those of the driver API's header.
                    $($name: unsafe { library.get(stringify!($name).as_bytes()) }.map(|f| *f).map_err(|_| stringify!($name))?,)+
                    // SAFETY: as above.
                    $($optional: unsafe { library.get(stringify!($optional).as_bytes()) }.map(|f| *f).ok(),)+
                })
            }
        }
    };
}

/// The newest CUDA that the loaded driver supports, as its number and the driver's code. Older drivers than we need
/// answer too.
///
/// # Errors
/// The name of the function, if the library lacks it.
///
/// # Safety
/// As for [`Table::load`].
pub(super) unsafe fn driver_version() -> Result<(c_int, c_int), &'static str> {
    const NAME: &str = "cuDriverGetVersion";
    // SAFETY: the caller knows that the library is there; the signature is that of the driver API's header.
    let function = unsafe {
        cudarc::driver::sys::culib()
            .get::<unsafe extern "C" fn(*mut c_int) -> c_int>(NAME.as_bytes())
            .map_err(|_| NAME)?
    };
    let mut version = 0;
    // SAFETY: a valid place for the result; the call needs no initialisation.
    let code = unsafe { function(&mut version) };
    Ok((version, code))
}

table! {
    required {
        fn cuInit(c_uint);
        fn cuGetErrorName(c_int, *mut *const c_char);
        fn cuGetErrorString(c_int, *mut *const c_char);
        fn cuDeviceGetCount(*mut c_int);
        fn cuDeviceGet(*mut CUdevice, c_int);
        fn cuDeviceGetName(*mut c_char, c_int, CUdevice);
        fn cuDeviceGetAttribute(*mut c_int, c_int, CUdevice);
        fn cuDeviceGetPCIBusId(*mut c_char, c_int, CUdevice);
        fn cuDeviceTotalMem_v2(*mut usize, CUdevice);
        fn cuCtxGetCurrent(*mut CUcontext);
        fn cuCtxSetCurrent(CUcontext);
        fn cuCtxPushCurrent_v2(CUcontext);
        fn cuCtxPopCurrent_v2(*mut CUcontext);
        fn cuCtxSynchronize();
        fn cuCtxGetId(CUcontext, *mut c_ulonglong);
        fn cuThreadExchangeStreamCaptureMode(*mut c_int);
        fn cuMemGetInfo_v2(*mut usize, *mut usize);
        fn cuMemAlloc_v2(*mut CUdeviceptr, usize);
        fn cuMemFree_v2(CUdeviceptr);
        fn cuMemPoolCreate(*mut CUmemoryPool, *const PoolProperties);
        fn cuMemPoolDestroy(CUmemoryPool);
        fn cuMemPoolSetAttribute(CUmemoryPool, c_uint, *mut c_void);
        fn cuMemPoolTrimTo(CUmemoryPool, usize);
        fn cuMemAllocFromPoolAsync(*mut CUdeviceptr, usize, CUmemoryPool, CUstream);
        fn cuMemFreeAsync(CUdeviceptr, CUstream);
        fn cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
        fn cuMemFreeHost(*mut c_void);
        fn cuMemHostRegister_v2(*mut c_void, usize, c_uint);
        fn cuMemHostUnregister(*mut c_void);
        fn cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
        fn cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
        fn cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
        fn cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream);
        fn cuStreamCreate(*mut CUstream, c_uint);
        fn cuStreamDestroy_v2(CUstream);
        fn cuStreamQuery(CUstream);
        fn cuStreamSynchronize(CUstream);
        fn cuStreamWaitEvent(CUstream, CUevent, c_uint);
        fn cuStreamIsCapturing(CUstream, *mut c_int);
        fn cuStreamGetCtx(CUstream, *mut CUcontext);
        fn cuEventCreate(*mut CUevent, c_uint);
        fn cuEventDestroy_v2(CUevent);
        fn cuEventRecord(CUevent, CUstream);
        fn cuEventQuery(CUevent);
    }
    optional {
        // Since CUDA 12.5.
        fn cuCtxRecordEvent(CUcontext, CUevent);
        // Without them, small pieces are copied one by one.
        fn cuModuleLoadData(*mut CUmodule, *const c_void);
        fn cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
        fn cuLaunchKernel(CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void);
    }
}
