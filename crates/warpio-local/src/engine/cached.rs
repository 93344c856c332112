use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys::cache::cachestat;
use crate::sys::statx::{FsType, page_size};

/// How to find out whether bytes of a file are cached, as cheaply as its file system allows.
#[derive(Debug)]
pub(super) struct CacheView {
    /// The page cache is where the bytes live, so all of them are "cached".
    in_memory: bool,
    /// The file system reads without waiting when it is asked to.
    nowait: AtomicBool,
}

impl CacheView {
    pub(super) fn new(fs_type: Option<FsType>) -> Self {
        let in_memory = fs_type.is_some_and(FsType::is_memory);
        Self { in_memory, nowait: AtomicBool::new(true) }
    }

    /// Whether some bytes may have to come from storage.
    pub(super) fn can_miss(&self) -> bool {
        !self.in_memory
    }

    /// Whether reads that do not wait are worth a try.
    pub(super) fn answers_nowait(&self) -> bool {
        !self.in_memory && self.nowait.load(Ordering::Relaxed)
    }

    /// A read that should not wait returned nothing of a page that is cached.
    pub(super) fn doubt_nowait(&self) {
        self.nowait.store(false, Ordering::Relaxed);
    }

    /// Whether the page at `offset` is cached. `None` where the kernel does not say: it counts only for those who own
    /// a file or may write it.
    ///
    /// To ask costs 0.5 µs, while to try a read starts it, past anybody's plan to read directly.
    pub(super) fn begins_cached(&self, fd: BorrowedFd<'_>, offset: u64) -> Option<bool> {
        Some(self.count(fd, offset, 1)? > 0)
    }

    /// Whether every page of a range is cached. `None` where the kernel does not say. Behind the end of a file nothing
    /// is, and nothing has to be read.
    pub(super) fn is_whole(&self, fd: BorrowedFd<'_>, offset: u64, len: usize) -> Option<bool> {
        let page = page_size() as u64;
        let pages = (offset + len as u64).div_ceil(page) - offset / page;
        Some(self.count(fd, offset, len as u64)? >= pages)
    }

    /// How many bytes of a range, from its first on, are cached, to the page, if that can be told at little cost: where
    /// both ends are cached, all is taken to be. `None` where the kernel does not say.
    pub(super) fn cached_prefix(&self, fd: BorrowedFd<'_>, offset: u64, len: usize) -> Option<usize> {
        if !self.begins_cached(fd, offset)? {
            return Some(0);
        }
        let end = offset + len as u64;
        if self.answers_nowait() && self.begins_cached(fd, end - 1)? {
            return Some(len);
        }
        let page = page_size() as u64;
        let (first, behind) = (offset / page, end.div_ceil(page));
        // The first page whose predecessors are not all cached, between one that is and one that is not.
        let (mut cached, mut missing) = (first + 1, behind + 1);
        while missing - cached > 1 {
            let middle = cached + (missing - cached) / 2;
            match self.count(fd, first * page, (middle - first) * page)? >= middle - first {
                true => cached = middle,
                false => missing = middle,
            }
        }
        Some(((cached * page).min(end) - offset) as usize)
    }

    /// Whether a read of the range has nothing to wait for in a file that is in memory: none of its pages is swapped out
    /// or missing. `false` where the kernel does not say.
    pub(super) fn is_present(&self, fd: BorrowedFd<'_>, offset: u64, len: usize) -> bool {
        let page = page_size() as u64;
        let pages = (offset + len as u64).div_ceil(page) - offset / page;
        self.in_memory && self.count(fd, offset, len as u64).is_some_and(|cached| cached >= pages * page)
    }

    fn count(&self, fd: BorrowedFd<'_>, offset: u64, len: u64) -> Option<u64> {
        let end = offset.saturating_add(len);
        cachestat(fd, &(offset..end)).ok().flatten().map(|stat| stat.cached)
    }
}
