//! A part of a file mapped into memory, read so that a fault is an error and no signal.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::statx::page_size;
use crate::sys::rw::pread_full;

/// How the pages are mapped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pages {
    /// They may be written.
    pub writable: bool,
    /// What is written stays with the map.
    pub private: bool,
    /// All are read in at once.
    pub populate: bool,
}

/// When a file's content, length or attributes were changed last, since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeTime {
    seconds: i64,
    nanos: u32,
}

impl ChangeTime {
    /// How much longer a change could have the same time, as file systems count it in ticks.
    pub fn unsettled(self) -> Duration {
        // Some keep whole seconds only; ticks are of 1 to 10 ms.
        let tick = if self.nanos == 0 { Duration::from_secs(1) } else { Duration::from_millis(10) };
        let since = UNIX_EPOCH + Duration::new(self.seconds.try_into().unwrap_or(0), self.nanos);
        // The clock of a server may be ahead.
        tick.saturating_sub(SystemTime::now().duration_since(since).unwrap_or_default())
    }
}

/// A mapping that is only read here. Unmapped when dropped.
#[derive(Debug)]
pub struct FileMap {
    fd: OwnedFd,
    /// Where the pages begin, if there are any.
    base: NonNull<u8>,
    /// The bytes of the first page that lie before the range that was asked for.
    lead: usize,
    /// The length of the range.
    len: usize,
    /// The offset of the range in the file.
    offset: u64,
    private: bool,
}

// SAFETY: the mapping belongs to this value alone and is only read.
unsafe impl Send for FileMap {}
// SAFETY: as above; reading needs no order.
unsafe impl Sync for FileMap {}

impl FileMap {
    /// Maps `len` bytes at `offset`, which need no alignment, and keeps the descriptor.
    ///
    /// # Errors
    /// What the kernel says, such as `ENODEV` for what cannot be mapped.
    pub fn new(fd: OwnedFd, offset: u64, len: usize, how: Pages) -> io::Result<Self> {
        let lead = (offset % page_size() as u64) as usize;
        let mut base = NonNull::dangling();
        if len > 0 {
            let pages = len.checked_add(lead).ok_or(Errno::NOMEM)?;
            let protection = if how.writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
            let sharing = if how.private { MapFlags::PRIVATE } else { MapFlags::SHARED };
            // Of a private map that may be written, the kernel would populate copies, which see no change of the file.
            let copies = how.private && how.writable;
            let flags = if how.populate && !copies { sharing | MapFlags::POPULATE } else { sharing };
            // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
            let at = unsafe { mmap(null_mut(), pages, protection, flags, &fd, offset - lead as u64)? };
            base = NonNull::new(at.cast()).ok_or(Errno::NOMEM)?;
            if how.populate && copies {
                // A hint, as the flag is: what cannot be read now is told when it is wanted. Linux before 5.14 knows the
                // second alone, which reads the bytes in, but maps them later.
                for advice in [Advice::LinuxPopulateRead, Advice::WillNeed] {
                    // SAFETY: the pages of the mapping just made; none of their bytes change.
                    if unsafe { madvise(at, pages, advice) }.is_ok() {
                        break;
                    }
                }
            }
        }
        Ok(Self { fd, base, lead, len, offset, private: how.private })
    }

    /// Whether pages may become copies that are the map's alone, by being written or pinned.
    pub fn is_private(&self) -> bool {
        self.private
    }

    /// The length of the range in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the range is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The file that is mapped.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Where the pages begin, and how many bytes they are: those before the range in the first page included.
    pub fn pages(&self) -> (NonNull<u8>, usize) {
        (self.base, self.lead + self.len)
    }

    /// Where the byte at `at` in the range lies.
    ///
    /// # Panics
    /// If it is not in the range.
    pub fn address(&self, at: usize) -> NonNull<u8> {
        assert!(at < self.len, "byte {at} of a map of {}", self.len);
        // SAFETY: within the mapping.
        unsafe { self.base.add(self.lead + at) }
    }

    /// How many of `len` bytes at `at` the range has.
    fn clip(&self, at: u64, len: usize) -> (usize, usize) {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        (at, len.min(self.len.saturating_sub(at)))
    }

    /// Makes sure that the file still reaches as far as `len` bytes from `at` on, or to the end of the range. Returns
    /// how many there are.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file was cut short since it was mapped.
    pub fn check(&self, at: u64, len: usize) -> io::Result<usize> {
        let (at, len) = self.clip(at, len);
        if len > 0 {
            let stat = rustix::fs::fstat(&self.fd)?;
            let end = self.offset + (at + len) as u64;
            // The size of a block device stands elsewhere, and does not shrink.
            let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
            if is_file && end > stat.st_size as u64 {
                return Err(shrunk(stat.st_size as u64, end));
            }
        }
        Ok(len)
    }

    /// When the file was changed last, by the clock that nobody can set back for one file.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn change_time(&self) -> io::Result<ChangeTime> {
        let stat = rustix::fs::fstat(&self.fd)?;
        Ok(ChangeTime { seconds: stat.st_ctime, nanos: stat.st_ctime_nsec as u32 })
    }

    /// Copies bytes from `at` within the range on to `dst`; fewer than `len` where the range ends.
    ///
    /// The pages are asked for before they are touched. Only a file that is cut short in the moment between ends the
    /// process by a signal, which nothing but reading without a map can avoid.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file was cut short since it was mapped; what the kernel says where it cannot read a page.
    ///
    /// # Safety
    /// `dst` is valid for writes of `len` bytes, and no part of this mapping.
    pub unsafe fn copy_to(&self, at: u64, dst: *mut u8, len: usize) -> io::Result<usize> {
        let (at, len) = self.clip(at, len);
        if len == 0 {
            return Ok(0);
        }
        let page = page_size();
        let first = (self.lead + at) / page * page;
        // SAFETY: the pages lie in the mapping, and reading them in changes none of their bytes.
        let populated = unsafe {
            madvise(self.base.as_ptr().add(first).cast(), self.lead + at + len - first, Advice::LinuxPopulateRead)
        };
        match populated {
            Ok(()) => {
                // SAFETY: the source lies in the mapping, the destination is the caller's promise.
                unsafe { dst.copy_from_nonoverlapping(self.base.as_ptr().add(self.lead + at), len) };
                // Afterwards: the rest of the page that the file ends in can be read and is zero.
                self.check(at as u64, len)
            }
            // There is a page that touching would be answered by a signal, and reading tells why; and Linux before 5.14
            // knows no such advice.
            Err(Errno::FAULT | Errno::INVAL) => {
                let start = self.offset + at as u64;
                // SAFETY: the caller's promise.
                let n = unsafe { pread_full(self.fd(), dst, len, start)? };
                if n == len { Ok(len) } else { Err(shrunk(start + n as u64, start + len as u64)) }
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn shrunk(size: u64, end: u64) -> io::Error {
    let message = format!("the file has {size} bytes now, and at least {end} when it was mapped");
    io::Error::new(io::ErrorKind::UnexpectedEof, message)
}

impl Drop for FileMap {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the mapping that `new` made, which nothing uses any more.
            let _ = unsafe { munmap(self.base.as_ptr().cast(), self.lead + self.len) };
        }
    }
}
