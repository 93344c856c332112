//! Block devices, whose size and sector `stat` does not tell.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `_IOR(0x12, 114, size_t)` of `linux/fs.h`; libc does not name it.
const BLKGETSIZE64: libc::Ioctl = libc::_IOR::<usize>(0x12, 114);

/// The size of a block device, in bytes.
pub fn size(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes = 0u64;
    // SAFETY: BLKGETSIZE64 writes one u64 (its type says size_t, the kernel does put_u64) at the pointer, which is
    // that of a live local; the descriptor is borrowed, thus open.
    let rc = unsafe { libc::ioctl(fd.as_raw_fd(), BLKGETSIZE64, &raw mut bytes) };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(bytes)
}

/// The logical sector of a block device, in bytes: the least that it reads or writes.
pub fn sector(fd: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(rustix::fs::ioctl_blksszget(fd)?)
}
