use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::fence::{Fence, watch_all};
use crate::Result;
use crate::device::Device;
use crate::sync::{Arc, Mutex, lock};

/// Something that an engine keeps with an allocation, such as its registration with a driver, and that has to end before
/// the memory is released.
pub trait Attachment: Any + Send + Sync {
    /// Nothing uses the memory any more, and it is to be released. This must not block: it calls `release` once the
    /// attachment has ended, now or later and on any thread. Dropped uncalled, `release` leaks the memory.
    fn detach(self: Arc<Self>, release: Box<dyn FnOnce() + Send>);
}

/// The allocation that the memory of a segment lies in.
#[derive(Clone)]
pub struct MemoryBlock(pub(crate) Arc<Allocation>);

impl MemoryBlock {
    /// Its first address on its device.
    pub fn base(&self) -> NonNull<u8> {
        self.0.base
    }

    /// Its length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "nothing is transferred from or to an empty one")]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// What was attached under `key`, or else what `make` makes, which is attached now and as long as the memory lives.
    /// `make` is not called under a lock of anybody's but this allocation's.
    pub fn attachment<T: Attachment>(&self, key: usize, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let mut attached = lock(&self.0.attachments);
        let known = attached.iter().filter(|(known, _)| *known == key).find_map(|(_, attachment)| {
            let attachment: Arc<dyn Any + Send + Sync> = attachment.clone();
            attachment.downcast().ok()
        });
        known.unwrap_or_else(|| {
            let made = make();
            attached.push((key, made.clone()));
            made
        })
    }
}

impl fmt::Debug for MemoryBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whoever must be dropped for foreign memory to be released.
pub(super) type Owner = Box<dyn Any + Send + Sync>;

/// Memory shared by all the pieces that it was split into. It is released when the last piece is gone *and* the
/// device work recorded on every piece has finished.
pub(crate) struct Allocation {
    device: Device,
    base: NonNull<u8>,
    len: usize,
    owner: Option<Owner>,
    /// Whether the memory may ever be written.
    writable: bool,
    /// What the dropped pieces were last used by.
    pending: Mutex<Fence>,
    /// What has to end before the memory is released, each under the key of whoever attached it.
    attachments: Mutex<Attachments>,
}

type Attachments = Vec<(usize, Arc<dyn Attachment>)>;

// SAFETY: the allocation is raw memory; access to it is governed by the unique and shared pieces, and `Device`,
// events and owner are Send + Sync themselves.
unsafe impl Send for Allocation {}
// SAFETY: as above; `pending` is behind a mutex.
unsafe impl Sync for Allocation {}

impl Allocation {
    pub(super) fn new(device: &Device, len: usize) -> Result<Arc<Self>> {
        let base = if len == 0 { NonNull::dangling() } else { device.alloc_raw(len)? };
        Ok(Self::wrap(device, base, len, None, true))
    }

    pub(super) fn foreign(device: &Device, base: NonNull<u8>, len: usize, owner: Owner) -> Arc<Self> {
        Self::wrap(device, base, len, Some(owner), true)
    }

    /// Memory that others may read too, or that is not writable at all.
    pub(super) fn foreign_read_only(device: &Device, base: NonNull<u8>, len: usize, owner: Owner) -> Arc<Self> {
        Self::wrap(device, base, len, Some(owner), false)
    }

    fn wrap(device: &Device, base: NonNull<u8>, len: usize, owner: Option<Owner>, writable: bool) -> Arc<Self> {
        Arc::new(Self {
            device: device.clone(),
            base,
            len,
            owner,
            writable,
            pending: Mutex::default(),
            attachments: Mutex::default(),
        })
    }

    pub(super) fn is_writable(&self) -> bool {
        self.writable
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Remembers what a dropped piece was last used by.
    pub(super) fn defer(&self, fence: Fence) {
        if !fence.events().is_empty() {
            lock(&self.pending).merge(fence);
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let events = lock(&self.pending).take_pending();
        let owner = ManuallyDrop::new(self.owner.take());
        let attachments = std::mem::take(&mut *lock(&self.attachments));
        let release = Release { device: self.device.clone(), base: self.base, len: self.len, owner, attachments };
        watch_all(&self.device, events, move |result| {
            if let Err(error) = &result {
                tracing::warn!(%error, "memory is released behind device work that failed");
            }
            release.run();
        });
    }
}

/// Dropped instead of run, it leaks the memory: nobody has said that the device is done with it.
struct Release {
    device: Device,
    base: NonNull<u8>,
    len: usize,
    owner: ManuallyDrop<Option<Owner>>,
    attachments: Attachments,
}

// SAFETY: nothing but a right to release memory, which may happen on any thread by the backend's contract.
unsafe impl Send for Release {}

impl Release {
    fn run(mut self) {
        if let Some((_, attachment)) = self.attachments.pop() {
            return attachment.detach(Box::new(move || self.run()));
        }
        match ManuallyDrop::into_inner(self.owner) {
            Some(owner) => drop(owner),
            None if self.len > 0 => {
                // SAFETY: `base` came from `alloc` of this device with this length, every piece is gone, and the work
                // recorded on the pieces has finished or its context has failed.
                unsafe { self.device.backend().free(self.base, self.len) }
            }
            None => {}
        }
    }
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocation")
            .field("device", &self.device)
            .field("len", &self.len)
            .field("foreign", &self.owner.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_release_that_nobody_called_for_keeps_the_memory() {
        static DROPPED: AtomicBool = AtomicBool::new(false);
        struct OwnerOfNothing;
        impl Drop for OwnerOfNothing {
            fn drop(&mut self) {
                DROPPED.store(true, Ordering::SeqCst);
            }
        }
        let release = || Release {
            device: Device::host(),
            base: NonNull::dangling(),
            len: 1,
            owner: ManuallyDrop::new(Some(Box::new(OwnerOfNothing))),
            attachments: Vec::new(),
        };
        drop(release());
        assert!(!DROPPED.load(Ordering::SeqCst), "the memory was given up without a word from the device");
        release().run();
        assert!(DROPPED.load(Ordering::SeqCst));
    }
}
