use object_store::path::{Path, PathPart};
use warpio_core::{Error, Result};

/// The name of an object in its store, exactly as it is called there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    raw: String,
}

impl Key {
    pub(crate) fn new(raw: impl Into<String>) -> Self {
        Self { raw: raw.into() }
    }

    /// The path that the library makes this key of.
    pub(crate) fn path(&self) -> Result<Path> {
        let refuse = |why: &str| Error::invalid_input(format!("the key {:?} {why}", self.raw));
        if self.raw.is_empty() {
            return Err(refuse("is empty"));
        }
        if self.raw.starts_with('/') {
            return Err(refuse("begins with a slash, which cannot be asked for"));
        }
        let mut path = Path::ROOT;
        for segment in self.raw.split('/') {
            if matches!(segment, "." | "..") {
                return Err(refuse("has a step (. or ..) in it, which would be taken for one"));
            }
            // Unlike `Path::parse`, this lets segments be empty, as keys may have them.
            let part = PathPart::parse(segment).map_err(|_| refuse("has control characters in it"))?;
            path = path.join(part);
        }
        Ok(path)
    }

    /// The path for a listing, where nothing ends with a slash.
    pub(crate) fn prefix(&self) -> Result<Option<Path>> {
        match self.raw.trim_end_matches('/') {
            "" => Ok(None),
            raw => Self::new(raw).path().map(Some),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_they_are() {
        for key in ["a", "a b", "a=b+c", "a%20b", "#?", "Ü/ü", "a//b", "a///b", "dir/", "a/ /b", "~", "a\\b", "*"] {
            assert_eq!(Key::new(key).path().unwrap().as_ref(), key);
        }
    }

    #[test]
    fn keys_that_would_reach_another_object_are_refused() {
        for key in ["", "/", "/a", "..", "a/../b", "./a", "a\nb", "a\u{7f}"] {
            assert!(Key::new(key).path().is_err(), "{key:?}");
        }
    }

    #[test]
    fn prefixes_may_be_empty() {
        assert_eq!(Key::new("").prefix().unwrap(), None);
        assert_eq!(Key::new("/").prefix().unwrap(), None);
        assert_eq!(Key::new("a//b/").prefix().unwrap().unwrap().as_ref(), "a//b");
    }
}
