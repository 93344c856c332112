//! Opening files that can be read and written at an offset, and refusing all else without harm.

mod error;
mod mode;

pub use error::OpenError;
pub use mode::{OpenMode, ParseOpenModeError};

use crate::sys::statx::FileKind;
use rustix::fs::{FileType, Mode, OFlags, RawMode};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How to open a file. As [`std::fs::OpenOptions`], except that
/// - `append` never reaches the kernel, see [`OpenOptions::append`];
/// - directories, pipes, sockets and character devices are refused, and refusing never waits and never touches them;
/// - descriptors are closed on exec.
///
/// ```
/// use warpio_local::open::{OpenError, OpenOptions};
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("data.bin");
/// assert!(matches!(OpenOptions::new().read(true).open(&path), Err(OpenError::NotFound { .. })));
/// let file = OpenOptions::new().write(true).create(true).open(&path)?;
/// # let _ = file;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    direct: bool,
    mode: u32,
}

impl OpenOptions {
    /// Nothing asked for yet: neither reading nor writing.
    pub const fn new() -> Self {
        Self {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            direct: false,
            mode: 0o666,
        }
    }

    /// Open it for reading.
    pub const fn read(mut self, yes: bool) -> Self {
        self.read = yes;
        self
    }

    /// Open it for writing.
    pub const fn write(mut self, yes: bool) -> Self {
        self.write = yes;
        self
    }

    /// Open it for writing behind what is there.
    ///
    /// Only remembered for whoever writes, who begins at the size of the file: with O_APPEND Linux would write at the
    /// end whatever the offset says.
    pub const fn append(mut self, yes: bool) -> Self {
        self.append = yes;
        self
    }

    /// Make an existing file empty. Needs `write`.
    pub const fn truncate(mut self, yes: bool) -> Self {
        self.truncate = yes;
        self
    }

    /// Make the file if it is not there. Needs `write` or `append`.
    pub const fn create(mut self, yes: bool) -> Self {
        self.create = yes;
        self
    }

    /// Make the file, and fail if it is there. Needs `write` or `append`.
    pub const fn create_new(mut self, yes: bool) -> Self {
        self.create_new = yes;
        self
    }

    /// Go past the page cache (O_DIRECT); memory, offset and length must then be aligned.
    pub const fn direct(mut self, yes: bool) -> Self {
        self.direct = yes;
        self
    }

    /// The permissions of a file that is made, less the umask; 0o666 unless said.
    pub const fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Whether writing is to begin at the size of the file.
    pub const fn is_append(&self) -> bool {
        self.append
    }

    /// Whether it is opened past the page cache.
    pub const fn is_direct(&self) -> bool {
        self.direct
    }

    /// The permissions of a file that is made, less the umask.
    pub const fn permissions(&self) -> u32 {
        self.mode
    }

    /// Whether the file is opened for writing.
    pub const fn is_write(&self) -> bool {
        self.write || self.append
    }

    /// Opens a file or a block device. May wait for the disk.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<OwnedFd, OpenError> {
        let path = path.as_ref();
        self.check(path)?;
        check_path(path)?;
        // Before it is opened, because to open a device can have effects (a watchdog begins to count).
        if let Some(kind) = kind_of(path) {
            check_kind(path, kind)?;
        }
        let fd = self.open_waiting_for_no_peer(path)?;
        let stat = rustix::fs::fstat(&fd).map_err(|e| OpenError::from_os(path, e.into()))?;
        // What the name leads to can have changed since.
        check_kind(path, FileType::from_raw_mode(stat.st_mode).into())?;
        // io_uring answers EAGAIN for what is marked non-blocking instead of waiting for the disk.
        let flags = if self.direct { OFlags::DIRECT } else { OFlags::empty() };
        rustix::fs::fcntl_setfl(&fd, flags).map_err(|e| self.meaning(path, e))?;
        Ok(fd)
    }

    fn check(&self, path: &Path) -> Result<(), OpenError> {
        let reason = if !self.read && !self.is_write() {
            "neither reading nor writing is asked for"
        } else if self.truncate && !self.write {
            "truncate needs write"
        } else if self.truncate && self.append {
            "truncate and append exclude each other"
        } else if (self.create || self.create_new) && !self.is_write() {
            "create needs write or append"
        } else {
            return Ok(());
        };
        Err(OpenError::InvalidOptions { path: path.to_owned(), reason })
    }

    /// A pipe without a peer would otherwise keep us waiting for one.
    fn open_waiting_for_no_peer(&self, path: &Path) -> Result<OwnedFd, OpenError> {
        let flags = self.flags();
        let mut opened = self.open_flags(path, flags | OFlags::NONBLOCK);
        if matches!(opened, Err(Errno::WOULDBLOCK)) {
            // A file server holds a lease on this file and has been asked to give it up: this waits until it has.
            opened = self.open_flags(path, flags);
        }
        opened.map_err(|e| self.meaning(path, e))
    }

    fn open_flags(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        loop {
            match rustix::fs::open(path, flags, Mode::from_raw_mode(self.mode as RawMode)) {
                Err(Errno::INTR) => {}
                done => return done,
            }
        }
    }

    fn flags(&self) -> OFlags {
        let mut flags = OFlags::CLOEXEC | OFlags::NOCTTY;
        flags |= match (self.read, self.is_write()) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        flags.set(OFlags::TRUNC, self.truncate && !self.create_new);
        flags.set(OFlags::CREATE, self.create || self.create_new);
        flags.set(OFlags::EXCL, self.create_new);
        flags.set(OFlags::DIRECT, self.direct);
        flags
    }

    fn meaning(&self, path: &Path, errno: Errno) -> OpenError {
        match errno {
            Errno::INVAL if self.direct => OpenError::DirectUnsupported { path: path.to_owned() },
            // A socket, or a pipe that appeared just now.
            Errno::NXIO => match kind_of(path).map(|kind| check_kind(path, kind)) {
                Some(Err(refused)) => refused,
                _ => OpenError::from_os(path, errno.into()),
            },
            _ => OpenError::from_os(path, errno.into()),
        }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl From<OpenMode> for OpenOptions {
    fn from(mode: OpenMode) -> Self {
        mode.options()
    }
}

/// Refuses paths that the kernel cannot be asked about.
pub(crate) fn check_path(path: &Path) -> Result<(), OpenError> {
    let bytes = path.as_os_str().as_bytes();
    let reason = if bytes.is_empty() {
        "the path is empty"
    } else if bytes.contains(&0) {
        "the path holds a NUL byte"
    } else {
        return Ok(());
    };
    Err(OpenError::InvalidPath { path: path.to_owned(), reason })
}

/// What a path leads to, if that can be told.
pub(crate) fn kind_of(path: &Path) -> Option<FileKind> {
    let stat = rustix::fs::stat(path).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode).into())
}

/// Refuses what has no bytes at offsets.
pub(crate) fn check_kind(path: &Path, kind: FileKind) -> Result<(), OpenError> {
    let path = path.to_owned();
    match kind {
        FileKind::Regular | FileKind::BlockDevice => Ok(()),
        FileKind::Directory => Err(OpenError::IsDirectory { path }),
        what => Err(OpenError::NotRegular { path, what }),
    }
}
