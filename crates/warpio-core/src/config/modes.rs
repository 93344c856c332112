use std::fmt;
use std::str::FromStr;

use crate::{Error, ErrorKind};

/// Writes an enum of settings as its lower-case names, and reads them back.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            const NAMES: &'static [&'static str] = &[$($text),*];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $text,)* })
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                match text.to_ascii_lowercase().as_str() {
                    $($text => Ok(Self::$variant),)*
                    _ => Err(Error::new(ErrorKind::InvalidConfig)
                        .with_message(format!("\"{text}\" is none of: {}", Self::NAMES.join(", ")))),
                }
            }
        }
    };
}

named! {
    /// Whether transfers go past the page cache.
    DirectIo {
        /// What is fastest: cached bytes through the cache, others past it, as far as the file system allows.
        #[default]
        Auto = "auto",
        /// Past the page cache, wherever the file system allows it.
        Always = "always",
        /// Through the page cache.
        Never = "never",
    }
}

named! {
    /// Whether something may be used.
    Switch {
        /// Where the machine has it.
        #[default]
        Auto = "auto",
        /// Never.
        Off = "off",
    }
}

named! {
    /// Which engine carries out the transfers of local files that the page cache does not serve.
    EngineChoice {
        /// The fastest that the machine allows.
        #[default]
        Auto = "auto",
        /// io_uring, driven directly.
        IoUring = "io-uring",
        /// io_uring through the tokio-uring crate.
        TokioUring = "tokio-uring",
        /// Threads that call `pread` and `pwrite`.
        Posix = "posix",
    }
}

named! {
    /// Whether transfers between local files and GPUs go by cuFile: NVIDIA's GPUDirect Storage.
    CompatMode {
        /// Where it truly goes past host memory, for what is not cached.
        #[default]
        Auto = "auto",
        /// Never.
        On = "on",
        /// Always: it is an error where it would not go past host memory.
        Off = "off",
    }
}

named! {
    /// Which interface of cuFile carries requests.
    CuFileApi {
        /// Batches for small ones, calls for large ones.
        #[default]
        Auto = "auto",
        /// Calls that block, on threads for that.
        Sync = "sync",
        /// Batches.
        Batch = "batch",
        /// Calls in the order of a stream.
        Stream = "stream",
    }
}
