use std::any::Any;
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::OFlags;
use tokio::sync::oneshot;

use super::cached::CacheView;
use super::closing::Closing;
use super::direct::{self, DirectFile};
use super::policy::DirectPolicy;
use super::posix::FileWrites;
use crate::alignment::DirectAlign;
use crate::sys::reopen::reopen;
use crate::sys::statx::{FsType, StorageId};

/// An open file as the engines see it: what every segment of a batch is about. It is closed when the last segment and
/// the last handle are gone.
pub struct OpenFile {
    fd: ManuallyDrop<OwnedFd>,
    storage: Option<StorageId>,
    fs_type: Option<FsType>,
    direct: OnceLock<DirectFile>,
    closed: Mutex<Option<oneshot::Sender<io::Result<()>>>>,
    writes: FileWrites,
    policy: DirectPolicy,
    cache: CacheView,
    companion: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl OpenFile {
    /// Takes the descriptor.
    pub fn new(fd: OwnedFd) -> Self {
        let (storage, fs_type) = (StorageId::of(fd.as_fd()).ok(), FsType::of(fd.as_fd()).ok());
        Self {
            fd: ManuallyDrop::new(fd),
            storage,
            fs_type,
            direct: OnceLock::new(),
            closed: Mutex::new(None),
            writes: FileWrites::default(),
            policy: DirectPolicy::default(),
            cache: CacheView::new(fs_type),
            companion: OnceLock::new(),
        }
    }

    /// The same file, with a policy, and on a file system of this type.
    #[must_use]
    pub fn with_policy(mut self, policy: DirectPolicy, fs_type: FsType) -> Self {
        if policy.leave_clean {
            // What is read ahead of its transfer would look as if somebody else had cached it.
            let _ = rustix::fs::fadvise(&*self.fd, 0, None, rustix::fs::Advice::Random);
        }
        self.policy = policy;
        self.fs_type = Some(fs_type);
        self.cache = CacheView::new(Some(fs_type));
        self
    }

    /// Whether its transfers go past the page cache.
    pub fn policy(&self) -> DirectPolicy {
        self.policy
    }

    /// What of it is cached.
    pub(super) fn cache(&self) -> &CacheView {
        &self.cache
    }

    /// The writes through the page cache that wait for a thread.
    pub(super) fn writes(&self) -> &FileWrites {
        &self.writes
    }

    /// What another engine keeps with the file, made at first use and let go before the file is closed. `None` if that is
    /// of another type: a file has one companion.
    pub fn companion<T: Any + Send + Sync>(&self, make: impl FnOnce(&Self) -> T) -> Option<Arc<T>> {
        self.companion.get_or_init(|| Arc::new(make(self))).clone().downcast().ok()
    }

    /// Whether the descriptor is open for reading, and for writing.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn access(&self) -> io::Result<(bool, bool)> {
        let access = direct::access(self.as_fd())?;
        Ok((access != OFlags::WRONLY, access != OFlags::RDONLY))
    }

    /// What opens the file once more for direct I/O, with the same access: later, on a thread that may wait. It stays
    /// the same file whatever becomes of this one.
    ///
    /// # Errors
    /// What the kernel says to one more descriptor.
    pub fn direct_opener(&self) -> io::Result<impl FnOnce() -> io::Result<OwnedFd> + Send + use<>> {
        let fd = self.as_fd().try_clone_to_owned()?;
        Ok(move || reopen(fd.as_fd(), direct::access(fd.as_fd())? | OFlags::DIRECT))
    }

    /// Whether the page cache is where its bytes live: there is no storage below.
    pub fn is_in_memory(&self) -> bool {
        !self.cache.can_miss()
    }

    /// Where the file is stored, if the kernel says.
    pub fn storage(&self) -> Option<StorageId> {
        self.storage
    }

    /// Whether a ring may read and write it. Files in user space (FUSE) it may not: because they can be polled, a ring
    /// takes them for files that nobody waits for, so that its thread waits for whoever serves them; and what it does
    /// not get at the first try it asks for at the wrong offset (seen on Linux 6.18).
    pub(super) fn suits_rings(&self) -> bool {
        self.fs_type.and_then(FsType::name) != Some("fuse")
    }

    /// Whether [`direct`](Self::direct) answers without waiting for a server.
    pub(super) fn is_direct_at_hand(&self) -> bool {
        self.direct.get().is_some() || self.fs_type.is_some_and(FsType::is_local)
    }

    /// A descriptor of the same file for direct I/O, and what it asks of memory, offset and length. `None` where there
    /// is no direct I/O, or where it was refused before.
    ///
    /// The first call opens the file a second time, which may wait for the storage; the answer is remembered.
    pub fn direct(&self) -> Option<(BorrowedFd<'_>, DirectAlign)> {
        self.direct.get_or_init(|| DirectFile::open(self.as_fd(), self.storage, self.fs_type)).get()
    }

    /// As [`direct`](Self::direct), once that has answered, and even if direct I/O was refused since.
    pub(super) fn direct_fd(&self) -> Option<BorrowedFd<'_>> {
        self.direct.get()?.fd()
    }

    /// The kernel refused a transfer that was aligned as it said: from now on this file and those that are opened on
    /// its file system are read and written through the page cache.
    pub fn refuse_direct(&self) {
        if let Some(direct) = self.direct.get() {
            direct.refuse();
        }
        if let Some(storage) = self.storage {
            direct::remember_refusal(storage);
        }
    }

    /// Learns what `close(2)` says, once the last user is gone.
    pub(crate) fn on_close(&self) -> oneshot::Receiver<io::Result<()>> {
        let (tx, rx) = oneshot::channel();
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = Some(tx);
        rx
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        drop(self.companion.take());
        // SAFETY: taken once, here; the field is not used afterwards.
        let fd = unsafe { ManuallyDrop::take(&mut self.fd) };
        let direct = self.direct.take().and_then(DirectFile::into_fd);
        let listener = self.closed.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        Closing { fd, direct, listener }.close();
    }
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFile").field("fd", &*self.fd).finish_non_exhaustive()
    }
}
