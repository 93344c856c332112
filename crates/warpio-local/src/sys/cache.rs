//! What the kernel tells of a file's pages in the page cache, and what it can be asked to do with them.

use rustix::fs::Advice;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The number of `cachestat(2)`, the same on every architecture that Rust knows; libc does not name it on all.
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range`.
#[repr(C)]
struct CacheStatRange {
    off: u64,
    len: u64,
}

/// `struct cachestat`: counts of pages.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStat {
    /// In the cache.
    pub cached: u64,
    /// In the cache and not yet written to disk.
    pub dirty: u64,
    /// Being written to disk.
    pub writeback: u64,
    /// Were in the cache and had to leave it.
    pub evicted: u64,
    /// Of those, the ones whose return would show that memory is short.
    pub recently_evicted: u64,
}

/// Counts the cached pages of a range (Linux 6.5). `None` where the kernel has no such call, or does not answer it for
/// this file: it tells only those who own the file or may write it.
pub fn cachestat(fd: BorrowedFd<'_>, range: &Range<u64>) -> io::Result<Option<CacheStat>> {
    // A length of zero would mean all that follows.
    if range.is_empty() {
        return Ok(Some(CacheStat::default()));
    }
    let query = CacheStatRange { off: range.start, len: range.end - range.start };
    let mut stat = CacheStat::default();
    // SAFETY: both structs have the layout of the kernel's, live through the call, and only `stat` is written.
    let rc = unsafe { libc::syscall(SYS_CACHESTAT, fd.as_raw_fd(), &raw const query, &raw mut stat, 0u32) };
    if rc == 0 {
        return Ok(Some(stat));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EPERM | libc::EACCES | libc::EOPNOTSUPP) => Ok(None),
        _ => Err(error),
    }
}

/// Writes the dirty pages of a range to disk and waits for them. The file's metadata is not part of it: this makes
/// pages clean, it does not make data durable.
pub fn write_back(fd: BorrowedFd<'_>, range: &Range<u64>) -> io::Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let offset = libc::off64_t::try_from(range.start).map_err(|_| io::ErrorKind::InvalidInput)?;
    let len = libc::off64_t::try_from(range.end - range.start).map_err(|_| io::ErrorKind::InvalidInput)?;
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: no memory is passed; the descriptor is borrowed, thus open.
    if unsafe { libc::sync_file_range(fd.as_raw_fd(), offset, len, flags) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        // Not every kernel and sandbox has the call; this one does more, but all have it.
        e if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP)) => {
            Ok(rustix::fs::fdatasync(fd)?)
        }
        e => Err(e),
    }
}

/// Tells the kernel what will be done with a range.
pub fn advise(fd: BorrowedFd<'_>, range: &Range<u64>, advice: Advice) -> io::Result<()> {
    // No length would mean all that follows.
    match NonZeroU64::new(range.end.saturating_sub(range.start)) {
        None => Ok(()),
        len => Ok(rustix::fs::fadvise(fd, range.start, len, advice)?),
    }
}
