//! Files that no ring may touch.

use std::sync::OnceLock;

use warpio_core::engine::{Batch, Engine};
use warpio_core::{Error, ErrorKind};

use super::target::RingTarget;
use crate::engine::DirectThreads;

/// As many as there may be reads and writes in flight of such files.
const THREADS: usize = 16;

/// Threads for files that do not suit rings, started when the first one comes.
#[derive(Debug, Default)]
pub(in crate::engine) struct Detour(OnceLock<Result<DirectThreads, String>>);

impl Detour {
    /// Takes the batch if it is about such a file, and gives it back otherwise.
    pub(in crate::engine) fn take(&self, batch: Batch) -> Option<Batch> {
        if RingTarget::of(batch.target_ref()).is_none_or(|target| target.file().suits_rings()) {
            return Some(batch);
        }
        match self.0.get_or_init(|| DirectThreads::start(THREADS).map_err(|error| error.to_string())) {
            Ok(threads) => threads.submit(batch),
            Err(error) => {
                let message = format!("there is no thread for a file that rings cannot read: {error}");
                batch.fail(&Error::new(ErrorKind::ResourceLimit).with_message(message));
            }
        }
        None
    }
}
