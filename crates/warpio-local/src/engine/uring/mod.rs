//! Rings that are driven directly: for many small reads, and for all that goes past the page cache.

mod bell;
mod setup;
mod thread;

use std::fmt;
use std::sync::mpsc;

use warpio_core::engine::{Batch, Engine};

use super::ring::{Entrance, RingOptions, Unavailable};
pub use setup::UringFeatures;

/// Dedicated threads, each with an io_uring of its own. Takes batches on [`RingTarget`](super::RingTarget)s and
/// [`OpenFile`](super::OpenFile)s.
///
/// When the engine is dropped, its threads finish what was submitted and end; dropping does not wait for that.
pub struct UringEngine {
    entrance: Entrance,
    threads: usize,
    features: UringFeatures,
}

impl UringEngine {
    /// Starts the threads.
    ///
    /// # Errors
    /// Why not a single ring can be had; with fewer than asked for, the engine works on.
    pub fn start(options: &RingOptions) -> Result<Self, Unavailable> {
        let entrance = Entrance::default();
        let (features, threads) = super::ring::start("warpio-uring", options.ring_threads(), || {
            let (queue, options) = (entrance.queue().clone(), options.clone());
            move |started: mpsc::SyncSender<_>| thread::run(&queue, &options, &started)
        })?;
        Ok(Self { entrance, threads, features })
    }

    /// Whether a ring can be had, and what the kernel grants it.
    ///
    /// # Errors
    /// Why not.
    pub fn probe() -> Result<UringFeatures, Unavailable> {
        setup::build(8).map(|(_, features)| features)
    }

    /// How many ring threads run.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// What the kernel granted.
    pub fn features(&self) -> UringFeatures {
        self.features
    }
}

impl Engine for UringEngine {
    fn submit(&self, batch: Batch) {
        self.entrance.submit(batch);
    }

    fn name(&self) -> &'static str {
        "io-uring"
    }
}

impl Drop for UringEngine {
    fn drop(&mut self) {
        // Never joined: the last handle may go on one of the threads, or on a tokio worker.
        self.entrance.queue().close();
    }
}

impl fmt::Debug for UringEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UringEngine")
            .field("threads", &self.threads)
            .field("features", &self.features)
            .finish_non_exhaustive()
    }
}
