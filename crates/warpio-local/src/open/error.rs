//! Why a file did not open.

use crate::sys::statx::FileKind;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file did not open. Each message says what happened and what can be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Nothing has that name.
    #[error("{path}: no such file or directory; check the path, or open it with create")]
    NotFound {
        /// What was to be opened.
        path: PathBuf,
    },
    /// It exists, and was to be made anew.
    #[error("{path}: exists already; choose another name, or open it with create instead of create_new")]
    AlreadyExists {
        /// What was to be opened.
        path: PathBuf,
    },
    /// This process may not.
    #[error("{path}: permission denied; check the owner and mode of the file and of each directory above it")]
    PermissionDenied {
        /// What was to be opened.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It is a directory.
    #[error("{path}: is a directory; name a file in it")]
    IsDirectory {
        /// What was to be opened.
        path: PathBuf,
    },
    /// A part of the path that should be a directory is not.
    #[error("{path}: a part of this path is a file, not a directory; check the path")]
    NotADirectory {
        /// What was to be opened.
        path: PathBuf,
    },
    /// It has no bytes at offsets.
    #[error("{path}: is a {what}, which cannot be read or written at an offset; name a regular file or a disk")]
    NotRegular {
        /// What was to be opened.
        path: PathBuf,
        /// What it is.
        what: FileKind,
    },
    /// The process, or the machine, has as many files open as it may.
    #[error("{path}: too many open files in {scope}; close some, or raise the limit ({remedy})")]
    TooManyOpenFiles {
        /// What was to be opened.
        path: PathBuf,
        /// Whose limit it is.
        scope: &'static str,
        /// Where it is set.
        remedy: &'static str,
    },
    /// It was to be written, and its file system is mounted for reading only.
    #[error("{path}: its file system is mounted read-only; open it for reading, or write elsewhere")]
    ReadOnlyFilesystem {
        /// What was to be opened.
        path: PathBuf,
    },
    /// O_DIRECT was asked for, and this file has none. With create, the empty file may have been left behind.
    #[error("{path}: its file system has no direct I/O; open it without")]
    DirectUnsupported {
        /// What was to be opened.
        path: PathBuf,
    },
    /// It was to be made, and there is no room for it.
    #[error("{path}: no room for another file (space, inodes or quota); free some, or write elsewhere")]
    NoSpace {
        /// What was to be opened.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It is a running program, or a device in exclusive use.
    #[error("{path}: in use, so that it cannot be opened for writing; stop the program that runs or holds it")]
    Busy {
        /// What was to be opened.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The path cannot name a file.
    #[error("{path:?}: {reason}; check the path")]
    InvalidPath {
        /// What was to be opened.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The options contradict each other.
    #[error("{path}: cannot be opened so: {reason}")]
    InvalidOptions {
        /// What was to be opened.
        path: PathBuf,
        /// What is wrong with them.
        reason: &'static str,
    },
    /// Anything else.
    #[error("{path}: cannot be opened")]
    Io {
        /// What was to be opened.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl OpenError {
    /// Gives an error of the kernel its meaning.
    pub(crate) fn from_os(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.raw_os_error() {
            Some(libc::ENOENT) => Self::NotFound { path },
            Some(libc::EEXIST) => Self::AlreadyExists { path },
            Some(libc::EACCES | libc::EPERM) => Self::PermissionDenied { path, source },
            Some(libc::EISDIR) => Self::IsDirectory { path },
            Some(libc::ENOTDIR) => Self::NotADirectory { path },
            Some(libc::EMFILE) => Self::TooManyOpenFiles { path, scope: "this process", remedy: "ulimit -n" },
            Some(libc::ENFILE) => Self::TooManyOpenFiles { path, scope: "this machine", remedy: "sysctl fs.file-max" },
            Some(libc::EROFS) => Self::ReadOnlyFilesystem { path },
            Some(libc::ENOSPC | libc::EDQUOT) => Self::NoSpace { path, source },
            Some(libc::ETXTBSY | libc::EBUSY) => Self::Busy { path, source },
            Some(libc::ELOOP) => {
                Self::InvalidPath { path, reason: "its symbolic links lead in a circle, or through too many" }
            }
            Some(libc::ENAMETOOLONG) => Self::InvalidPath { path, reason: "a name in it, or all of it, is too long" },
            _ => Self::Io { path, source },
        }
    }

    /// What was to be opened.
    pub fn path(&self) -> &Path {
        match self {
            Self::NotFound { path }
            | Self::AlreadyExists { path }
            | Self::PermissionDenied { path, .. }
            | Self::IsDirectory { path }
            | Self::NotADirectory { path }
            | Self::NotRegular { path, .. }
            | Self::TooManyOpenFiles { path, .. }
            | Self::ReadOnlyFilesystem { path }
            | Self::DirectUnsupported { path }
            | Self::NoSpace { path, .. }
            | Self::Busy { path, .. }
            | Self::InvalidPath { path, .. }
            | Self::InvalidOptions { path, .. }
            | Self::Io { path, .. } => path,
        }
    }

    /// The kind that the standard library has for it.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::NotFound { .. } => io::ErrorKind::NotFound,
            Self::AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
            Self::PermissionDenied { .. } => io::ErrorKind::PermissionDenied,
            Self::IsDirectory { .. } => io::ErrorKind::IsADirectory,
            Self::NotADirectory { .. } => io::ErrorKind::NotADirectory,
            Self::ReadOnlyFilesystem { .. } => io::ErrorKind::ReadOnlyFilesystem,
            Self::DirectUnsupported { .. } => io::ErrorKind::Unsupported,
            Self::NotRegular { .. } | Self::InvalidPath { .. } | Self::InvalidOptions { .. } => {
                io::ErrorKind::InvalidInput
            }
            Self::TooManyOpenFiles { .. } => io::ErrorKind::QuotaExceeded,
            Self::NoSpace { source, .. } | Self::Busy { source, .. } | Self::Io { source, .. } => source.kind(),
        }
    }
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        Self::new(error.kind(), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(errno: i32) -> OpenError {
        OpenError::from_os(Path::new("/data/x.bin"), io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn every_message_names_the_path_and_says_what_to_do() {
        let known = [
            (libc::ENOENT, "create"),
            (libc::EEXIST, "another name"),
            (libc::EACCES, "mode"),
            (libc::EPERM, "owner"),
            (libc::EISDIR, "file in it"),
            (libc::ENOTDIR, "check the path"),
            (libc::EMFILE, "ulimit -n"),
            (libc::ENFILE, "fs.file-max"),
            (libc::EROFS, "write elsewhere"),
            (libc::ENOSPC, "free some"),
            (libc::EDQUOT, "quota"),
            (libc::ETXTBSY, "stop the program"),
            (libc::ELOOP, "circle"),
            (libc::ENAMETOOLONG, "too long"),
        ];
        for (errno, advice) in known {
            let error = of(errno);
            let text = error.to_string();
            assert!(text.contains("/data/x.bin") && text.contains(advice), "{text}");
            assert!(!matches!(error, OpenError::Io { .. }), "{text}");
            assert_eq!(error.path(), Path::new("/data/x.bin"));
        }
    }

    #[test]
    fn an_unknown_error_keeps_its_source() {
        let error = of(libc::EIO);
        let source = std::error::Error::source(&error).and_then(|s| s.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), Some(libc::EIO));
        assert_eq!(io::Error::from(error).kind(), io::Error::from_raw_os_error(libc::EIO).kind());
    }

    #[test]
    fn an_io_error_keeps_kind_and_message() {
        let error = io::Error::from(of(libc::ENOENT));
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("/data/x.bin"));
        assert_eq!(io::Error::from(of(libc::ENOSPC)).kind(), io::ErrorKind::StorageFull);
        assert_eq!(io::Error::from(of(libc::EROFS)).kind(), io::ErrorKind::ReadOnlyFilesystem);
    }
}
