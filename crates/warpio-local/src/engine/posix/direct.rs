//! Threads that read and write past the page cache: what the rings do, where there are none.

use std::fmt;
use std::io;
use std::sync::{Arc, mpsc};
use std::task::{Wake, Waker};

use warpio_core::engine::{Batch, Direction, Engine};

use crate::engine::ring::{FixedBuffers, Op, Outlook, Queue, Worker};

/// Dedicated threads, each with one read or write in flight. Takes batches on
/// [`RingTarget`](crate::engine::RingTarget)s and [`OpenFile`](crate::engine::OpenFile)s.
///
/// When the engine is dropped, its threads finish what was submitted and end; dropping does not wait for that.
pub struct DirectThreads {
    queue: Arc<Queue>,
    threads: usize,
}

impl DirectThreads {
    /// Starts `threads` threads, at least one.
    ///
    /// # Errors
    /// What the system says when not a single thread can be had; with fewer than asked for, the engine works on.
    pub fn start(threads: usize) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let mut started = 0;
        for n in 0..threads.max(1) {
            let shared = queue.clone();
            let (joined, has_joined) = mpsc::sync_channel(1);
            let serve = move || serve(&shared, &joined);
            match std::thread::Builder::new().name(format!("warpio-direct-{n}")).spawn(serve) {
                Ok(_) => {
                    started += 1;
                    // A queue that nobody serves takes nothing, so that one has to be there before the first batch.
                    if started == 1 {
                        has_joined.recv().map_err(io::Error::other)?;
                    }
                }
                Err(error) if started == 0 => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, started, "fewer threads for direct I/O than asked for");
                    break;
                }
            }
        }
        Ok(Self { queue, threads: started })
    }
}

fn serve(queue: &Arc<Queue>, joined: &mpsc::SyncSender<()>) {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let member = queue.join(waker, 1);
    // Nobody waits for those after the first.
    let _ = joined.send(());
    let mut worker = Worker::new(queue, member, 1, FixedBuffers::default());
    loop {
        let outlook = worker.turn(false);
        while let Some(op) = worker.next_op() {
            worker.complete(op.token, carry_out(op));
        }
        match outlook {
            Outlook::Busy | Outlook::Soon => {}
            Outlook::Idle => std::thread::park(),
            Outlook::End => return,
        }
    }
}

/// The bytes moved, or a negative error number.
fn carry_out(op: Op) -> i32 {
    let (len, offset) = (op.len as usize, op.offset as libc::off_t);
    // SAFETY: memory and descriptor of an operation stay until its result is given back.
    let n = unsafe {
        match op.direction {
            Direction::Read => libc::pread(op.fd, op.ptr.cast(), len, offset),
            Direction::Write => libc::pwrite(op.fd, op.ptr.cast_const().cast(), len, offset),
        }
    };
    // One call moves less than 2 GiB.
    i32::try_from(n)
        .ok()
        .filter(|&n| n >= 0)
        .unwrap_or_else(|| -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Engine for DirectThreads {
    fn submit(&self, batch: Batch) {
        self.queue.submit(batch);
    }

    fn name(&self) -> &'static str {
        "posix"
    }
}

impl Drop for DirectThreads {
    fn drop(&mut self) {
        // Never joined: the last handle may go on one of the threads, or on a tokio worker.
        self.queue.close();
    }
}

impl fmt::Debug for DirectThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectThreads").field("threads", &self.threads).finish_non_exhaustive()
    }
}
