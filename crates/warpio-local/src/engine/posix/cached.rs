//! Reads of runs out of the page cache, as few calls as that takes.

use std::os::fd::AsFd;

use warpio_core::engine::GatherRun;
use warpio_core::{Error, Result};

use super::read::forget;
use crate::engine::OpenFile;
use crate::sys::rw::{pread_cached, pread_full};

/// Reads runs of one file that are cached, one after another.
///
/// A read that does not wait says at once what is cached, but where it is not, the attempt starts a read into the cache,
/// past anybody's plan to read directly. To ask before costs 0.5 µs. So it is asked about the first run, and after one
/// that was missing.
pub(super) struct CachedReads<'a> {
    file: &'a OpenFile,
    ask: bool,
}

impl<'a> CachedReads<'a> {
    pub(super) fn new(file: &'a OpenFile) -> Self {
        Self { file, ask: true }
    }

    /// Reads a run, unless it has to come from storage.
    ///
    /// # Safety
    /// `ptr` is valid for writes of the run's length.
    pub(super) unsafe fn read(&mut self, ptr: *mut u8, run: &GatherRun) -> Option<Result<usize>> {
        let cache = self.file.cache();
        if !cache.can_miss() {
            // SAFETY: the caller's promise.
            return Some(unsafe { pread_waiting(self.file, ptr, run) });
        }
        let answers = cache.answers_nowait();
        let known = if self.ask || !answers { self.is_cached(run) } else { None };
        self.ask = known.is_none_or(|cached| !cached) && self.ask;
        if known == Some(false) {
            self.ask = true;
            return None;
        }
        if answers {
            // SAFETY: the caller's promise.
            if let Some(n) = unsafe { whole_nowait(self.file, ptr, run) } {
                return Some(Ok(n));
            }
            self.ask = true;
        }
        // Cached, and still not read without waiting: such reads are not worth a try here.
        let cached = known.or_else(|| self.is_cached(run)) == Some(true);
        if cached && answers {
            cache.doubt_nowait();
        }
        // SAFETY: the caller's promise.
        cached.then(|| unsafe { pread_waiting(self.file, ptr, run) })
    }

    /// Whether all of a run is cached, if the kernel says so.
    fn is_cached(&self, run: &GatherRun) -> Option<bool> {
        self.file.cache().is_whole(self.file.as_fd(), run.range.start, run.len())
    }
}

/// # Safety
/// As for [`CachedReads::read`].
unsafe fn whole_nowait(file: &OpenFile, ptr: *mut u8, run: &GatherRun) -> Option<usize> {
    // SAFETY: the caller's promise. An error is left to the read that waits.
    unsafe { pread_cached(file.as_fd(), ptr, run.len(), run.range.start) }.ok()?.whole()
}

/// Reads a run, however long it takes.
///
/// # Safety
/// As for [`CachedReads::read`].
pub(super) unsafe fn pread_waiting(file: &OpenFile, ptr: *mut u8, run: &GatherRun) -> Result<usize> {
    let (fd, offset, len) = (file.as_fd(), run.range.start, run.len());
    let clean = file.policy().leave_clean && file.cache().begins_cached(fd, offset) == Some(false);
    // SAFETY: the caller's promise.
    let result = unsafe { pread_full(fd, ptr, len, offset) };
    if clean {
        forget(fd, offset, len);
    }
    result.map_err(Error::from)
}
