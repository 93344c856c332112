//! A file that appears whole or not at all.

use crate::open::{OpenError, OpenOptions, check_kind, check_path};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, RenameFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The longest name that a file can have on Linux, in bytes.
const NAME_MAX: usize = 255;

/// As many links as the kernel itself would follow.
const MAX_LINKS: usize = 40;

/// Names are drawn from 2^64, so that a second try is already unlikely.
const MAX_DRAWS: usize = 16;

/// A file written under a temporary name beside its own, which takes its own name when committed.
///
/// Whoever opens the path sees what was there before, or all of what was written; after [`commit`](Self::commit) that
/// holds over a loss of power too. Dropped without it, the temporary file is removed, which may wait for the disk.
///
/// A symbolic link at the path is followed. A file that is replaced passes its permissions on, but not its owner.
///
/// ```
/// use std::os::fd::AsFd;
/// use warpio_local::{atomic_file::AtomicFile, sys::rw::write_at};
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("model.bin");
/// let file = AtomicFile::create(&path)?;
/// write_at(file.as_fd(), b"weights", 0)?;
/// assert!(!path.exists());
/// file.commit()?;
/// assert_eq!(std::fs::read(&path)?, b"weights");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct AtomicFile {
    file: OwnedFd,
    dir: OwnedFd,
    target: PathBuf,
    name: OsString,
    /// `None` once it has its own name.
    temporary: Option<OsString>,
}

/// Why a file that was written did not appear, or may not last.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// Its bytes did not reach the disk. Nothing has changed at the path; write the file again.
    #[error("{path}: what was written did not reach the disk, so it was discarded; write it again")]
    Sync {
        /// The path.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Something has that name, and was not to be replaced.
    #[error("{path}: exists already, so what was written was discarded; choose another name, or replace it")]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// It could not take its name. Nothing has changed at the path.
    #[error("{path}: what was written could not take this name, so it was discarded")]
    Publish {
        /// The path.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It has its name, but a loss of power might undo that.
    #[error("{path}: written and in place, but its directory did not reach the disk; sync it before relying on it")]
    NotDurable {
        /// The path.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl From<CommitError> for io::Error {
    fn from(error: CommitError) -> Self {
        let kind = match &error {
            CommitError::Exists { .. } => io::ErrorKind::AlreadyExists,
            CommitError::Sync { source, .. }
            | CommitError::Publish { source, .. }
            | CommitError::NotDurable { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}

impl AtomicFile {
    /// Begins a file that will appear at `path`.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::with_options(path, &OpenOptions::new())
    }

    /// As [`AtomicFile::create`], taking permissions and O_DIRECT from `options`. The rest of them is settled: the file
    /// is new, and can be read and written.
    pub fn with_options(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, OpenError> {
        let path = path.as_ref();
        check_path(path)?;
        let target = follow_links(path)?;
        let name = file_name(&target)?.to_owned();
        let failed = |e: Errno| OpenError::from_os(path, e.into());
        let dir = open_parent(&target).map_err(failed)?;
        let replaced = match rustix::fs::statat(&dir, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            Err(e) => return Err(failed(e)),
        };
        if let Some(stat) = &replaced {
            let kind = FileType::from_raw_mode(stat.st_mode).into();
            check_kind(path, kind)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                return Err(OpenError::NotRegular { path: path.to_owned(), what: kind });
            }
        }
        let (file, temporary) = create_temporary(&dir, &name, options).map_err(|e| match e {
            Errno::INVAL if options.is_direct() => OpenError::DirectUnsupported { path: path.to_owned() },
            e => failed(e),
        })?;
        let this = Self { file, dir, target, name, temporary: Some(temporary) };
        if let Some(stat) = replaced {
            let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
            rustix::fs::fchmod(&this.file, mode).map_err(failed)?;
        }
        Ok(this)
    }

    /// Where it will appear, links followed.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Where its bytes are until then; the same directory.
    pub fn temporary_path(&self) -> Option<PathBuf> {
        self.temporary.as_ref().map(|name| self.target.with_file_name(name))
    }

    /// Makes the bytes durable, gives the file its name in place of what had it, and makes that durable. Waits for the
    /// disk.
    pub fn commit(mut self) -> Result<(), CommitError> {
        let temporary = self.sync()?;
        let renamed = rustix::fs::renameat(&self.dir, temporary.as_os_str(), &self.dir, self.name.as_os_str());
        renamed.map_err(|e| self.publish_error(e))?;
        self.published()
    }

    /// As [`AtomicFile::commit`], but fails if anything has that name, and leaves it as it is.
    pub fn commit_new(mut self) -> Result<(), CommitError> {
        let temporary = self.sync()?;
        let (dir, from, to) = (&self.dir, temporary.as_os_str(), self.name.as_os_str());
        let renamed = match rustix::fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
            // Not every file system has it (NFS), but then it has links, which do not replace either.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => link_in_place(dir, from, to),
            done => done,
        };
        renamed.map_err(|e| self.publish_error(e))?;
        self.published()
    }

    fn sync(&self) -> Result<OsString, CommitError> {
        // Not tried again: after a failure the kernel takes the lost pages for clean, and would report success.
        rustix::fs::fsync(&self.file).map_err(|e| CommitError::Sync { path: self.target.clone(), source: e.into() })?;
        Ok(self.temporary.clone().unwrap_or_default())
    }

    fn publish_error(&self, errno: Errno) -> CommitError {
        let path = self.target.clone();
        match errno {
            Errno::EXIST => CommitError::Exists { path },
            e => CommitError::Publish { path, source: e.into() },
        }
    }

    fn published(&mut self) -> Result<(), CommitError> {
        self.temporary = None;
        match rustix::fs::fsync(&self.dir) {
            // Some network file systems have no sync of directories, and need none.
            Ok(()) | Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
            Err(e) => Err(CommitError::NotDurable { path: self.target.clone(), source: e.into() }),
        }
    }
}

impl AsFd for AtomicFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        let Some(name) = self.temporary.take() else {
            return;
        };
        if let Err(error) = rustix::fs::unlinkat(&self.dir, name.as_os_str(), AtFlags::empty()) {
            let path = self.target.with_file_name(name);
            tracing::warn!(path = %path.display(), %error, "temporary file could not be removed");
        }
    }
}

/// Makes a file beside `name` that nobody else has.
fn create_temporary(dir: &OwnedFd, name: &OsStr, options: &OpenOptions) -> rustix::io::Result<(OwnedFd, OsString)> {
    let mut flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    flags.set(OFlags::DIRECT, options.is_direct());
    let mode = Mode::from_raw_mode(options.permissions() as RawMode);
    let mut draws = 0;
    loop {
        let temporary = temporary_name(name, RandomState::new().hash_one(draws));
        match rustix::fs::openat(dir, temporary.as_os_str(), flags, mode) {
            Ok(file) => return Ok((file, temporary)),
            Err(Errno::EXIST) if draws < MAX_DRAWS => draws += 1,
            Err(e) => {
                // Linux makes the file before it finds that it has no O_DIRECT for it.
                if e == Errno::INVAL && options.is_direct() {
                    let _ = rustix::fs::unlinkat(dir, temporary.as_os_str(), AtFlags::empty());
                }
                return Err(e);
            }
        }
    }
}

/// `.NAME.warpio-RANDOM.tmp`; a name too long for that is cut.
fn temporary_name(name: &OsStr, random: u64) -> OsString {
    let suffix = format!(".warpio-{random:016x}.tmp");
    let kept = name.len().min(NAME_MAX - 1 - suffix.len());
    let mut bytes = vec![b'.'];
    bytes.extend_from_slice(&name.as_bytes()[..kept]);
    bytes.extend_from_slice(suffix.as_bytes());
    OsString::from_vec(bytes)
}

fn link_in_place(dir: &OwnedFd, from: &OsStr, to: &OsStr) -> rustix::io::Result<()> {
    rustix::fs::linkat(dir, from, dir, to, AtFlags::empty())?;
    // The file is in place; a second name that stays is untidy, not wrong.
    if let Err(error) = rustix::fs::unlinkat(dir, from, AtFlags::empty()) {
        tracing::warn!(name = %from.to_string_lossy(), %error, "temporary name could not be removed");
    }
    Ok(())
}

fn open_parent(target: &Path) -> rustix::io::Result<OwnedFd> {
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(parent, flags, Mode::empty())
}

fn file_name(path: &Path) -> Result<&OsStr, OpenError> {
    let ends_in_slash = path.as_os_str().as_bytes().ends_with(b"/");
    match path.file_name() {
        Some(name) if !ends_in_slash => Ok(name),
        _ => Err(OpenError::IsDirectory { path: path.to_owned() }),
    }
}

/// What the path leads to when symbolic links in its last place are followed, whether or not a file is there.
fn follow_links(path: &Path) -> Result<PathBuf, OpenError> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match std::fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            // Not a link, or not there.
            Err(_) => return Ok(path),
        }
    }
    Err(OpenError::from_os(&path, io::Error::from_raw_os_error(libc::ELOOP)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_name_is_hidden_and_tells_whose_it_is() {
        let name = temporary_name(OsStr::new("model.bin"), 0xAB);
        assert_eq!(name, ".model.bin.warpio-00000000000000ab.tmp");
    }

    #[test]
    fn a_long_name_is_cut_to_what_a_name_may_be() {
        let name = temporary_name(OsStr::new(&"n".repeat(NAME_MAX)), u64::MAX);
        assert_eq!(name.len(), NAME_MAX);
        assert!(name.as_bytes().ends_with(b".warpio-ffffffffffffffff.tmp"));
    }

    #[test]
    fn a_path_that_names_no_file_is_refused() {
        for path in ["", "a\0b"] {
            assert!(matches!(AtomicFile::create(path), Err(OpenError::InvalidPath { .. })), "{path:?}");
        }
        assert!(matches!(file_name(Path::new("a/b/")), Err(OpenError::IsDirectory { .. })));
        assert!(matches!(file_name(Path::new("/")), Err(OpenError::IsDirectory { .. })));
        assert!(matches!(file_name(Path::new("..")), Err(OpenError::IsDirectory { .. })));
        assert_eq!(file_name(Path::new("a/b")).unwrap(), "b");
    }
}
