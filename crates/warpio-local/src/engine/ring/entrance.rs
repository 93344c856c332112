//! The way of a batch to the rings, and around them.

use std::sync::{Arc, OnceLock};

use warpio_core::engine::{Batch, Engine};
use warpio_core::{Error, ErrorKind};

use super::queue::Queue;
use super::target::{Mode, RingTarget};
use crate::engine::DirectThreads;

/// As many as there may be reads and writes in flight of files that no ring may touch.
const THREADS: usize = 16;

/// Where batches enter an engine.
#[derive(Debug, Default)]
pub(in crate::engine) struct Entrance {
    queue: Arc<Queue>,
    /// Threads for files that do not suit rings, started when the first one comes.
    threads: OnceLock<Result<DirectThreads, String>>,
}

impl Entrance {
    /// The queue of the ring threads.
    pub(in crate::engine) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Takes a batch.
    pub(in crate::engine) fn submit(&self, batch: Batch) {
        match RingTarget::of(batch.target_ref()) {
            Some(target) if !target.file().suits_rings() => self.go_around(batch),
            Some(target) if target.mode() == Mode::Direct && !target.file().is_direct_at_hand() => {
                self.open_first(batch, target);
            }
            _ => self.queue.submit(batch),
        }
    }

    fn go_around(&self, batch: Batch) {
        match self.threads.get_or_init(|| DirectThreads::start(THREADS).map_err(|error| error.to_string())) {
            Ok(threads) => threads.submit(batch),
            Err(error) => {
                let message = format!("there is no thread for a file that rings cannot read: {error}");
                batch.fail(&Error::new(ErrorKind::ResourceLimit).with_message(message));
            }
        }
    }

    /// Opening the file for direct I/O may wait for its server, which neither the caller nor a ring thread must.
    fn open_first(&self, batch: Batch, target: RingTarget) {
        let expected = self.queue.expect();
        // If there is no thread, the batch comes back by the drop of the closure, through the page cache.
        let mut waiting = Waiting { queue: self.queue.clone(), batch: Some(batch), target };
        let opened = std::thread::Builder::new().name("warpio-open".into()).spawn(move || {
            waiting.target.file().direct();
            waiting.go(Mode::Direct);
            drop(expected);
        });
        if let Err(error) = opened {
            tracing::debug!(%error, "no thread to open a file for direct I/O; it goes through the page cache");
        }
    }
}

/// A batch that is submitted later, and at the latest when this is dropped.
struct Waiting {
    queue: Arc<Queue>,
    batch: Option<Batch>,
    target: RingTarget,
}

impl Waiting {
    fn go(&mut self, mode: Mode) {
        if let Some(batch) = self.batch.take() {
            let target = Arc::new(RingTarget::new(self.target.file().clone(), mode));
            self.queue.submit(Batch::new(target, batch.into_parts().1));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.go(Mode::Buffered);
    }
}
