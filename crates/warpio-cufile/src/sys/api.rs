//! The functions of libcufile, resolved once.
//!
//! What every library since 1.11 has is required; what came later is optional, and asked for by name rather than by
//! version.

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};

use libc::{off_t, size_t, ssize_t, timespec};
use libloading::os::unix::Library;

use super::types::{BatchHandle, Descriptor, DriverProperties, Handle, IoEvent, IoParams, Status, Stream};

macro_rules! api {
    (
        required { $(fn $name:ident($($arg:ty),*) $(-> $result:ty)?;)+ }
        optional { $(fn $optional:ident($($optional_arg:ty),*) $(-> $optional_result:ty)?;)+ }
    ) => {
        /// The functions of one library, under their own names.
        #[allow(non_snake_case, missing_docs, missing_debug_implementations)]
        pub struct Api {
            $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)+
            $(pub $optional: Option<unsafe extern "C" fn($($optional_arg),*) $(-> $optional_result)?>,)+
        }

        impl Api {
            /// Resolves the functions.
            ///
            /// # Errors
            /// The name of the first required one that the library lacks.
            ///
            /// # Safety
            /// The library is libcufile, or behaves like it, and is never unloaded.
            pub(super) unsafe fn resolve(library: &Library) -> Result<Self, &'static str> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the signature is that of the cuFile API.
                        let symbol = unsafe { library.get(stringify!($name).as_bytes()) };
                        *symbol.map_err(|_| stringify!($name))?
                    },)+
                    $($optional: {
                        // SAFETY: as above.
                        let symbol = unsafe { library.get(stringify!($optional).as_bytes()) };
                        symbol.ok().map(|symbol| *symbol)
                    },)+
                })
            }

            /// The optional functions that this library has.
            pub fn optional(&self) -> Vec<&'static str> {
                let mut names = Vec::new();
                $(if self.$optional.is_some() { names.push(stringify!($optional)); })+
                names
            }
        }
    };
}

api! {
    required {
        fn cuFileGetVersion(*mut c_int) -> Status;
        fn cuFileDriverOpen() -> Status;
        fn cuFileDriverClose_v2() -> Status;
        fn cuFileUseCount() -> c_long;
        fn cuFileDriverGetProperties(*mut DriverProperties) -> Status;
        fn cuFileDriverSetPollMode(bool, size_t) -> Status;
        fn cuFileDriverSetMaxDirectIOSize(size_t) -> Status;
        fn cuFileDriverSetMaxCacheSize(size_t) -> Status;
        fn cuFileDriverSetMaxPinnedMemSize(size_t) -> Status;
        fn cuFileHandleRegister(*mut Handle, *mut Descriptor) -> Status;
        fn cuFileHandleDeregister(Handle);
        fn cuFileBufRegister(*const c_void, size_t, c_int) -> Status;
        fn cuFileBufDeregister(*const c_void) -> Status;
        fn cuFileRead(Handle, *mut c_void, size_t, off_t, off_t) -> ssize_t;
        fn cuFileWrite(Handle, *const c_void, size_t, off_t, off_t) -> ssize_t;
        fn cuFileBatchIOSetUp(*mut BatchHandle, c_uint) -> Status;
        fn cuFileBatchIOSubmit(BatchHandle, c_uint, *mut IoParams, c_uint) -> Status;
        fn cuFileBatchIOGetStatus(BatchHandle, c_uint, *mut c_uint, *mut IoEvent, *mut timespec) -> Status;
        fn cuFileBatchIOCancel(BatchHandle) -> Status;
        fn cuFileBatchIODestroy(BatchHandle);
        fn cuFileReadAsync(Handle, *mut c_void, *mut size_t, *mut off_t, *mut off_t, *mut ssize_t, Stream) -> Status;
        fn cuFileWriteAsync(Handle, *mut c_void, *mut size_t, *mut off_t, *mut off_t, *mut ssize_t, Stream) -> Status;
        fn cuFileStreamRegister(Stream, c_uint) -> Status;
        fn cuFileStreamDeregister(Stream) -> Status;
    }
    optional {
        // Since 1.14.
        fn cuFileGetParameterSizeT(c_int, *mut size_t) -> Status;
        fn cuFileSetParameterSizeT(c_int, size_t) -> Status;
        fn cuFileGetParameterBool(c_int, *mut bool) -> Status;
        fn cuFileSetParameterBool(c_int, bool) -> Status;
        fn cuFileGetParameterString(c_int, *mut c_char, c_int) -> Status;
        fn cuFileSetParameterString(c_int, *const c_char) -> Status;
        // Since 1.15.
        fn cuFileGetParameterMinMaxValue(c_int, *mut size_t, *mut size_t) -> Status;
        fn cuFileSetStatsLevel(c_int) -> Status;
        fn cuFileGetStatsLevel(*mut c_int) -> Status;
        fn cuFileStatsStart() -> Status;
        fn cuFileStatsStop() -> Status;
        fn cuFileStatsReset() -> Status;
        fn cuFileGetStatsL1(*mut c_void) -> Status;
        fn cuFileGetStatsL2(*mut c_void) -> Status;
        fn cuFileGetStatsL3(*mut c_void) -> Status;
        fn cuFileGetBARSizeInKB(c_int, *mut size_t) -> Status;
        // Since 1.16.
        fn cuFileDriverGetP2PFlags(c_int, *mut c_int) -> Status;
        fn cuFileDriverSetP2PFlags(c_int, c_int) -> Status;
    }
}
