//! The page cache above a file: what of it is there, and tools to drop it and to warm it.
//!
//! Keep all of it off the workers of an async runtime. Most of it waits for the disk; [`residency()`] and [`page_map`]
//! seldom do, but the kernel walks the pages one by one: 12 to 20 ms for each GiB that is cached, measured on two cores
//! of a virtual machine. Against a transfer from the cache that is no small part; ask about the range that comes next,
//! not about the whole file.

mod map;
mod residency;

pub use map::{Coverage, PageMap, Run};
pub use residency::{Residency, Source, residency};

use crate::sys::reopen::reopen;
use crate::sys::statx::{FileInfo, page_size};
use crate::sys::{cache, mincore, rw};
use rustix::fs::{Advice, OFlags};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// How much is read at a time while warming, and how far ahead the disk is asked: enough to keep it busy.
const WARM_STEP: usize = 1 << 20;
const WARM_AHEAD: u64 = 8 << 20;

/// Why the page cache could not be asked or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageCacheError {
    /// This process may not.
    #[error("{what} is not permitted: {hint}")]
    NotPermitted {
        /// What was tried.
        what: String,
        /// What to do about it.
        hint: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Kernel, file system or descriptor do not offer it.
    #[error("{what} is not possible here: {hint}")]
    Unsupported {
        /// What was tried.
        what: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// Anything else.
    #[error("{what} failed")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl PageCacheError {
    fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}

/// A result of this module.
pub type Result<T> = std::result::Result<T, PageCacheError>;

/// Which pages of a range are cached, one by one. The range is clipped to the file.
///
/// `None` where the kernel does not tell: it does so only to those who own the file or may write it, and through a
/// descriptor that can be read.
pub fn page_map(file: impl AsFd, range: Range<u64>) -> Result<Option<PageMap>> {
    let fd = file.as_fd();
    let range = clip(fd, range)?;
    let mut map = PageMap::empty(range.clone(), page_size());
    let (total, mut page) = (map.total_pages(), 0);
    let told = mincore::residency(fd, &range, |cached| {
        if page < total {
            map.set(page, cached);
        }
        page += 1;
    });
    let told = told.map_err(PageCacheError::io("asking for cached pages"))?;
    Ok(told.then_some(map))
}

/// Drops a range from the page cache, writing dirty pages first, and tells what is still there.
///
/// Pages that another process maps or that are just being read stay, and so do those that the range covers only in
/// part, and all on a file system that is nothing but page cache (tmpfs).
pub fn drop_range(file: impl AsFd, range: Range<u64>) -> Result<Residency> {
    let fd = file.as_fd();
    let range = clip(fd, range)?;
    cache::write_back(fd, &range).map_err(PageCacheError::io("writing dirty pages"))?;
    cache::advise(fd, &range, Advice::DontNeed).map_err(PageCacheError::io("dropping cached pages"))?;
    residency(fd, range)
}

/// Reads a range into the page cache and tells what is there then.
///
/// A descriptor that cannot be read, or goes past the page cache, is opened anew so that it does neither.
pub fn warm_range(file: impl AsFd, range: Range<u64>) -> Result<Residency> {
    let fd = file.as_fd();
    let range = clip(fd, range)?;
    let flags =
        rustix::fs::fcntl_getfl(fd).map_err(|e| PageCacheError::io("reading the descriptor's flags")(e.into()))?;
    let buffered = if flags.contains(OFlags::DIRECT) || flags & OFlags::ACCMODE == OFlags::WRONLY {
        Some(reopen(fd, OFlags::RDONLY).map_err(PageCacheError::io("opening the file for reading"))?)
    } else {
        None
    };
    let buffered = buffered.as_ref().map_or(fd, AsFd::as_fd);
    read_through(buffered, &range).map_err(PageCacheError::io("reading the file"))?;
    residency(fd, range)
}

/// Asks for a window ahead, because one request for all is cut by the kernel to the disk's read-ahead, and reads behind
/// it, because a request is not a promise.
fn read_through(fd: BorrowedFd<'_>, range: &Range<u64>) -> io::Result<()> {
    let mut scratch = vec![0u8; WARM_STEP.min((range.end - range.start) as usize)];
    let (mut at, mut asked) = (range.start, range.start);
    while at < range.end {
        while asked < range.end && asked < at + WARM_AHEAD {
            let step = asked..range.end.min(asked + WARM_STEP as u64);
            // Only a hint: the read below is what counts.
            let _ = cache::advise(fd, &step, Advice::WillNeed);
            asked = step.end;
        }
        let len = scratch.len().min((range.end - at) as usize);
        let n = rw::read_at(fd, &mut scratch[..len], at)?;
        if n == 0 {
            break;
        }
        at += n as u64;
    }
    Ok(())
}

/// What [`drop_system_caches`] is to drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SystemCaches {
    /// The pages of files.
    Pages,
    /// The pages of files, and what is kept of names and inodes.
    PagesAndInodes,
}

/// Writes all dirty pages, then drops the clean pages of **every** file of the machine.
///
/// For benchmarks: it slows down everybody on this machine, containers beside this one included. Needs root.
pub fn drop_system_caches(what: SystemCaches) -> Result<()> {
    rustix::fs::sync();
    write_drop_caches(Path::new(DROP_CACHES), what)
}

fn write_drop_caches(path: &Path, what: SystemCaches) -> Result<()> {
    let value = match what {
        SystemCaches::Pages => "1\n",
        SystemCaches::PagesAndInodes => "3\n",
    };
    let written = std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()));
    written.map_err(|source| drop_caches_error(path.to_owned(), source))
}

fn drop_caches_error(path: PathBuf, source: io::Error) -> PageCacheError {
    match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => PageCacheError::NotPermitted {
            what: format!("writing {}", path.display()),
            hint: "run as root outside of a container, or drop the files one by one",
            source,
        },
        io::ErrorKind::NotFound => PageCacheError::Unsupported {
            what: format!("writing {}", path.display()),
            hint: "it does not exist; is /proc mounted?",
        },
        _ => PageCacheError::Io { what: "dropping the page cache", source },
    }
}

/// The part of a range that lies within the file.
fn clip(fd: BorrowedFd<'_>, range: Range<u64>) -> Result<Range<u64>> {
    let info = FileInfo::of(fd).map_err(PageCacheError::io("asking for the file's size"))?;
    let end = range.end.min(info.size);
    Ok(range.start.min(end)..end)
}

/// How many pages a range touches.
fn pages_touched(range: &Range<u64>, page_size: u64) -> u64 {
    if range.is_empty() {
        return 0;
    }
    (range.end - 1) / page_size - range.start / page_size + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_counts_when_one_byte_of_it_is_in_the_range() {
        assert_eq!(pages_touched(&(0..0), 4096), 0);
        assert_eq!(pages_touched(&(10..10), 4096), 0);
        assert_eq!(pages_touched(&(0..1), 4096), 1);
        assert_eq!(pages_touched(&(4095..4097), 4096), 2);
        assert_eq!(pages_touched(&(0..8192), 4096), 2);
        assert_eq!(pages_touched(&(0..u64::MAX), 4096), 1 << 52);
    }

    #[test]
    fn the_system_is_told_what_to_drop() {
        let file = tempfile::NamedTempFile::new().unwrap();
        write_drop_caches(file.path(), SystemCaches::Pages).unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "1\n");
        write_drop_caches(file.path(), SystemCaches::PagesAndInodes).unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "3\n");
    }

    #[test]
    fn a_refused_drop_is_told_from_an_impossible_one() {
        let path = || PathBuf::from(DROP_CACHES);
        for errno in [libc::EACCES, libc::EPERM, libc::EROFS] {
            let error = drop_caches_error(path(), io::Error::from_raw_os_error(errno));
            assert!(matches!(error, PageCacheError::NotPermitted { .. }), "{error}");
            assert!(error.to_string().contains("root"), "{error}");
        }
        let missing = write_drop_caches(Path::new("/proc/no/such/file"), SystemCaches::Pages).unwrap_err();
        assert!(matches!(missing, PageCacheError::Unsupported { .. }), "{missing}");
        let other = drop_caches_error(path(), io::Error::from_raw_os_error(libc::EIO));
        assert!(matches!(other, PageCacheError::Io { .. }), "{other}");
    }
}
