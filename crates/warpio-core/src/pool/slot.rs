use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::class::{Class, Slab, SlotMemory};
use crate::device::{Device, DeviceStream};
use crate::sync::Arc;
use crate::{Error, ErrorKind, Result};

/// Staging memory that is lent to one piece of a transfer. Dropping it gives it back, so it must not be dropped while
/// a device still copies from or to it: [`hold_until`](Self::hold_until) and [`leak`](Self::leak) are for that.
pub struct Slot {
    memory: ManuallyDrop<SlotMemory>,
    class: Arc<Class>,
}

/// Where a slot lies, for engines that register staging memory with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// The address of the slab that the slot was cut from, and its length in bytes.
    pub slab: (usize, usize),
    /// The slot's offset in the slab, in bytes.
    pub offset: usize,
}

/// A part of a pool's memory, for engines that register it with the kernel: it exists at least as long as this handle,
/// and the pool's [`trim`](super::StagingPool::trim) passes it over.
#[derive(Clone, Debug)]
pub struct StagingSlab(Arc<Slab>);

impl StagingSlab {
    pub(super) fn new(slab: Arc<Slab>) -> Self {
        Self(slab)
    }

    /// Where the memory begins: the first member of [`Region::slab`].
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.0.base()
    }

    /// The size in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl Slot {
    pub(super) fn new(memory: SlotMemory, class: Arc<Class>) -> Self {
        Self { memory: ManuallyDrop::new(memory), class }
    }

    /// The size in bytes.
    pub fn len(&self) -> usize {
        self.class.slot_len
    }

    /// Never true: a slot has a size.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The memory, for the kernel or a device to fill.
    pub fn as_ptr(&self) -> NonNull<u8> {
        // SAFETY: the slot lies within its slab.
        unsafe { self.memory.slab.base().add(self.memory.offset) }
    }

    /// The memory, to read.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: staging memory is initialised, valid while the slab lives, and lent to this slot alone.
        unsafe { std::slice::from_raw_parts(self.as_ptr().as_ptr(), self.len()) }
    }

    /// The memory, to fill.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as for `as_slice`; the slot is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr().as_ptr(), self.len()) }
    }

    /// Where the slot lies.
    pub fn region(&self) -> Region {
        let slab = &self.memory.slab;
        Region { slab: (slab.base().as_ptr() as usize, slab.len()), offset: self.memory.offset }
    }

    /// Never lends the memory again: for when it is unknown whether something still writes it.
    pub fn leak(self) {
        tracing::warn!(bytes = self.len(), "a staging slot is leaked, as it may still be in use");
        let this = ManuallyDrop::new(self);
        // SAFETY: taken once, as nothing of `this` is used or dropped afterwards. The memory is what is leaked.
        let class = unsafe { std::ptr::read(&this.class) };
        class.one_leaked();
    }

    /// Nothing will tell when the work on the slot ends, so it is leaked, unless the context is lost: then none runs.
    /// Returns whether it was leaked.
    fn unobserved(self, error: &Error) -> bool {
        let leaked = error.kind() != ErrorKind::DeviceLost;
        if leaked {
            self.leak();
        }
        leaked
    }

    /// Gives the slot back once everything that `stream` holds now has finished.
    ///
    /// # Errors
    /// What the driver reports; the slot is then leaked.
    pub fn hold_until(self, device: &Device, stream: &DeviceStream) -> Result<()> {
        match stream.record() {
            Ok(event) => {
                device.backend().watch(event, Box::new(move |_| drop(self)));
                Ok(())
            }
            Err(error) => {
                self.unobserved(&error);
                Err(error)
            }
        }
    }

    /// Waits until everything that `stream` holds now has finished, and returns the slot. `keep` lives as long, even
    /// when the future is dropped.
    pub(crate) async fn wait_for<K: Send + 'static>(
        self,
        device: &Device,
        stream: &DeviceStream,
        keep: K,
    ) -> Result<Self> {
        let event = match stream.record() {
            Ok(event) => event,
            Err(error) => {
                if self.unobserved(&error) {
                    std::mem::forget(keep);
                }
                return Err(error);
            }
        };
        let (tx, rx) = tokio::sync::oneshot::channel();
        device.backend().watch(
            event,
            Box::new(move |result| {
                drop(keep);
                drop(tx.send(result.map(|()| self)));
            }),
        );
        rx.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Gone)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: taken once, here; the field is not used afterwards.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        self.class.queue.put(memory);
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("len", &self.len()).finish_non_exhaustive()
    }
}
