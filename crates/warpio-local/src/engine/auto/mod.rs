//! What is fastest for each segment: cached bytes by the copy threads, the rest past the page cache on the rings, both
//! at once in one transfer, and small cached reads on the spot.

mod small;

use std::fmt;
use std::sync::Arc;

use warpio_core::config::DirectIo;
use warpio_core::engine::{Batch, Direction, Engine, Gather, Target};

use super::policy::past_the_cache;
use super::posix::PosixEngine;
use super::target::OpenFile;
use small::SmallReads;

/// The engine that a runtime uses unless one is forced.
pub struct AutoEngine {
    copies: PosixEngine,
    uncached: Arc<dyn Engine>,
    small: SmallReads,
}

impl AutoEngine {
    /// `copies` for what is cached, `uncached` for the rest. The two may be the same kind.
    pub fn new(copies: PosixEngine, uncached: Arc<dyn Engine>) -> Self {
        Self { copies, uncached, small: SmallReads::default() }
    }
}

impl Engine for AutoEngine {
    fn submit(&self, batch: Batch) {
        let (Some(file), Some(first)) = (batch.target::<OpenFile>(), batch.segments().first()) else {
            return self.copies.submit(batch);
        };
        let policy = file.policy();
        match (first.direction(), policy) {
            // There is nothing below the page cache of a file in memory: `O_DIRECT` would be the same copy, by one thread.
            (Direction::Read, policy) if policy.read == DirectIo::Always && !file.is_in_memory() => {
                self.uncached.submit(past_the_cache(batch))
            }
            (Direction::Write, policy) if policy.write == DirectIo::Always => {
                self.uncached.submit(past_the_cache(batch));
            }
            (Direction::Read, policy) => match self.small.try_now(&file, batch) {
                Ok(()) => {}
                // It was asked for and is not cached.
                Err((batch, true)) if policy.read == DirectIo::Auto => self.uncached.submit(past_the_cache(batch)),
                Err((batch, _)) => self.copies.submit(batch),
            },
            (Direction::Write, _) => self.copies.submit(batch),
        }
    }

    fn gathers(&self) -> bool {
        true
    }

    fn gather(&self, target: Target, gather: Gather) {
        self.copies.gather(target, gather);
    }

    /// The engine for uncached segments, whether any was needed or not.
    fn name(&self) -> &'static str {
        self.uncached.name()
    }
}

impl fmt::Debug for AutoEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AutoEngine")
            .field("copies", &self.copies)
            .field("uncached", &self.uncached)
            .finish_non_exhaustive()
    }
}
