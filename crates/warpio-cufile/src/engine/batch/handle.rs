use std::ptr::null_mut;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::driver::{Driver, lock};
use crate::error::CuFileError;
use crate::sys::{BatchHandle as Raw, IoEvent, IoParams};

/// A batch of the library. Making one is dear and a process can have less than two hundred, so it is used for as long
/// as it works.
#[derive(Debug)]
pub(super) struct BatchHandle {
    driver: Driver,
    raw: Raw,
    /// Entries that were handed in: the library is not known to copy them.
    kept: Mutex<Vec<Arc<Entries>>>,
}

// SAFETY: the library's functions for batches may be called from any thread, submitting and polling at once included.
unsafe impl Send for BatchHandle {}
// SAFETY: as above.
unsafe impl Sync for BatchHandle {}

/// The entries of one submission, where the library reads them.
#[derive(Debug)]
pub(super) struct Entries(Box<[IoParams]>);

// SAFETY: plain data; the pointers in it are only followed by the library.
unsafe impl Send for Entries {}
// SAFETY: as above.
unsafe impl Sync for Entries {}

impl BatchHandle {
    /// A batch of `capacity` entries.
    ///
    /// # Errors
    /// The library's answer.
    pub(super) fn set_up(driver: &Driver, capacity: usize) -> Result<Self, CuFileError> {
        let mut raw = null_mut();
        // SAFETY: a valid place for the result.
        let status = unsafe { (driver.library().cuFileBatchIOSetUp)(&mut raw, capacity as u32) };
        CuFileError::check(status, "cuFileBatchIOSetUp")?;
        Ok(Self { driver: driver.clone(), raw, kept: Mutex::default() })
    }

    /// Submits entries. This may block for milliseconds. After an error the batch is lost.
    ///
    /// # Errors
    /// The library's answer.
    ///
    /// # Safety
    /// Files and memory of the entries stay until their events came or the batch was destroyed.
    pub(super) unsafe fn submit(&self, entries: Vec<IoParams>) -> Result<Arc<Entries>, CuFileError> {
        let mut entries = Entries(entries.into_boxed_slice());
        let (count, first) = (entries.0.len() as u32, entries.0.as_mut_ptr());
        // SAFETY: so many entries lie there, and stay there: in the error case, until the batch is destroyed.
        let status = unsafe { (self.driver.library().cuFileBatchIOSubmit)(self.raw, count, first, 0) };
        let entries = Arc::new(entries);
        match CuFileError::check(status, "cuFileBatchIOSubmit") {
            Ok(()) => Ok(entries),
            Err(error) => {
                lock(&self.kept).push(entries);
                Err(error)
            }
        }
    }

    /// Waits for at most `patience` for events, and stores them. Returns how many there were.
    ///
    /// # Errors
    /// The library's answer.
    pub(super) fn events(&self, patience: Duration, events: &mut [IoEvent]) -> Result<usize, CuFileError> {
        let mut count = events.len() as u32;
        let mut timeout =
            libc::timespec { tv_sec: patience.as_secs() as libc::time_t, tv_nsec: patience.subsec_nanos().into() };
        // SAFETY: `count` places for events; the batch is alive as long as this.
        let status = unsafe {
            let get = self.driver.library().cuFileBatchIOGetStatus;
            get(self.raw, 1, &mut count, events.as_mut_ptr(), &mut timeout)
        };
        CuFileError::check(status, "cuFileBatchIOGetStatus")?;
        Ok((count as usize).min(events.len()))
    }

    /// Destroys the batch, which waits for what is in flight. Nobody may be in another call with it.
    pub(super) fn destroy(self: Arc<Self>) {
        // SAFETY: made by `set_up`; whoever destroys it has seen to it that nobody else uses it.
        unsafe { (self.driver.library().cuFileBatchIODestroy)(self.raw) };
    }
}
