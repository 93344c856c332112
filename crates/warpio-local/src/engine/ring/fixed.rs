//! Staging memory that is registered with a ring.

use warpio_core::{Region, StagingSlab};

/// The slabs that a ring knows; a slab's position is its number there. They live as long as the registration.
#[derive(Debug, Default)]
pub(in crate::engine) struct FixedBuffers(Vec<StagingSlab>);

impl FixedBuffers {
    /// The slabs that were registered, in this order.
    pub(in crate::engine) fn new(slabs: Vec<StagingSlab>) -> Self {
        Self(slabs)
    }

    /// The number of the slab that a slot lies in.
    pub(super) fn index(&self, region: Region) -> Option<u16> {
        let (base, len) = region.slab;
        let known = |slab: &StagingSlab| slab.as_ptr().as_ptr().addr() == base && slab.len() == len;
        self.0.iter().position(known).and_then(|index| u16::try_from(index).ok())
    }
}
