//! Reads that take what is cached, and no more.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::FileType;

use super::pread_nowait;

/// What a read of cached bytes came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// All that there is: fewer bytes than asked for mean the end of the file.
    Whole(usize),
    /// So many bytes, from the first on. The rest has to come from storage.
    Part(usize),
}

impl Cached {
    /// How many bytes there are, if all of them were cached.
    pub fn whole(self) -> Option<usize> {
        match self {
            Self::Whole(n) => Some(n),
            Self::Part(_) => None,
        }
    }
}

/// Reads what is cached of `len` bytes at `offset`, up to the first page that is not, without waiting for storage.
///
/// # Errors
/// As [`pread_nowait`].
///
/// # Safety
/// As [`pread_full`](super::pread_full).
pub unsafe fn pread_cached(fd: BorrowedFd<'_>, ptr: *mut u8, len: usize, offset: u64) -> io::Result<Cached> {
    let call = |done: usize| {
        // SAFETY: the caller vouches for `len` bytes at `ptr`, and `done` is within them.
        unsafe { pread_nowait(fd, ptr.add(done), len - done, offset + done as u64) }
    };
    read(len, call, |done| ends_at(fd, offset + done as u64))
}

fn read(
    len: usize,
    mut call: impl FnMut(usize) -> io::Result<Option<usize>>,
    ends: impl Fn(usize) -> io::Result<bool>,
) -> io::Result<Cached> {
    let mut done = 0;
    while done < len {
        match call(done)? {
            // Linux 5.9 and 5.10 say 0 of what is not cached, too (preadv2(2), BUGS).
            Some(0) if ends(done)? => break,
            Some(0) | None => return Ok(Cached::Part(done)),
            Some(n) => done += n,
        }
    }
    Ok(Cached::Whole(done))
}

/// Whether the file ends there at the latest. A block device, whose size stands elsewhere, is not known to.
fn ends_at(fd: BorrowedFd<'_>, offset: u64) -> io::Result<bool> {
    let stat = rustix::fs::fstat(fd)?;
    Ok(FileType::from_raw_mode(stat.st_mode).is_file() && u64::try_from(stat.st_size).is_ok_and(|size| size <= offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_of(answers: &[Option<usize>], end: usize) -> Cached {
        let mut answers = answers.iter();
        read(10, |_| Ok(*answers.next().expect("one call too many")), |done| Ok(done >= end)).unwrap()
    }

    #[test]
    fn reads_go_on_to_what_is_not_cached_or_to_the_end() {
        assert_eq!(read_of(&[Some(4), Some(6)], 10), Cached::Whole(10));
        assert_eq!(read_of(&[Some(4), None], 10), Cached::Part(4));
        assert_eq!(read_of(&[None], 10), Cached::Part(0));
        assert_eq!(read_of(&[Some(7), Some(0)], 7), Cached::Whole(7));
    }

    #[test]
    fn nothing_is_the_end_only_where_the_file_ends() {
        assert_eq!(read_of(&[Some(4), Some(0)], 10), Cached::Part(4));
        assert_eq!(read_of(&[Some(0)], 10), Cached::Part(0));
        assert_eq!(read_of(&[Some(0)], 0), Cached::Whole(0));
    }
}
