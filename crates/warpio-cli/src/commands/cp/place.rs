//! Where a copy goes.

use std::path::{Path, PathBuf};

use warpio::remote::Location;
use warpio::{Runtime, Sink};

use super::target;
use crate::failure::Failure;
use crate::output::named;

/// Where a copy goes: a file, with the permissions that it gets, or an object.
pub(super) enum Place {
    File(target::Target),
    Object(Location),
}

impl Place {
    /// Finds where a copy of `source` goes: to `destination`, or into it if it is a directory, or a URL that ends with
    /// a slash.
    pub(super) fn resolve(rt: &Runtime, source: &Path, destination: &Path) -> Result<Self, Failure> {
        if !warpio::is_remote(destination) {
            return Ok(Self::File(target::resolve(source, destination)?));
        }
        let url = destination.to_string_lossy();
        let location = rt.remote().at(&url)?;
        let into = url.ends_with('/') || url.matches('/').count() == 2;
        match (into, file_name(source)) {
            (true, Some(name)) => Ok(Self::Object(location.below(&name))),
            (true, None) => {
                let (source, url) = (named(source), named(destination));
                Err(Failure::new(format!("{source} has no name that could be used below {url}; give the copy one")))
            }
            (false, _) => Ok(Self::Object(location)),
        }
    }

    pub(super) async fn create(&self, rt: &Runtime) -> Result<Sink, Failure> {
        match self {
            Self::File(target) => {
                let options = target.permissions.map_or(rt.open_options(), |mode| rt.open_options().mode(mode));
                Ok(options.create_whole(&target.path).await?)
            }
            Self::Object(location) => Ok(Sink::new(location.create()?)),
        }
    }

    /// As it is told to the user.
    pub(super) fn name(&self) -> PathBuf {
        match self {
            Self::File(target) => target.path.clone(),
            Self::Object(location) => location.name().into(),
        }
    }

    /// The file, where it is one.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(target) => Some(&target.path),
            Self::Object(_) => None,
        }
    }

    /// Opens what was copied.
    pub(super) async fn open(&self, rt: &Runtime) -> Result<warpio::Source, Failure> {
        match self {
            Self::File(target) => Ok(rt.open(&target.path).await?),
            Self::Object(location) => Ok(warpio::Source::new(location.open().await?)),
        }
    }
}

/// The last part of a path or of a URL's path.
pub(super) fn file_name(source: &Path) -> Option<String> {
    if !warpio::is_remote(source) {
        let path = warpio::local_path(source).ok()?;
        return path.file_name().map(|name| name.to_string_lossy().into_owned());
    }
    let url = source.to_string_lossy();
    let (scheme, rest) = url.split_once("://")?;
    // Only what is HTTP has a query; in a key, these are signs like others.
    let rest = if scheme.to_ascii_lowercase().starts_with("http") { rest.split(['?', '#']).next()? } else { rest };
    let (_, path) = rest.split_once('/')?;
    path.rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_last_part_and_no_query() {
        let name = |source: &str| file_name(Path::new(source));
        assert_eq!(name("a/b c").as_deref(), Some("b c"));
        assert_eq!(name("s3://bucket/a/b?c#d").as_deref(), Some("b?c#d"));
        assert_eq!(name("https://host/a/b.bin?sig=secret").as_deref(), Some("b.bin"));
        for none in ["s3://bucket", "s3://bucket/", "s3://bucket/a/", "https://host", "https://host/?x", "/", ".."] {
            assert_eq!(name(none), None, "{none}");
        }
    }
}
