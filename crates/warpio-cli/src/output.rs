//! What a command prints: text for people, or one JSON object a line.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use serde_json::Value;

use crate::failure::Failure;

/// A result, in both forms.
pub(crate) trait Report: fmt::Display {
    /// One object.
    fn json(&self) -> Value;
}

/// Where and in which form results are printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether people read it.
    pub(crate) fn is_text(&self) -> bool {
        !self.json
    }

    /// Prints a result.
    pub(crate) fn print(&self, report: &impl Report) -> Result<(), Failure> {
        let text = if self.json { report.json().to_string() } else { report.to_string() };
        let mut stdout = io::stdout().lock();
        match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
            // Who closed the other end wants no more, and the work is done.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(Failure::new(format!("the result could not be written to standard output: {error}"))),
            Ok(()) => Ok(()),
        }
    }
}

/// Text that may hold names of files: what would move the cursor or break the line is written as an escape.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect::<String>().into()
}

/// A path or URL, as [`shown`], and without the secrets that a URL may hold.
pub(crate) fn shown_path(path: &Path) -> String {
    shown(&named(path)).into_owned()
}

/// A path or URL, without the secrets that a URL may hold.
pub(crate) fn named(path: &Path) -> String {
    warpio::core::redact(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_others_kept() {
        assert_eq!(shown("dätä \"x\"\\"), "dätä \"x\"\\");
        assert_eq!(shown("a\tb\r"), "a\\tb\\r");
        assert_eq!(shown_path(Path::new("a\nb")), "a\\nb");
        assert_eq!(shown_path(Path::new("https://u:p@h/x?sig=s")), "https://h/x?…");
    }
}
