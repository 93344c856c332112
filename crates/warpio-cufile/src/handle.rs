use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::null_mut;

use rustix::fs::FileType;

use crate::driver::Driver;
use crate::error::CuFileError;
use crate::janitor;
use crate::sys::{Descriptor, Handle};

/// A file that is registered with cuFile, and its descriptor. Deregistered before it is closed, because the library
/// knows files by the numbers of their descriptors.
pub(crate) struct FileHandle {
    driver: Driver,
    raw: Handle,
    fd: Option<OwnedFd>,
}

// SAFETY: the library's handles may be used from any thread.
unsafe impl Send for FileHandle {}
// SAFETY: as above.
unsafe impl Sync for FileHandle {}

impl FileHandle {
    /// Registers a file. This blocks.
    ///
    /// # Errors
    /// The library's answer, and the descriptor.
    pub(crate) fn register(driver: &Driver, fd: OwnedFd) -> Result<Self, (CuFileError, OwnedFd)> {
        let mut raw = null_mut();
        let mut descriptor = Descriptor::of(fd.as_raw_fd());
        // SAFETY: a valid place for the result and a descriptor that is open, and stays open until it is deregistered.
        let status = unsafe { (driver.library().cuFileHandleRegister)(&mut raw, &mut descriptor) };
        match CuFileError::check(status, "cuFileHandleRegister") {
            Ok(()) => Ok(Self { driver: driver.clone(), raw, fd: Some(fd) }),
            Err(error) => Err((error, fd)),
        }
    }

    pub(crate) fn raw(&self) -> Handle {
        self.raw
    }

    /// Whether the file goes on at `offset` for certain. Only the lengths of regular files are known.
    pub(crate) fn has_more(&self, offset: u64) -> bool {
        let stat = self.fd.as_ref().and_then(|fd| rustix::fs::fstat(fd).ok());
        stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_size as u64 > offset)
    }
}

impl Drop for FileHandle {
    fn drop(&mut self) {
        let (driver, raw, fd) = (self.driver.clone(), self.raw as usize, self.fd.take());
        janitor::later(move || {
            // SAFETY: registered above, and no operation uses it any more: each of them holds this handle.
            unsafe { (driver.library().cuFileHandleDeregister)(raw as Handle) };
            drop(fd);
        });
    }
}

impl fmt::Debug for FileHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileHandle").field("fd", &self.fd).finish_non_exhaustive()
    }
}
