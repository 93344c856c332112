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
        let in_memory = matches!(fs_type.and_then(FsType::name), Some("tmpfs" | "ramfs" | "hugetlbfs"));
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

    /// Whether every page of a range is cached.
    pub(super) fn is_cached(&self, fd: BorrowedFd<'_>, offset: u64, len: usize) -> Option<bool> {
        let page = page_size() as u64;
        let pages = (offset + len as u64).div_ceil(page) - offset / page;
        Some(self.count(fd, offset, len as u64)? >= pages)
    }

    fn count(&self, fd: BorrowedFd<'_>, offset: u64, len: u64) -> Option<u64> {
        let end = offset.saturating_add(len);
        cachestat(fd, &(offset..end)).ok().flatten().map(|stat| stat.cached)
    }
}
