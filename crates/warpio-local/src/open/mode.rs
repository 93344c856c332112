//! The modes of KvikIO and of C's `fopen`, as text.

use super::OpenOptions;
use std::fmt;
use std::str::FromStr;

/// How a file is to be opened, by its customary letters.
///
/// ```
/// use warpio_local::open::OpenMode;
/// assert_eq!("r+".parse::<OpenMode>()?, OpenMode::ReadWrite);
/// assert_eq!(OpenMode::Write.to_string(), "w");
/// let error = "rb".parse::<OpenMode>().unwrap_err();
/// assert!(error.to_string().contains(r#""r", "w", "a", "r+", "w+""#));
/// # Ok::<(), warpio_local::open::ParseOpenModeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// `"r"`: read what is there.
    Read,
    /// `"w"`: write anew; what was there is gone.
    Write,
    /// `"a"`: write behind what is there.
    Append,
    /// `"r+"`: read and write what is there.
    ReadWrite,
    /// `"w+"`: write anew, and read what was written.
    WriteRead,
}

impl OpenMode {
    const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Append, Self::ReadWrite, Self::WriteRead];

    /// Its letters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "r",
            Self::Write => "w",
            Self::Append => "a",
            Self::ReadWrite => "r+",
            Self::WriteRead => "w+",
        }
    }

    /// The options that it stands for.
    pub const fn options(self) -> OpenOptions {
        let options = OpenOptions::new();
        match self {
            Self::Read => options.read(true),
            Self::Write => options.write(true).create(true).truncate(true),
            Self::Append => options.append(true).create(true),
            Self::ReadWrite => options.read(true).write(true),
            Self::WriteRead => options.read(true).write(true).create(true).truncate(true),
        }
    }
}

impl fmt::Display for OpenMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Text that is none of the modes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a mode of opening a file; use one of {}", modes())]
pub struct ParseOpenModeError {
    /// The text.
    pub given: String,
}

impl FromStr for OpenMode {
    type Err = ParseOpenModeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|mode| mode.as_str() == text);
        found.ok_or_else(|| ParseOpenModeError { given: text.to_owned() })
    }
}

fn modes() -> String {
    OpenMode::ALL.map(|mode| format!("{:?}", mode.as_str())).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_reads_back_as_itself() {
        for mode in OpenMode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_list() {
        for text in ["", "rw", "+r", "R", "r ", "a+", "rb", "x"] {
            let error = text.parse::<OpenMode>().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(r#"{text:?} is not a mode of opening a file; use one of "r", "w", "a", "r+", "w+""#)
            );
        }
    }
}
