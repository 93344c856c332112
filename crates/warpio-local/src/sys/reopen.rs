//! A second descriptor of a file that is already open.

use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Opens the file behind `fd` again with `flags` (O_CLOEXEC is added).
///
/// It is the same file whatever has become of its name since, but an open file description of its own: advice given
/// and flags set on it do not touch those of `fd`. Needs `/proc`, and the right to open the file that way.
///
/// ```
/// use rustix::fs::OFlags;
/// use std::os::fd::AsFd;
/// let file = tempfile::tempfile()?;
/// let second = warpio_local::sys::reopen::reopen(file.as_fd(), OFlags::RDONLY)?;
/// # let _ = second;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn reopen(fd: BorrowedFd<'_>, flags: OFlags) -> io::Result<OwnedFd> {
    let path = fd_path(fd);
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// The name under which `/proc` shows this descriptor.
pub(crate) fn fd_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}
