//! The thread that owns a ring.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use io_uring::squeue::{Entry, Flags};
use io_uring::{IoUring, opcode, types};
use warpio_core::StagingSlab;
use warpio_core::engine::Direction;

use super::bell::Bell;
use super::setup::{self, UringFeatures};
use crate::engine::closing::leave_to_others;
use crate::engine::ring::{FixedBuffers, Op, Outlook, Queue, RingOptions, Unavailable, Worker};

/// The result of the read of the bell; jobs have smaller numbers.
const RUNG: u64 = u64::MAX;

/// How many operations are submitted before results are looked at.
const BURST: usize = 32;

/// From so many operations in flight on, results are waited for in groups of a quarter of them, but no longer than
/// [`PATIENCE_US`] for more than one: a disk that is that busy answers every few microseconds.
const MANY: usize = 16;
const PATIENCE_US: u32 = 20;
/// How long the next small operation is looked for after one has finished. To be woken for it costs about as much.
const LOOK: Duration = Duration::from_micros(50);

/// `IORING_ENTER_GETEVENTS`.
const GETEVENTS: u32 = 1;

const FOR_EVER: types::Timespec = types::Timespec::new().sec(3600);

/// Makes a ring, sends whether that went well, and serves `queue` until it is closed.
pub(super) fn run(queue: &Arc<Queue>, options: &RingOptions, started: &SyncSender<Result<UringFeatures, Unavailable>>) {
    let (result, thread) = match RingThread::new(queue, options) {
        Ok((thread, features)) => (Ok(features), Some(thread)),
        Err(error) => (Err(error), None),
    };
    // Whoever started the thread waits for this.
    let _ = started.send(result);
    if let Some(mut thread) = thread {
        leave_to_others();
        thread.serve();
    }
}

struct RingThread {
    worker: Worker,
    ring: IoUring,
    bell: Arc<Bell>,
    /// Where the bell's count is read to, while a read of it is in flight; leaked with the ring if that cannot be
    /// stopped.
    count: Box<u64>,
    armed: bool,
    /// The kernel can wait for several results, but not for long (Linux 6.12).
    patient: bool,
    results: Vec<(u64, i32)>,
}

impl RingThread {
    fn new(queue: &Arc<Queue>, options: &RingOptions) -> Result<(Self, UringFeatures), Unavailable> {
        // One more for the bell.
        let build = |depth: usize| setup::build((depth as u32 + 1).next_power_of_two());
        let ((ring, features), depth) = options.with_less_and_less(build)?;
        let bell = Arc::new(Bell::new().map_err(Unavailable::refused)?);
        // What cannot be done at once is done by threads of the kernel. They are as many as there may be operations, so
        // that those that wait for storage that does not answer cannot keep others from being done.
        let _ = ring.submitter().register_iowq_max_workers(&mut [depth as u32, 0]);
        let fixed = register(&ring, &options.fixed);
        let member = queue.join(bell.clone().into(), depth);
        let worker = Worker::new(queue, member, depth, fixed);
        let results = Vec::with_capacity(depth + 1);
        let patient = ring.params().is_feature_min_timeout();
        Ok((Self { worker, ring, bell, count: Box::new(0), armed: false, patient, results }, features))
    }

    fn serve(&mut self) {
        loop {
            let outlook = self.worker.turn(true);
            if outlook == Outlook::End {
                return;
            }
            let mut pushed = 0;
            while let Some(op) = self.worker.next_op() {
                self.push(&entry(op));
                pushed += 1;
                // What is cached is copied while it is submitted: the first results are not to wait for the last.
                if pushed % BURST == 0 {
                    self.submit();
                }
            }
            self.worker.deliver();
            match outlook {
                Outlook::Idle => {
                    // Results that came in meanwhile may be those that others wait for: they are told before a rest.
                    if self.arm() {
                        self.wait();
                    }
                }
                Outlook::Soon => self.look(),
                Outlook::Busy | Outlook::End => {}
            }
        }
    }

    /// Looks for something to do, for a moment, without sleeping.
    fn look(&mut self) {
        let end = Instant::now() + LOOK;
        while !self.worker.has_news() && Instant::now() < end {
            if self.ring.submission().taskrun() {
                return self.process();
            }
            std::hint::spin_loop();
        }
    }

    /// Puts an entry into the submission queue, and makes room there first if it is full. Returns whether it was not:
    /// else results were taken.
    fn push(&mut self, entry: &Entry) -> bool {
        let mut at_once = true;
        // SAFETY: what the entry points to lives until its result is in: the worker holds it, or `count` is meant.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            at_once = false;
            self.submit();
        }
        at_once
    }

    /// Has a read of the bell in flight. Returns whether no results were taken for it.
    fn arm(&mut self) -> bool {
        if self.armed {
            return true;
        }
        self.armed = true;
        let count: *mut u64 = &mut *self.count;
        let read = opcode::Read::new(types::Fd(self.bell.fd()), count.cast(), size_of::<u64>() as u32);
        self.push(&read.build().user_data(RUNG))
    }

    /// Submits what is queued, and takes the results that are there.
    fn submit(&mut self) {
        let entered = self.ring.submit();
        self.take_results(entered);
    }

    /// Has the kernel process what came back from below, and takes the results that are there, without waiting: whoever
    /// waits has to be armed.
    fn process(&mut self) {
        // SAFETY: nothing is submitted, and there is no argument.
        let entered = unsafe { self.ring.submitter().enter::<()>(0, 0, GETEVENTS, None) };
        self.take_results(entered);
    }

    /// Submits what is queued, waits for a result, and takes those that are there. Where many are on their way, it
    /// waits a moment for more than one, as to be woken for each costs more than a small read.
    fn wait(&mut self) {
        let in_flight = self.worker.in_kernel();
        let entered = if self.patient && in_flight >= MANY {
            let args = types::SubmitArgs::new().min_wait_usec(PATIENCE_US).timespec(&FOR_EVER);
            self.ring.submitter().submit_with_args(in_flight / 4, &args)
        } else {
            self.ring.submit_and_wait(1)
        };
        self.take_results(entered);
    }

    fn take_results(&mut self, entered: io::Result<usize>) {
        match entered {
            Ok(_) => {}
            // Interrupted, the time is over, or there is no room for results: those that are there may help.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::ETIME)) => {}
            Err(error) => {
                tracing::error!(%error, "io_uring_enter failed; trying again");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.results.extend(self.ring.completion().map(|result| (result.user_data(), result.result())));
        for (number, result) in self.results.drain(..) {
            match u32::try_from(number) {
                Ok(token) => self.worker.complete_soon(token, result),
                Err(_) => self.armed = false,
            }
        }
    }
}

impl Drop for RingThread {
    /// The kernel writes where it was told to until it says that it is done: nothing is given up before, even if this
    /// thread panics.
    fn drop(&mut self) {
        if self.armed {
            std::task::Wake::wake_by_ref(&self.bell);
        }
        let mut tries = 0;
        while (self.armed || self.worker.in_kernel() > 0) && tries < 1000 {
            let before = self.worker.in_kernel();
            self.wait();
            tries = if self.worker.in_kernel() < before { 0 } else { tries + 1 };
        }
        if self.armed {
            Box::leak(std::mem::take(&mut self.count));
        }
    }
}

/// Registers staging memory, as much as the limit of locked memory lets.
fn register(ring: &IoUring, slabs: &[StagingSlab]) -> FixedBuffers {
    for count in (1..=slabs.len()).rev() {
        let vectors: Vec<_> = slabs[..count]
            .iter()
            .map(|slab| libc::iovec { iov_base: slab.as_ptr().as_ptr().cast(), iov_len: slab.len() })
            .collect();
        // SAFETY: the slabs are memory of their length, and live as long as the handles that are returned, which the
        // worker holds as long as the ring may use them.
        match unsafe { ring.submitter().register_buffers(&vectors) } {
            Ok(()) => return FixedBuffers::new(slabs[..count].to_vec()),
            Err(error) => tracing::debug!(%error, slabs = count, "staging memory cannot be registered with the ring"),
        }
    }
    FixedBuffers::default()
}

fn entry(op: Op) -> Entry {
    let fd = types::Fd(op.fd);
    let entry = match (op.direction, op.fixed) {
        (Direction::Read, None) => opcode::Read::new(fd, op.ptr, op.len).offset(op.offset).build(),
        (Direction::Read, Some(index)) => opcode::ReadFixed::new(fd, op.ptr, op.len, index).offset(op.offset).build(),
        (Direction::Write, None) => opcode::Write::new(fd, op.ptr, op.len).offset(op.offset).build(),
        (Direction::Write, Some(index)) => opcode::WriteFixed::new(fd, op.ptr, op.len, index).offset(op.offset).build(),
    };
    let entry = entry.user_data(op.token.into());
    if op.patient { entry.flags(Flags::ASYNC) } else { entry }
}
