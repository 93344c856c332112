use std::fmt;
use std::str::FromStr;

use crate::{Error, ErrorKind, parse_decimal};

/// Which device a runtime reads into.
///
/// ```
/// use warpio_core::config::DeviceSpec;
///
/// assert_eq!("cuda:1".parse::<DeviceSpec>()?, DeviceSpec::Cuda(1));
/// assert_eq!(DeviceSpec::Host.to_string(), "host");
/// # Ok::<(), warpio_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeviceSpec {
    /// The first GPU, or host memory where there is none.
    #[default]
    Auto,
    /// Host memory.
    Host,
    /// The GPU with this ordinal; it is an error if there is none.
    Cuda(u32),
}

impl FromStr for DeviceSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "auto" => Ok(Self::Auto),
            "host" => Ok(Self::Host),
            "cuda" => Ok(Self::Cuda(0)),
            _ => text.strip_prefix("cuda:").and_then(parse_decimal).map(Self::Cuda).ok_or_else(|| {
                Error::new(ErrorKind::InvalidConfig)
                    .with_message(format!("\"{text}\" is not a device; write auto, host or cuda:N"))
            }),
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Host => f.write_str("host"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}
