//! Threads that call `pread` and `pwrite`: works everywhere, and is the fastest way to cached bytes.

mod worker;

use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use warpio_core::engine::{Batch, Engine, FairQueue, Segment, Target};

/// A fixed number of threads that take segments by turns. When the engine is dropped, they finish what was submitted
/// and end.
pub struct PosixEngine {
    shared: Arc<Shared>,
    threads: usize,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: FairQueue,
    idle: usize,
    closed: bool,
}

impl PosixEngine {
    /// Starts `threads` threads, at least one.
    ///
    /// # Errors
    /// What the system says when not a single thread can be had; with fewer than asked for, the engine works on.
    pub fn start(threads: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut started = 0;
        for n in 0..threads.max(1) {
            let worker = shared.clone();
            let thread = std::thread::Builder::new().name(format!("warpio-io-{n}")).spawn(move || worker::run(&worker));
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until a segment is there; `None` once the engine was dropped and nothing is left.
    fn next(&self) -> Option<(Target, Segment)> {
        let mut state = self.lock();
        loop {
            if let Some(next) = state.queue.pop() {
                return Some(next);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

impl Engine for PosixEngine {
    fn submit(&self, batch: Batch) {
        let new = batch.segments().len();
        let sleepers = {
            let mut state = self.shared.lock();
            state.queue.push(batch);
            state.idle.min(new)
        };
        match sleepers {
            0 => {}
            1 => self.shared.wake.notify_one(),
            _ => self.shared.wake.notify_all(),
        }
    }

    fn name(&self) -> &'static str {
        "posix"
    }
}

impl Drop for PosixEngine {
    fn drop(&mut self) {
        // Never joined: the last handle may go on one of the threads, or on a tokio worker.
        self.shared.lock().closed = true;
        self.shared.wake.notify_all();
    }
}

impl fmt::Debug for PosixEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PosixEngine").field("threads", &self.threads).finish_non_exhaustive()
    }
}
