use std::sync::Arc;

use warpio_core::config::{CompatMode, DirectIo};
use warpio_core::engine::Batch;

use super::ring::{Mode, RingTarget};
use super::target::OpenFile;

/// Whether the transfers of a file go past the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectPolicy {
    /// For reads. `Auto` takes cached bytes from the cache and others past it.
    pub read: DirectIo,
    /// For writes. `Auto` goes through the cache.
    pub write: DirectIo,
    /// Whether what goes through the cache and was not there before leaves it again.
    pub leave_clean: bool,
    /// Whether they go past host memory too, where an engine can.
    pub compat: CompatMode,
}

/// The same batch, for a ring engine to carry out past the page cache.
pub(super) fn past_the_cache(batch: Batch) -> Batch {
    match batch.target::<OpenFile>() {
        Some(file) => Batch::new(direct_target(file), batch.into_parts().1),
        None => batch,
    }
}

pub(super) fn direct_target(file: Arc<OpenFile>) -> warpio_core::engine::Target {
    Arc::new(RingTarget::new(file, Mode::Direct))
}
