//! Reads and writes at an offset, to and from raw memory.
//!
//! Raw pointers, not slices, because the memory may be a staging slot that was never initialised, or a part of a buffer
//! whose other parts the kernel is writing.

mod cached;
mod full;
mod progress;

pub use cached::{Cached, pread_cached};
pub use progress::Progress;

use crate::alignment::DirectAlign;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd};

/// The most that one call is asked for. Linux itself stops at 0x7ffff000 bytes, whose end is aligned to a page only;
/// 1 GiB keeps the next call aligned to anything.
pub const MAX_CALL: usize = 1 << 30;
const _: () = assert!(MAX_CALL <= 0x7fff_f000);

/// A write that stopped early.
#[derive(Debug, thiserror::Error)]
#[error("write stopped after {written} bytes")]
pub struct WriteError {
    /// How many bytes, from the first on, the kernel took before the error.
    pub written: usize,
    /// Why it took no more.
    pub source: io::Error,
}

impl WriteError {
    fn new(written: usize, source: io::Error) -> Self {
        Self { written, source }
    }
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        Self::new(error.source.kind(), error)
    }
}

/// Reads `len` bytes at `offset`; fewer means that the file ended there.
///
/// Interrupted and short calls are continued. When a call fails, what earlier ones read does not count.
///
/// # Errors
/// `InvalidInput` if the range passes the largest file offset, else what the kernel says.
///
/// # Safety
/// `ptr` must be valid for writes of `len` bytes, and nothing else may access them until this returns.
pub unsafe fn pread_full(fd: BorrowedFd<'_>, ptr: *mut u8, len: usize, offset: u64) -> io::Result<usize> {
    let start = file_range(offset, len)?;
    full::read(len, |done| {
        // SAFETY: the caller vouches for `len` bytes at `ptr`, and `done` is within them.
        unsafe { pread(fd, ptr.add(done), len - done, start + done as libc::off_t) }
    })
}

/// As [`pread_full`] for a descriptor opened with O_DIRECT: a call that ends inside a block met the end of the file,
/// and no call is ever made at an unaligned position.
///
/// # Errors
/// `InvalidInput` if pointer, length or offset do not fit `align`, else as [`pread_full`].
///
/// # Safety
/// As [`pread_full`].
pub unsafe fn pread_full_direct(
    fd: BorrowedFd<'_>,
    ptr: *mut u8,
    len: usize,
    offset: u64,
    align: DirectAlign,
) -> io::Result<usize> {
    let start = file_range(offset, len)?;
    check_aligned(ptr, len, offset, align)?;
    full::read_direct(len, align, |done| {
        // SAFETY: the caller vouches for `len` bytes at `ptr`, and `done` is within them.
        unsafe { pread(fd, ptr.add(done), len - done, start + done as libc::off_t) }
    })
}

/// Reads once, and only what needs no waiting for the disk. `None` where nothing is cached, or where file system or
/// kernel cannot tell.
///
/// The kernel may begin to read what it misses. A disk that is quick enough then makes a hit of a miss:
/// [`blocks_read`](crate::sys::usage::blocks_read) before and after tells the two apart.
///
/// Fewer than `len` bytes may mean the end of the file as well as the end of what is cached. So does none on Linux 5.9 and
/// 5.10; [`pread_cached`] tells the two apart.
///
/// # Errors
/// As [`pread_full`].
///
/// # Safety
/// As [`pread_full`].
pub unsafe fn pread_nowait(fd: BorrowedFd<'_>, ptr: *mut u8, len: usize, offset: u64) -> io::Result<Option<usize>> {
    let start = file_range(offset, len)?;
    let iov = libc::iovec { iov_base: ptr.cast(), iov_len: len.min(MAX_CALL) };
    loop {
        // SAFETY: one iovec that lives through the call; the caller vouches for the memory that it names.
        let n = unsafe { libc::preadv2(fd.as_raw_fd(), &raw const iov, 1, start, libc::RWF_NOWAIT) };
        let error = match usize::try_from(n) {
            Ok(n) => return Ok(Some(n)),
            Err(_) => io::Error::last_os_error(),
        };
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // The last is what a container's filter says of a call that it does not know; an ordinary read is not
            // refused so, and tells what is wrong.
            Some(libc::EAGAIN | libc::EOPNOTSUPP | libc::ENOSYS | libc::EPERM) => return Ok(None),
            _ => return Err(error),
        }
    }
}

/// Writes `len` bytes at `offset`, continuing interrupted and short calls.
///
/// # Errors
/// The count that was written and why no more was; a range past the largest file offset is `InvalidInput`, with
/// nothing written.
///
/// # Safety
/// `ptr` must be valid for reads of `len` initialised bytes, and nothing may write them until this returns.
pub unsafe fn pwrite_full(fd: BorrowedFd<'_>, ptr: *const u8, len: usize, offset: u64) -> Result<(), WriteError> {
    let start = file_range(offset, len).map_err(|e| WriteError::new(0, e))?;
    full::write(len, |done| {
        // SAFETY: the caller vouches for `len` bytes at `ptr`, and `done` is within them.
        unsafe { pwrite(fd, ptr.add(done), len - done, start + done as libc::off_t) }
    })
}

/// As [`pwrite_full`] for a descriptor opened with O_DIRECT: a write cut inside a block is continued from that block's
/// beginning.
///
/// # Errors
/// As [`pwrite_full`]; pointer, length or offset that do not fit `align` are `InvalidInput`.
///
/// # Safety
/// As [`pwrite_full`].
pub unsafe fn pwrite_full_direct(
    fd: BorrowedFd<'_>,
    ptr: *const u8,
    len: usize,
    offset: u64,
    align: DirectAlign,
) -> Result<(), WriteError> {
    let start = file_range(offset, len).map_err(|e| WriteError::new(0, e))?;
    check_aligned(ptr, len, offset, align).map_err(|e| WriteError::new(0, e))?;
    full::write_direct(len, align, |done| {
        // SAFETY: the caller vouches for `len` bytes at `ptr`, and `done` is within them.
        unsafe { pwrite(fd, ptr.add(done), len - done, start + done as libc::off_t) }
    })
}

/// [`pread_full`] into a slice.
///
/// # Errors
/// As [`pread_full`].
pub fn read_at(fd: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    // SAFETY: an exclusive slice is valid for writes of its length, and nobody else has it.
    unsafe { pread_full(fd, buf.as_mut_ptr(), buf.len(), offset) }
}

/// [`pread_nowait`] into a slice.
///
/// # Errors
/// As [`pread_nowait`].
pub fn read_at_nowait(fd: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
    // SAFETY: an exclusive slice is valid for writes of its length, and nobody else has it.
    unsafe { pread_nowait(fd, buf.as_mut_ptr(), buf.len(), offset) }
}

/// [`pwrite_full`] from a slice.
///
/// # Errors
/// As [`pwrite_full`].
pub fn write_at(fd: BorrowedFd<'_>, buf: &[u8], offset: u64) -> Result<(), WriteError> {
    // SAFETY: a shared slice is initialised, valid for reads of its length, and not written while borrowed.
    unsafe { pwrite_full(fd, buf.as_ptr(), buf.len(), offset) }
}

/// One call.
///
/// # Safety
/// As [`pread_full`].
unsafe fn pread(fd: BorrowedFd<'_>, ptr: *mut u8, len: usize, offset: libc::off_t) -> io::Result<usize> {
    // SAFETY: the caller vouches for the memory; the descriptor is borrowed, thus open.
    let n = unsafe { libc::pread(fd.as_raw_fd(), ptr.cast(), len.min(MAX_CALL), offset) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// One call.
///
/// # Safety
/// As [`pwrite_full`].
unsafe fn pwrite(fd: BorrowedFd<'_>, ptr: *const u8, len: usize, offset: libc::off_t) -> io::Result<usize> {
    // SAFETY: the caller vouches for the memory; the descriptor is borrowed, thus open.
    let n = unsafe { libc::pwrite(fd.as_raw_fd(), ptr.cast(), len.min(MAX_CALL), offset) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// The offset as the kernel takes it, if the whole range is one that it can take.
fn file_range(offset: u64, len: usize) -> io::Result<libc::off_t> {
    let end = offset.checked_add(len as u64).map(libc::off_t::try_from);
    match (libc::off_t::try_from(offset), end) {
        (Ok(start), Some(Ok(_))) => Ok(start),
        _ => Err(io::Error::new(
            ErrorKind::InvalidInput,
            format!("{len} bytes at offset {offset} pass the largest file offset"),
        )),
    }
}

fn check_aligned(ptr: *const u8, len: usize, offset: u64, align: DirectAlign) -> io::Result<()> {
    if len == 0 || align.admits(ptr.addr(), offset, len as u64) {
        return Ok(());
    }
    Err(io::Error::new(
        ErrorKind::InvalidInput,
        format!(
            "direct I/O of {len} bytes at offset {offset} with memory at {ptr:p}: needs offset and length in multiples \
             of {} and memory in multiples of {}",
            align.offset(),
            align.memory()
        ),
    ))
}
