use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use warpio_core::{Device, Result};

use crate::engine::Credits;
use crate::sys::map::FileMap;

/// How many bytes of pinned maps are on their way to a device at once: enough to keep the link full, and little enough
/// for other copies to have their turn within a millisecond or two.
const IN_FLIGHT: usize = 64 << 20;

/// Whether a map is pinned. It is once at the most: the device refuses to have the same pages pinned twice.
#[derive(Debug, Default)]
pub(crate) struct Pin {
    made: OnceLock<Arc<PinnedMap>>,
    making: Mutex<()>,
}

impl Pin {
    pub(crate) fn get(&self) -> Option<&Arc<PinnedMap>> {
        self.made.get()
    }

    /// Pins every page, unless that was done. Blocks for as long as it takes to find them, and to read those that are not
    /// cached.
    pub(crate) fn make(&self, map: &Arc<FileMap>, device: &Device) -> Result<()> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if self.made.get().is_none() {
            let pinned = PinnedMap::new(map, device)?;
            self.made.get_or_init(|| Arc::new(pinned));
        }
        Ok(())
    }
}

/// A map whose pages a device reads by itself. Unpinned and then unmapped when the last handle is dropped, which may be
/// on any thread: the device's backend does both later, elsewhere.
#[derive(Debug)]
pub(crate) struct PinnedMap {
    map: Arc<FileMap>,
    device: Device,
    credits: Arc<Credits>,
}

impl PinnedMap {
    fn new(map: &Arc<FileMap>, device: &Device) -> Result<Self> {
        let (ptr, len) = map.pages();
        // SAFETY: the mapping lives until `unpin` drops the handle that it is given below.
        unsafe { device.backend().pin(ptr, len)? };
        Ok(Self { map: map.clone(), device: device.clone(), credits: Credits::new(IN_FLIGHT) })
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn map(&self) -> &FileMap {
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

impl Drop for PinnedMap {
    fn drop(&mut self) {
        let (ptr, _) = self.map.pages();
        // SAFETY: pinned by `new`. Copies out of it hold a handle until they have ended.
        unsafe { self.device.backend().unpin(ptr, Box::new(self.map.clone())) };
    }
}
