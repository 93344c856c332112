//! Why the program did not do what it was asked, in one line, and with which code it ends.

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use warpio::local::page_cache::PageCacheError;
use warpio::{Error, ErrorKind, Failed};

use crate::output::shown;
use crate::signal::Signal;

/// Exit codes; 0 is done.
const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
/// A shell's way to say which signal ended a program.
const SIGNALLED: u8 = 128;

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    kind: Option<ErrorKind>,
    code: u8,
}

impl Failure {
    /// A failure that is told in these words; they say what to do.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), kind: None, code: FAILED }
    }

    /// What the page cache of this file, or of the machine, could not do.
    pub(crate) fn of_cache(path: Option<&Path>, error: &PageCacheError) -> Self {
        let mut message = path.map_or_else(String::new, |path| format!("{}: ", path.display()));
        // Infallible: it writes to a string.
        let _ = write!(message, "{error}");
        if let Some(source) = std::error::Error::source(error) {
            let _ = write!(message, ": {source}");
        }
        Self::new(message)
    }

    pub(crate) fn interrupted(signal: Signal) -> Self {
        let message = format!("stopped by {}; nothing that was unfinished is left", signal.name);
        Self { message, kind: None, code: SIGNALLED + signal.number }
    }

    /// The same failure, with what to do about it if it is of this kind.
    pub(crate) fn or_advise(mut self, kind: ErrorKind, advice: &str) -> Self {
        if self.kind == Some(kind) {
            // Infallible: it writes to a string.
            let _ = write!(self.message, "; {advice}");
        }
        self
    }

    /// Tells it on stderr, in one line, and gives the code to end with.
    pub(crate) fn tell(&self) -> ExitCode {
        // There is nobody left to tell if that fails.
        let _ = writeln!(std::io::stderr(), "{self}");
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "warpio: {}", shown(&self.message))
    }
}

/// The one place that decides which error ends with which code.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            // A setting is a part of how the program was called.
            ErrorKind::InvalidConfig => WRONG_USAGE,
            _ => FAILED,
        };
        Self { message: error.to_string(), kind: Some(error.kind()), code }
    }
}

impl<B> From<Failed<B>> for Failure {
    fn from(failed: Failed<B>) -> Self {
        Error::from(failed).into()
    }
}

/// [`Failure::or_advise`] on results.
pub(crate) trait OrAdvise<T> {
    fn or_advise(self, kind: ErrorKind, advice: &str) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> OrAdvise<T> for Result<T, E> {
    fn or_advise(self, kind: ErrorKind, advice: &str) -> Result<T, Failure> {
        self.map_err(|error| error.into().or_advise(kind, advice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_setting_is_wrong_usage_and_all_else_a_failure() {
        let code = |kind| Failure::from(Error::new(kind)).code;
        assert_eq!(code(ErrorKind::InvalidConfig), WRONG_USAGE);
        for kind in [ErrorKind::NotFound, ErrorKind::InvalidInput, ErrorKind::NoDevice, ErrorKind::Io] {
            assert_eq!(code(kind), FAILED, "{kind}");
        }
    }

    #[test]
    fn advice_is_given_for_its_kind_only() {
        let full = || Failure::from(Error::new(ErrorKind::StorageFull));
        let advised = full().or_advise(ErrorKind::StorageFull, "free some").to_string();
        assert!(advised.ends_with("; free some"), "{advised}");
        assert_eq!(full().or_advise(ErrorKind::NotFound, "look again").to_string(), full().to_string());
    }

    #[test]
    fn a_name_with_a_line_break_stays_in_the_line() {
        let line = Failure::new("a\nb\x1b[31m: no such file").to_string();
        assert_eq!(line, "warpio: a\\nb\\u{1b}[31m: no such file");
    }
}
