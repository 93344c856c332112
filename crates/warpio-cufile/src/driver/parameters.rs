//! The parameters of libcufile 1.14 and newer, by the names of the API.

use std::ffi::{CStr, CString};

use crate::error::CuFileError;
use crate::sys::{Library, OpError};

macro_rules! parameters {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$variant_doc])* $variant = $number,)* }

        impl $name {
            /// All that are known.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
        }
    };
}

parameters! {
    /// A parameter that is a number: a count, or a size in KiB where its name says so.
    SizeParameter {
        /// The level of statistics, 0 to 3.
        ProfileStats = 0,
        /// Requests in a queue.
        MaxIoQueueDepth = 1,
        /// Threads for parallel I/O.
        MaxIoThreads = 2,
        /// From this size on, a request is cut for parallel I/O.
        MinIoThresholdSizeKb = 3,
        /// Pieces of a request at once.
        MaxRequestParallelism = 4,
        /// The largest request that goes to the kernel.
        MaxDirectIoSizeKb = 5,
        /// GPU memory for bounce buffers.
        MaxDeviceCacheSizeKb = 6,
        /// GPU memory of one bounce buffer.
        PerBufferCacheSizeKb = 7,
        /// GPU memory that may be pinned.
        MaxDevicePinnedMemSizeKb = 8,
        /// Entries of a batch.
        IoBatchSize = 9,
        /// Up to this size, completions are polled for.
        PollThresholdSizeKb = 10,
        /// Milliseconds after which a batch is given up.
        BatchIoTimeoutMs = 11,
    }
}

parameters! {
    /// A parameter that is on or off.
    BoolParameter {
        /// Completions are polled for.
        UsePollMode = 0,
        /// What GPUDirect Storage cannot do goes through host memory.
        AllowCompatMode = 1,
        /// Everything goes through host memory.
        ForceCompatMode = 2,
        /// File systems are checked more often.
        FsMiscApiCheckAggressive = 3,
        /// Large requests are cut and run at once.
        ParallelIo = 4,
        /// Buffers may lie in host memory.
        AllowSystemMemory = 6,
        /// The kernel's peer-to-peer DMA is used.
        UsePciP2pdma = 7,
        /// io_uring is preferred to POSIX calls.
        PreferIoUring = 8,
        /// Files are taken as opened for direct I/O.
        ForceOdirectMode = 9,
        /// The topology of the machine is not looked at.
        SkipTopologyDetection = 10,
        /// Streams are not waited for by memory operations.
        StreamMemopsBypass = 11,
    }
}

parameters! {
    /// A parameter that is text.
    TextParameter {
        /// What is logged: `ERROR`, `WARN`, `INFO`, `DEBUG`, `TRACE`.
        LoggingLevel = 0,
        /// The log file.
        LogFile = 1,
        /// The folder of the log file.
        LogDir = 2,
    }
}

/// A parameter and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parameter {
    Size(SizeParameter, usize),
    Bool(BoolParameter, bool),
    Text(TextParameter, CString),
}

/// Why a parameter has no value.
pub(super) enum Refusal {
    /// The library is older than parameters are.
    Missing,
    Failed(CuFileError),
}

impl Parameter {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Size(parameter, _) => format!("{parameter:?}"),
            Self::Bool(parameter, _) => format!("{parameter:?}"),
            Self::Text(parameter, _) => format!("{parameter:?}"),
        }
    }

    pub(super) fn value(&self) -> String {
        match self {
            Self::Size(_, value) => value.to_string(),
            Self::Bool(_, value) => value.to_string(),
            Self::Text(_, value) => value.to_string_lossy().into_owned(),
        }
    }

    /// Sets the parameter; the driver must not be open yet.
    pub(super) fn apply(&self, library: &Library) -> Result<(), Refusal> {
        let (status, call) = match self {
            Self::Size(parameter, value) => {
                let set = library.cuFileSetParameterSizeT.ok_or(Refusal::Missing)?;
                // SAFETY: any number and value may be passed.
                (unsafe { set(*parameter as i32, *value) }, "cuFileSetParameterSizeT")
            }
            Self::Bool(parameter, value) => {
                let set = library.cuFileSetParameterBool.ok_or(Refusal::Missing)?;
                // SAFETY: as above.
                (unsafe { set(*parameter as i32, *value) }, "cuFileSetParameterBool")
            }
            Self::Text(parameter, value) => {
                let set = library.cuFileSetParameterString.ok_or(Refusal::Missing)?;
                // SAFETY: a text that ends with NUL, and lives until the call returns.
                (unsafe { set(*parameter as i32, value.as_ptr()) }, "cuFileSetParameterString")
            }
        };
        CuFileError::check(status, call).map_err(Refusal::Failed)
    }

    /// The same parameter with the value that the library has, if it tells.
    pub(super) fn read_back(&self, library: &Library) -> Option<Self> {
        match self {
            Self::Size(parameter, _) => size(library, *parameter).map(|value| Self::Size(*parameter, value)),
            Self::Bool(parameter, _) => boolean(library, *parameter).map(|value| Self::Bool(*parameter, value)),
            Self::Text(parameter, _) => text(library, *parameter).map(|value| Self::Text(*parameter, value)),
        }
    }
}

pub(super) fn size(library: &Library, parameter: SizeParameter) -> Option<usize> {
    let mut value = 0;
    // SAFETY: a valid place for the result.
    let status = unsafe { library.cuFileGetParameterSizeT?(parameter as i32, &mut value) };
    (status.err == OpError::SUCCESS).then_some(value)
}

pub(super) fn boolean(library: &Library, parameter: BoolParameter) -> Option<bool> {
    let mut value = false;
    // SAFETY: a valid place for the result.
    let status = unsafe { library.cuFileGetParameterBool?(parameter as i32, &mut value) };
    (status.err == OpError::SUCCESS).then_some(value)
}

pub(super) fn text(library: &Library, parameter: TextParameter) -> Option<CString> {
    let mut value = [0u8; 4096];
    // SAFETY: a place of the length that is passed.
    let status =
        unsafe { library.cuFileGetParameterString?(parameter as i32, value.as_mut_ptr().cast(), value.len() as i32) };
    (status.err == OpError::SUCCESS).then_some(())?;
    CStr::from_bytes_until_nul(&value).ok().map(CStr::to_owned)
}
