//! Rings that tokio-uring drives. This module alone names that crate and the release of io-uring that comes with it.
//!
//! Its operations are built here and carry nothing but a number: what the kernel may touch lies in a
//! [`Worker`](super::ring::Worker) that is made before the runtime and outlives it. tokio-uring 0.5 frees an operation's
//! data before it has cancelled it, so nothing may depend on that data.

mod bell;
mod fixed;
mod operations;
mod setup;
mod thread;

use std::fmt;
use std::sync::mpsc;

use warpio_core::engine::{Batch, Engine};

use super::ring::{Entrance, RingOptions, Unavailable};

/// Dedicated threads, each with a tokio-uring runtime of its own. Takes batches on
/// [`RingTarget`](super::RingTarget)s and [`OpenFile`](super::OpenFile)s.
///
/// When the engine is dropped, its threads finish what was submitted and end; dropping does not wait for that.
pub struct TokioUringEngine {
    entrance: Entrance,
    threads: usize,
}

impl TokioUringEngine {
    /// Starts the threads.
    ///
    /// # Errors
    /// Why not a single ring can be had; with fewer than asked for, the engine works on.
    pub fn start(options: &RingOptions) -> Result<Self, Unavailable> {
        let entrance = Entrance::default();
        let ((), threads) = super::ring::start("warpio-tokio-uring", options.ring_threads(), || {
            let (queue, options) = (entrance.queue().clone(), options.clone());
            move |started: mpsc::SyncSender<_>| thread::run(&queue, &options, &started)
        })?;
        Ok(Self { entrance, threads })
    }

    /// Whether a ring can be had.
    ///
    /// # Errors
    /// Why not.
    pub fn probe() -> Result<(), Unavailable> {
        setup::probe()
    }

    /// How many ring threads run.
    pub fn threads(&self) -> usize {
        self.threads
    }
}

impl Engine for TokioUringEngine {
    fn submit(&self, batch: Batch) {
        self.entrance.submit(batch);
    }

    fn name(&self) -> &'static str {
        "tokio-uring"
    }
}

impl Drop for TokioUringEngine {
    fn drop(&mut self) {
        // Never joined: the last handle may go on one of the threads, or on a tokio worker.
        self.entrance.queue().close();
    }
}

impl fmt::Debug for TokioUringEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokioUringEngine").field("threads", &self.threads).finish_non_exhaustive()
    }
}
