//! Threads that call `pread` and `pwrite`: works everywhere, and is the fastest way to cached bytes.

mod cached;
mod copies;
mod credits;
mod direct;
mod gather;
mod queue;
mod read;
mod sort;
mod worker;
mod write;

use std::fmt;
use std::io;
use std::sync::Arc;

use warpio_core::config::DirectIo;
use warpio_core::engine::{Batch, Engine, Gather, LanePool, Target};

use super::target::OpenFile;
use queue::Queue;

pub(crate) use credits::Credits;
pub use direct::DirectThreads;
pub(super) use queue::FileWrites;

/// As much as keeps a PCIe 5 link full while the next copy is prepared (`docs/results.md`).
const COPIES_IN_FLIGHT: usize = 48 << 20;

/// A fixed number of threads that take segments by turns. When the engine is dropped, they finish what was submitted
/// and end.
pub struct PosixEngine {
    shared: Arc<Shared>,
    threads: usize,
}

#[derive(Debug)]
struct Shared {
    queue: Queue,
    credits: Arc<Credits>,
    /// Reads what is not cached of files that leave the choice to us.
    uncached: Option<Arc<dyn Engine>>,
    threads: usize,
    /// For what `uncached` reads of many ranges.
    gather_lanes: Arc<LanePool>,
}

impl Shared {
    /// The engine that reads what is not cached of a file, if there is one and the file leaves the choice to us.
    fn uncached_of(&self, file: &OpenFile) -> Option<&Arc<dyn Engine>> {
        self.uncached.as_ref().filter(|_| file.policy().read == DirectIo::Auto && file.cache().can_miss())
    }
}

impl PosixEngine {
    /// Starts `threads` threads, at least one.
    ///
    /// # Errors
    /// What the system says when not a single thread can be had; with fewer than asked for, the engine works on.
    pub fn start(threads: usize) -> io::Result<Self> {
        Self::start_beside(threads, None)
    }

    /// As [`start`](Self::start), leaving to `uncached` what is not cached of files whose
    /// [policy](super::DirectPolicy) is `Auto`.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_beside(threads: usize, uncached: Option<Arc<dyn Engine>>) -> io::Result<Self> {
        let credits = Credits::new(COPIES_IN_FLIGHT);
        let threads = threads.max(1);
        let gather_lanes = Arc::default();
        let shared = Arc::new(Shared { queue: Queue::default(), credits, uncached, threads, gather_lanes });
        let mut started = 0;
        for n in 0..threads {
            let worker = shared.clone();
            let thread =
                std::thread::Builder::new().name(format!("warpio-io-{n}")).spawn(move || worker::run(&worker, n));
            match thread {
                Ok(_) => started += 1,
                Err(error) if started == 0 => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, started, "fewer I/O threads than asked for");
                    break;
                }
            }
        }
        Ok(Self { shared, threads: started })
    }

    /// How many threads run.
    pub fn threads(&self) -> usize {
        self.threads
    }
}

impl Engine for PosixEngine {
    fn submit(&self, batch: Batch) {
        match sort::pays(&batch, &self.shared) {
            true => self.shared.queue.submit_unsorted(batch),
            false => self.shared.queue.submit(batch),
        }
    }

    fn gathers(&self) -> bool {
        true
    }

    fn gather(&self, target: Target, gather: Gather) {
        self.shared.queue.submit_gather(target, gather);
    }

    fn name(&self) -> &'static str {
        "posix"
    }
}

impl Drop for PosixEngine {
    fn drop(&mut self) {
        // Never joined: the last handle may go on one of the threads, or on a tokio worker.
        self.shared.queue.close();
    }
}

impl fmt::Debug for PosixEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PosixEngine").field("threads", &self.threads).finish_non_exhaustive()
    }
}
