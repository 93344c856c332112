use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use warpio_core::{Device, Error, ErrorKind, Result};

use crate::engine::Credits;
use crate::sys::map::{ChangeTime, FileMap};

/// How many bytes of pinned maps are on their way to a device at once: enough to keep the link full, and little enough
/// for other copies to have their turn within a millisecond or two.
const IN_FLIGHT: usize = 64 << 20;

/// How often a file is found changed again before it is not waited for.
const TRIES: usize = 20;

/// Whether a map is pinned. It is once at the most: the device refuses to have the same pages pinned twice.
#[derive(Debug, Default)]
pub(crate) struct Pin {
    made: OnceLock<Arc<PinnedMap>>,
    making: Mutex<()>,
}

impl Pin {
    /// The pinned map, unless the file is known to have changed since.
    pub(crate) fn get(&self) -> Option<&Arc<PinnedMap>> {
        self.made.get().filter(|map| !map.stale.load(Ordering::Relaxed))
    }

    /// Pins every page, unless that was done. Blocks for as long as it takes to find them, and to read those that are not
    /// cached.
    pub(crate) fn make(&self, map: &Arc<FileMap>, device: &Device) -> Result<()> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        match self.made.get() {
            None => {
                let pinned = PinnedMap::new(map, device)?;
                self.made.get_or_init(|| Arc::new(pinned));
                Ok(())
            }
            Some(made) if made.is_current()? => Ok(()),
            Some(_) => Err(Error::new(ErrorKind::Changed)
                .with_message("the file changed since its pages were pinned; open the map anew to pin those of now")),
        }
    }
}

/// A map whose pages a device reads by itself. Unpinned and then unmapped when the last handle is dropped, which may be
/// on any thread: the device's backend does both later, elsewhere.
#[derive(Debug)]
pub(crate) struct PinnedMap {
    map: Arc<FileMap>,
    device: Device,
    credits: Arc<Credits>,
    /// When the file had been changed last before its pages were pinned.
    pinned_at: ChangeTime,
    /// It was changed since.
    stale: AtomicBool,
}

impl PinnedMap {
    fn new(map: &Arc<FileMap>, device: &Device) -> Result<Self> {
        // Before: what changes while the pages are found is seen afterwards.
        let pinned_at = settled(map)?;
        let (ptr, len) = map.pages();
        // SAFETY: the mapping lives until `unpin` drops the handle that it is given below.
        unsafe { device.backend().pin(ptr, len)? };
        Ok(Self {
            map: map.clone(),
            device: device.clone(),
            credits: Credits::new(IN_FLIGHT),
            pinned_at,
            stale: AtomicBool::new(false),
        })
    }

    /// Whether the pinned pages are sure to be the file's still. A file that is cut and written again gets others, and the
    /// device would go on to read the old ones; the mapping itself is always right.
    pub(crate) fn is_current(&self) -> io::Result<bool> {
        if !self.stale.load(Ordering::Relaxed) && self.map.change_time()? != self.pinned_at {
            tracing::info!("a file changed since its pages were pinned; it is read by the processor from now on");
            self.stale.store(true, Ordering::Relaxed);
        }
        Ok(!self.stale.load(Ordering::Relaxed))
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn map(&self) -> &Arc<FileMap> {
        &self.map
    }

    /// The right to have `len` more bytes in flight.
    pub(crate) fn credit(&self, len: usize) -> impl Send + 'static + use<> {
        self.credits.take(len, IN_FLIGHT)
    }

    /// Where the byte at `at` in the range that was mapped lies.
    pub(crate) fn address(&self, at: usize) -> NonNull<u8> {
        self.map.address(at)
    }
}

/// When the file was changed last, once the next change is sure to have another time: a tick of the file system's clock
/// has passed since. Blocks for as long.
fn settled(map: &FileMap) -> Result<ChangeTime> {
    for _ in 0..TRIES {
        let time = map.change_time()?;
        let wait = time.unsettled();
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
        if map.change_time()? == time {
            return Ok(time);
        }
    }
    Err(Error::new(ErrorKind::Changed).with_message("the file is being written; pin it when that is done"))
}

impl Drop for PinnedMap {
    fn drop(&mut self) {
        let (ptr, _) = self.map.pages();
        // SAFETY: pinned by `new`. Copies out of it hold a handle until they have ended.
        unsafe { self.device.backend().unpin(ptr, Box::new(self.map.clone())) };
    }
}
