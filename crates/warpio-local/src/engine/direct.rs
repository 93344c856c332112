//! The second descriptor of a file, opened with O_DIRECT, and the file systems that refused it.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::OFlags;

use crate::alignment::DirectAlign;
use crate::sys::reopen::reopen;
use crate::sys::statx::{DirectSupport, FsType, StorageId};

/// A file as direct I/O sees it.
#[derive(Debug)]
pub(super) struct DirectFile {
    open: Option<(OwnedFd, DirectAlign)>,
    refused: AtomicBool,
}

impl DirectFile {
    fn none() -> Self {
        Self { open: None, refused: AtomicBool::new(true) }
    }

    /// Opens the file behind `fd` once more. Whatever stands in the way, the page cache remains.
    pub(super) fn open(fd: BorrowedFd<'_>, storage: Option<StorageId>, fs_type: Option<FsType>) -> Self {
        if storage.is_some_and(|storage| refusals().contains(&storage)) {
            return Self::none();
        }
        let Ok(Some(align)) = DirectSupport::expected(fd).map(DirectSupport::alignment) else { return Self::none() };
        match access(fd).and_then(|access| reopen(fd, access | OFlags::DIRECT | never_waiting(fs_type))) {
            Ok(direct) => Self { open: Some((direct, align)), refused: AtomicBool::new(false) },
            Err(error) => {
                if let (Some(libc::EINVAL), Some(storage)) = (error.raw_os_error(), storage) {
                    remember_refusal(storage);
                }
                tracing::debug!(%error, "a file cannot be opened for direct I/O; it goes through the page cache");
                Self::none()
            }
        }
    }

    pub(super) fn get(&self) -> Option<(BorrowedFd<'_>, DirectAlign)> {
        let (fd, align) = self.open.as_ref()?;
        (!self.refused.load(Ordering::Relaxed)).then(|| (fd.as_fd(), *align))
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.open.as_ref().map(|(fd, _)| fd.as_fd())
    }

    pub(super) fn into_fd(self) -> Option<OwnedFd> {
        self.open.map(|(fd, _)| fd)
    }

    pub(super) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }
}

/// Marks files that are in memory as such that nobody has to wait for. A ring then reads them at once, where it would
/// otherwise wake a thread of the kernel for each read, as it cannot know that of these file systems.
fn never_waiting(fs_type: Option<FsType>) -> OFlags {
    match fs_type {
        Some(fs_type) if fs_type.is_memory() => OFlags::NONBLOCK,
        _ => OFlags::empty(),
    }
}

/// How a descriptor was opened: for reading, writing or both.
pub(super) fn access(fd: BorrowedFd<'_>) -> io::Result<OFlags> {
    Ok(rustix::fs::fcntl_getfl(fd)? & OFlags::RWMODE)
}

pub(super) fn remember_refusal(storage: StorageId) {
    if refusals().insert(storage) {
        tracing::info!(?storage, "this file system refuses direct I/O; its files go through the page cache");
    }
}

fn refusals() -> MutexGuard<'static, HashSet<StorageId>> {
    static REFUSALS: OnceLock<Mutex<HashSet<StorageId>>> = OnceLock::new();
    REFUSALS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}
