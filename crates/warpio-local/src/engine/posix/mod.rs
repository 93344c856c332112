//! Threads that call `pread` and `pwrite`: works everywhere, and is the fastest way to cached bytes.

mod credits;
mod direct;
mod queue;
mod read;
mod worker;
mod write;

use std::fmt;
use std::io;
use std::sync::Arc;

use warpio_core::engine::{Batch, Engine};

use credits::Credits;
use queue::{Queue, Role};

pub use direct::DirectThreads;
pub(super) use queue::FileWrites;

/// As much as keeps a PCIe 5 link full while the next copy is prepared (`docs/results.md`).
const COPIES_IN_FLIGHT: usize = 24 << 20;

/// Threads that rest until all others wait for one file system or device: three for the next one to stop answering, and
/// one for those that answer.
const MIN_SPARES: usize = 4;

/// A fixed number of threads that take segments by turns, and some that rest until storage or a device keeps all of
/// those waiting. When the engine is dropped, they finish what was submitted
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
        let shared = Arc::new(Shared { queue: Queue::default(), credits, uncached, threads: threads.max(1) });
        let threads = threads.max(1);
        let start = |name: String, worker: usize, role: Role| {
            let shared = shared.clone();
            std::thread::Builder::new().name(name).spawn(move || worker::run(&shared, worker, role)).map(drop)
        };
        let mut started = 0;
        for n in 0..threads {
            match start(format!("warpio-io-{n}"), n, Role::Steady) {
                Ok(()) => started += 1,
                Err(error) if started == 0 => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, started, "fewer I/O threads than asked for");
                    break;
                }
            }
        }
        for n in 0..MIN_SPARES.max(threads.div_ceil(3)) {
            if let Err(error) = start(format!("warpio-spare-{n}"), threads + n, Role::Spare) {
                tracing::debug!(%error, "fewer spare threads, for when storage stops answering");
                break;
            }
        }
        Ok(Self { shared, threads: started })
    }

    /// How many threads run, apart from those that rest.
    pub fn threads(&self) -> usize {
        self.threads
    }
}

impl Engine for PosixEngine {
    fn submit(&self, batch: Batch) {
        self.shared.queue.submit(batch);
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
