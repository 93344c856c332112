use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use crate::sys::statx::FileInfo;

/// Where the next append goes. Its range is reserved once and then written by offset: with O_APPEND the kernel would
/// choose the place of every piece anew.
#[derive(Debug, Default)]
pub(super) struct AppendPosition(Mutex<u64>);

impl AppendPosition {
    /// Reserves `len` bytes behind the end of the file and behind every range that was reserved before.
    pub(super) fn reserve(&self, fd: BorrowedFd<'_>, len: usize) -> io::Result<u64> {
        let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = FileInfo::of(fd)?.size.max(*next);
        *next = at
            .checked_add(len as u64)
            .filter(|&end| end <= i64::MAX as u64)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the file would exceed the largest offset"))?;
        Ok(at)
    }

    /// The file was cut or extended: what was reserved before counts no longer.
    pub(super) fn reset(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = 0;
    }
}
