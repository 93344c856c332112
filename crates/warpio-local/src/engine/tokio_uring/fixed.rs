//! Staging memory as tokio-uring registers it.

use tokio_uring::buf::fixed::FixedBufRegistry;
use tokio_uring::buf::{IoBuf, IoBufMut};
use warpio_core::StagingSlab;

use crate::engine::ring::FixedBuffers;

/// The most that tokio-uring registers with one ring.
const MAX_BUFFERS: usize = 1024;

/// Memory that a staging pool allocated.
struct Memory(StagingSlab);

// SAFETY: a slab's memory is initialised, never moves, and lives as long as its handle, which this is.
unsafe impl IoBuf for Memory {
    fn stable_ptr(&self) -> *const u8 {
        self.0.as_ptr().as_ptr()
    }

    fn bytes_init(&self) -> usize {
        self.0.len()
    }

    fn bytes_total(&self) -> usize {
        self.0.len()
    }
}

// SAFETY: as above; the memory is lent piece by piece by the pool, and only addresses are used here.
unsafe impl IoBufMut for Memory {
    fn stable_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_ptr().as_ptr()
    }

    unsafe fn set_init(&mut self, _: usize) {}
}

/// Registers staging memory with the ring of the runtime that this is called in, as much as the limit of locked memory
/// lets. The ring keeps what it knows alive.
pub(super) fn register(slabs: &[StagingSlab]) -> FixedBuffers {
    for count in (1..=slabs.len().min(MAX_BUFFERS)).rev() {
        match FixedBufRegistry::new(slabs[..count].iter().cloned().map(Memory)).register() {
            Ok(()) => return FixedBuffers::new(slabs[..count].to_vec()),
            Err(error) => tracing::debug!(%error, slabs = count, "staging memory cannot be registered with the ring"),
        }
    }
    FixedBuffers::default()
}
