//! Closing a descriptor and hearing what it says.

use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};

/// Closes `fd`. On network file systems this is where a write that failed late is reported.
///
/// Linux gives the descriptor up whatever it answers, so it is never called twice.
pub fn close(fd: OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is owned, and ownership ends here.
    match unsafe { libc::close(fd.into_raw_fd()) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // The descriptor is closed all the same.
            error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            error => Err(error),
        },
    }
}
