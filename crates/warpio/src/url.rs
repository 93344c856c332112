//! Where a source or sink is.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use warpio_core::{Error, Result, percent_decode, redact};

/// What a path or URL names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// A file of this machine.
    File(PathBuf),
    /// What is elsewhere.
    Url(String),
}

impl Location {
    pub(crate) fn parse(text: &Path) -> Result<Self> {
        let Some((scheme, rest)) = text.to_str().and_then(|text| text.split_once("://")) else {
            return Ok(Self::File(text.to_owned()));
        };
        // A path may hold "://" too, but a scheme has only letters, digits and a few signs.
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        match scheme.to_ascii_lowercase().as_str() {
            _ if !is_scheme => Ok(Self::File(text.to_owned())),
            "file" => file_url(rest),
            _ => Ok(Self::Url(text.to_string_lossy().into_owned())),
        }
    }
}

/// The file of this machine that a path or `file://` URL names.
///
/// ```
/// use std::path::Path;
///
/// assert_eq!(warpio::local_path("file:///data/a%20b")?, Path::new("/data/a b"));
/// assert_eq!(warpio::local_path("data/a b")?, Path::new("data/a b"));
/// # Ok::<(), warpio::Error>(())
/// ```
///
/// # Errors
/// [`Unsupported`](warpio_core::ErrorKind::Unsupported) for other URLs, and
/// [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) for a URL that cannot be read.
pub fn local_path(location: impl AsRef<Path>) -> Result<PathBuf> {
    match Location::parse(location.as_ref())? {
        Location::File(path) => Ok(path),
        Location::Url(url) => Err(elsewhere(&url, "name a file of this machine")),
    }
}

/// Whether a path or URL names what is on another machine, as far as its form tells.
///
/// ```
/// assert!(warpio::is_remote("s3://bucket/key"));
/// assert!(!warpio::is_remote("file:///data/x") && !warpio::is_remote("data/x"));
/// ```
pub fn is_remote(location: impl AsRef<Path>) -> bool {
    matches!(Location::parse(location.as_ref()), Ok(Location::Url(_)))
}

/// The error for a URL where it is of no use.
pub(crate) fn elsewhere(url: &str, what: &str) -> Error {
    let scheme = url.split("://").next().unwrap_or_default();
    Error::unsupported(format!("URLs with {scheme}:// do not {what}"))
        .with_operation("open")
        .with_source_name(&redact(url))
}

/// `file://` URLs name an absolute path, percent-encoded, with an empty host or `localhost`.
fn file_url(rest: &str) -> Result<Location> {
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return Err(Error::invalid_input(format!(
            "file://{rest} names another host; write file:///path for a file of this machine"
        )));
    }
    let bytes = percent_decode(path)
        .ok_or_else(|| Error::invalid_input(format!("file://{rest} has a % that is not followed by two digits")))?;
    Ok(Location::File(PathBuf::from(std::ffi::OsStr::from_bytes(&bytes))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> PathBuf {
        match Location::parse(Path::new(text)).unwrap() {
            Location::File(path) => path,
            Location::Url(url) => panic!("{url}"),
        }
    }

    #[test]
    fn paths_are_files_as_they_are() {
        for path in ["data.bin", "/abs/data.bin", "a b%20c", "", "C:\\x", "dir/a://b", "100%"] {
            assert_eq!(file(path), PathBuf::from(path));
        }
    }

    #[test]
    fn file_urls_are_decoded() {
        assert_eq!(file("file:///tmp/a%20b"), PathBuf::from("/tmp/a b"));
        assert_eq!(file("FILE://localhost/tmp/x"), PathBuf::from("/tmp/x"));
        for bad in ["file://host/x", "file:///tmp/%2", "file:///tmp/%zz", "file://"] {
            assert!(Location::parse(Path::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn other_urls_are_no_files_and_are_told_without_their_secrets() {
        assert_eq!(Location::parse(Path::new("s3://b/a b")).unwrap(), Location::Url("s3://b/a b".to_owned()));
        let error = local_path("ftp://me:secret@host/x?key=hidden").unwrap_err();
        assert_eq!(error.kind(), warpio_core::ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(text.contains("ftp") && !text.contains("secret") && !text.contains("hidden"), "{text}");
    }
}
