//! Which pages of a file are cached, one by one, through `mincore(2)` on a mapping that is never touched.

use crate::sys::reopen::fd_path;
use crate::sys::statx::page_size;
use rustix::fs::{Access, AtFlags, CWD};
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr;

/// Bytes of the file that one mapping covers, so that a huge file needs neither address space nor memory for itself.
const WINDOW: u64 = 1 << 30;

/// Whether each page that `range` touches is cached, told to `each` in order. `false` where the kernel would not say
/// the truth, or cannot map the file; `each` is not called then.
///
/// The range should lie within the file.
pub fn residency(fd: BorrowedFd<'_>, range: &Range<u64>, mut each: impl FnMut(bool)) -> io::Result<bool> {
    if range.is_empty() {
        return Ok(true);
    }
    if !tells_truth(fd) {
        return Ok(false);
    }
    let page = page_size() as u64;
    let mut vec = Vec::new();
    let mut at = range.start - range.start % page;
    while at < range.end {
        let len = WINDOW.min(range.end - at);
        let Some(map) = Mapping::new(fd, at, len as usize)? else {
            return Ok(false);
        };
        map.mincore(&mut vec)?;
        vec.iter().for_each(|byte| each(byte & 1 != 0));
        at += len.next_multiple_of(page);
    }
    Ok(true)
}

/// Since Linux 5.2 mincore reports every page as present to those who neither own the file nor may write it, so that
/// nobody learns what others read.
fn tells_truth(fd: BorrowedFd<'_>) -> bool {
    let owned = rustix::fs::fstat(fd).is_ok_and(|s| s.st_uid == rustix::process::geteuid().as_raw());
    owned || rustix::fs::accessat(CWD, fd_path(fd), Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

/// A shared mapping that is unmapped when dropped.
struct Mapping {
    base: *mut c_void,
    len: usize,
}

impl Mapping {
    /// `None` where this file cannot be mapped for reading.
    fn new(fd: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Option<Self>> {
        // SAFETY: the kernel chooses the address, so no other mapping is replaced.
        match unsafe { rustix::mm::mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, fd, offset) } {
            Ok(base) => Ok(Some(Self { base, len })),
            Err(rustix::io::Errno::ACCESS | rustix::io::Errno::NODEV | rustix::io::Errno::PERM) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    fn mincore(&self, vec: &mut Vec<u8>) -> io::Result<()> {
        vec.clear();
        vec.resize(self.len.div_ceil(page_size()), 0);
        loop {
            // SAFETY: `base` and `len` name a mapping of ours; the vector has a byte for each of its pages.
            if unsafe { libc::mincore(self.base, self.len, vec.as_mut_ptr()) } == 0 {
                return Ok(());
            }
            // The kernel asks for EAGAIN to be tried again.
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(error);
            }
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone and no pointer into it has left this module. Failure would leak address
        // space, which is harmless.
        let _ = unsafe { rustix::mm::munmap(self.base, self.len) };
    }
}
