use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::sys::statx::{DeviceId, FileInfo};

/// The appends of one file that are under way, whichever handles of this process they were made through. Each has its
/// range reserved once and then writes by offset: with O_APPEND the kernel would choose the place of every piece anew.
#[derive(Debug, Default)]
struct Appends {
    /// Where the reserved ranges end.
    ends: Mutex<BTreeSet<u64>>,
}

/// Where a file's next append goes; what is shared by its handles is looked up with the first.
#[derive(Debug, Default)]
pub(super) struct AppendPosition(OnceLock<Arc<Appends>>);

/// A range for one append, its own until this is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    pub(super) offset: u64,
    end: u64,
    appends: Arc<Appends>,
}

impl AppendPosition {
    /// Reserves `len` bytes behind the end of the file and behind every range that is being written.
    pub(super) fn reserve(&self, fd: BorrowedFd<'_>, len: usize) -> io::Result<Reservation> {
        let appends = match self.0.get() {
            Some(appends) => appends,
            None => {
                let info = FileInfo::of(fd)?;
                self.0.get_or_init(|| Appends::of(info.device, info.inode))
            }
        };
        let mut ends = appends.lock();
        // Under the lock: a range that was written by now counts as size, one that was not as an end.
        let size = FileInfo::of(fd)?.size;
        let offset = ends.last().map_or(size, |&end| end.max(size));
        let end = offset
            .checked_add(len as u64)
            .filter(|&end| end <= i64::MAX as u64)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the file would exceed the largest offset"))?;
        if len > 0 {
            ends.insert(end);
        }
        Ok(Reservation { offset, end, appends: appends.clone() })
    }
}

impl Appends {
    fn of(device: DeviceId, inode: u64) -> Arc<Self> {
        type Known = HashMap<(DeviceId, u64), Weak<Appends>>;
        static KNOWN: OnceLock<Mutex<Known>> = OnceLock::new();
        let mut known = KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(appends) = known.get(&(device, inode)).and_then(Weak::upgrade) {
            return appends;
        }
        // Files come and go: what nobody appends to any more is forgotten.
        known.retain(|_, appends| appends.strong_count() > 0);
        let appends = Arc::<Self>::default();
        known.insert((device, inode), Arc::downgrade(&appends));
        appends
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.end > self.offset {
            self.appends.lock().remove(&self.end);
        }
    }
}
