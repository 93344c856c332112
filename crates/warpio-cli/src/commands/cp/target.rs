//! Where a copy goes, and with which permissions.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::place::file_name;
use crate::failure::Failure;

/// Where a copy goes.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) path: PathBuf,
    /// Those of the source, for a file that is new: the umask is still to be taken off, and a file that is replaced
    /// keeps its own. That is what cp(1) does.
    pub(super) permissions: Option<u32>,
}

/// Finds where a copy of `source` goes: to `destination`, or into it if it is a directory.
pub(super) fn resolve(source: &Path, destination: &Path) -> Result<Target, Failure> {
    let destination = warpio::local_path(destination)?;
    let path = match (destination.is_dir(), file_name(source)) {
        (true, Some(name)) => destination.join(name),
        _ => destination,
    };
    if warpio::is_remote(source) {
        return Ok(Target { path, permissions: None });
    }
    let source = warpio::local_path(source)?;
    let Ok(from) = std::fs::metadata(&source) else {
        return Ok(Target { path, permissions: None });
    };
    let same = |to: &std::fs::Metadata| (from.dev(), from.ino()) == (to.dev(), to.ino());
    if std::fs::metadata(&path).is_ok_and(|to| same(&to)) {
        let (source, path) = (source.display(), path.display());
        return Err(Failure::new(format!("{source} and {path} are the same file; name another destination")));
    }
    Ok(Target { path, permissions: Some(from.mode() & 0o777) })
}
