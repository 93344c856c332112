//! One ring thread's part of the work, without the ring.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use warpio_core::engine::{Direction, Lanes, Segment};
use warpio_core::{ErrorKind, Result, Slot};

use super::fixed::FixedBuffers;
use super::job::{Job, Op};
use super::outgoing::copy_out;
use super::plan::widened_len;
use super::queue::{Outlook, Queue, Report, Work};
use super::slab::Slab;
use super::slots::Parking;
use super::target::{Mode, RingTarget};

/// The segments that one ring thread has taken, and what comes next for each.
///
/// It must not be dropped while the kernel works for it; if that happens all the same, it leaks what the kernel may
/// still touch.
pub(in crate::engine) struct Worker {
    queue: Arc<Queue>,
    member: usize,
    depth: usize,
    jobs: Slab<Job>,
    /// Jobs whose next operation has to be submitted.
    ready: VecDeque<u32>,
    /// Operations handed out whose result is not in.
    in_kernel: usize,
    parking: Parking,
    lanes: Lanes,
    fixed: FixedBuffers,
    report: Report,
    /// Jobs that have ended and are still to be sent on.
    done: Vec<(Job, io::Result<usize>)>,
    taken: Vec<Work>,
    /// Small operations that have finished since the last look at the queue.
    small_finished: usize,
    /// [`Queue::news`] before that look.
    seen: usize,
}

/// Operations of up to so many bytes are small. Larger ones come from transfers, whose next segments wait already.
const SMALL: usize = 64 << 10;

impl Worker {
    /// The part of thread `member` of those that share `queue`, with room for `depth` operations.
    pub(in crate::engine) fn new(queue: &Arc<Queue>, member: usize, depth: usize, fixed: FixedBuffers) -> Self {
        Self {
            queue: queue.clone(),
            member,
            depth,
            jobs: Slab::with_capacity(depth),
            ready: VecDeque::with_capacity(depth),
            in_kernel: 0,
            parking: Parking::new(queue, member),
            lanes: Lanes::default(),
            fixed,
            report: Report::default(),
            done: Vec::new(),
            taken: Vec::with_capacity(depth),
            small_finished: 0,
            seen: 0,
        }
    }

    /// Takes new segments, as far as there is room. After [`Outlook::Busy`], [`next_op`](Self::next_op) has something.
    /// [`Outlook::Soon`] is for threads that `can_look` for more without sleeping.
    pub(in crate::engine) fn turn(&mut self, can_look: bool) -> Outlook {
        loop {
            while let Some((work, slot)) = self.parking.arrived() {
                self.report.waiting.push((work.ticket.class, false));
                self.slot_came(work, slot);
            }
            let room = self.depth.saturating_sub(self.jobs.len());
            let holds = !self.jobs.is_empty() || !self.parking.is_empty();
            let mut taken = std::mem::take(&mut self.taken);
            self.seen = self.queue.news();
            // Whoever waited for several small operations often has more at once. For one at a time it does not pay: to
            // look for the next one would slow whoever is to send it.
            let several = match std::mem::take(&mut self.small_finished) {
                0 => false,
                1 => self.in_kernel > 0,
                _ => true,
            };
            let soon = can_look && several;
            let outlook = self.queue.exchange(self.member, &mut self.report, room, holds, soon, &mut taken);
            taken.drain(..).for_each(|work| self.start(work));
            self.taken = taken;
            if !self.ready.is_empty() {
                return Outlook::Busy;
            }
            // What was taken may have been skipped, and a slot may have come before this thread counted as resting.
            if outlook != Outlook::Busy && !self.parking.has_rung() {
                return outlook;
            }
        }
    }

    /// Whether something has come since the last [`turn`](Self::turn).
    pub(in crate::engine) fn has_news(&self) -> bool {
        self.parking.has_rung() || self.queue.news() != self.seen
    }

    /// The next operation to submit. Its memory and its descriptor stay until its result is given to
    /// [`complete`](Self::complete).
    pub(in crate::engine) fn next_op(&mut self) -> Option<Op> {
        let token = self.ready.pop_front()?;
        let job = self.jobs.get_mut(token)?;
        job.ticket.ask();
        let op = job.op(token, &self.fixed);
        self.in_kernel += 1;
        Some(op)
    }

    /// Operations handed out whose result is not in.
    pub(in crate::engine) fn in_kernel(&self) -> usize {
        self.in_kernel
    }

    /// Takes the result of an operation: bytes, or a negative error number.
    pub(in crate::engine) fn complete(&mut self, token: u32, result: i32) {
        if let Some((job, result)) = self.absorb(token, result) {
            self.finish(job, result);
        }
    }

    /// As [`complete`](Self::complete), but what is large is not sent on before [`deliver`](Self::deliver) is called:
    /// after the next operations were submitted, as storage idles until then.
    pub(in crate::engine) fn complete_soon(&mut self, token: u32, result: i32) {
        match self.absorb(token, result) {
            Some((job, result)) if job.len() > SMALL => self.done.push((job, result)),
            Some((job, result)) => self.finish(job, result),
            None => {}
        }
    }

    /// Sends on what [`complete_soon`](Self::complete_soon) left.
    pub(in crate::engine) fn deliver(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        done.drain(..).for_each(|(job, result)| self.finish(job, result));
        self.done = done;
    }

    /// The job that has ended with this result, and how.
    fn absorb(&mut self, token: u32, result: i32) -> Option<(Job, io::Result<usize>)> {
        let job = self.jobs.get_mut(token)?;
        self.in_kernel -= 1;
        let answer = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
        let ControlFlow::Break(result) = job.absorb(answer) else {
            self.ready.push_back(token);
            return None;
        };
        let job = self.jobs.remove(token)?;
        self.small_finished += usize::from(job.len() <= SMALL);
        self.report.finished.push(job.ticket);
        Some((job, result))
    }

    fn finish(&mut self, job: Job, result: io::Result<usize>) {
        let lanes = &mut self.lanes;
        guarded(|| job.finish(result, lanes));
    }

    /// The ring is gone and with it all that the kernel did for this worker, although it never said so: results are
    /// missing because the thread panicked.
    ///
    /// # Safety
    /// The kernel touches no memory any more that an operation of [`next_op`](Self::next_op) named.
    pub(in crate::engine) unsafe fn kernel_is_done(&mut self) {
        self.in_kernel = 0;
    }

    fn start(&mut self, work: Work) {
        if work.segment.is_moot() {
            self.report.finished.push(work.ticket);
            return guarded(|| {
                drop(work.slot);
                work.segment.skip();
            });
        }
        let Some(target) = RingTarget::of(&work.target) else { return self.refuse(work) };
        if work.slot.is_some() {
            return self.begin(work, target);
        }
        let Some(len) = slot_len(&work.segment, &target) else { return self.begin(work, target) };
        let pool = work.segment.device().staging();
        match pool.try_acquire(len) {
            Some(slot) => self.with_slot(work, target, slot),
            None => {
                let (class, pool) = (work.ticket.class, pool.clone());
                match self.parking.wait(work, pool, len) {
                    Some((work, slot)) => self.slot_came(work, slot),
                    None => self.report.waiting.push((class, true)),
                }
            }
        }
    }

    fn slot_came(&mut self, work: Work, slot: Result<Slot>) {
        if work.segment.is_moot() {
            drop(slot);
            return self.start(work);
        }
        let Some(target) = RingTarget::of(&work.target) else { return self.refuse(work) };
        match slot {
            Ok(slot) => self.with_slot(work, target, slot),
            Err(error) => {
                self.report.finished.push(work.ticket);
                guarded(|| work.segment.finish(Err(error)));
            }
        }
    }

    fn with_slot(&mut self, work: Work, target: RingTarget, slot: Slot) {
        if work.segment.direction() == Direction::Read || work.segment.host_memory().is_some() {
            return self.begin(Work { slot: Some(slot), ..work }, target);
        }
        match self.lanes.get(&work.segment.device().clone()) {
            Ok(lane) => {
                let queue = &self.queue;
                guarded(|| copy_out(queue, work.ticket, work.target, work.segment, lane, slot));
            }
            Err(error) => {
                self.report.finished.push(work.ticket);
                guarded(|| {
                    drop(slot);
                    work.segment.finish(Err(error));
                });
            }
        }
    }

    fn begin(&mut self, work: Work, target: RingTarget) {
        match Job::new(work.ticket, target, work.segment, work.slot) {
            Ok(job) => {
                let token = self.jobs.insert(job);
                self.ready.push_back(token);
            }
            Err(segment) => self.refuse(Work { segment, slot: None, ..work }),
        }
    }

    fn refuse(&mut self, work: Work) {
        self.report.finished.push(work.ticket);
        let error = work.segment.error(ErrorKind::InvalidInput);
        guarded(|| work.segment.finish(Err(error.with_message("this engine serves open files only"))));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.deliver();
        self.queue.leave(self.member, &self.report.finished);
        if self.in_kernel > 0 {
            tracing::error!(
                operations = self.in_kernel,
                "a ring thread ends while the kernel works for it; memory is leaked"
            );
            std::mem::forget(std::mem::replace(&mut self.jobs, Slab::with_capacity(0)));
        }
    }
}

/// How long a slot the segment has to pass through, if it has to.
fn slot_len(segment: &Segment, target: &RingTarget) -> Option<usize> {
    let (offset, len) = (segment.offset(), segment.len());
    let read_direct = target.mode() == Mode::Direct && segment.direction() == Direction::Read;
    let align = if read_direct { target.file().direct().map(|(_, align)| align) } else { None };
    // Wider than any slot, it goes through the page cache.
    let widened = align.and_then(|align| widened_len(align, offset, len));
    let widened = widened.filter(|&len| len <= segment.device().staging().slot_len());
    match (segment.host_memory(), align) {
        (None, _) => Some(widened.unwrap_or(len)),
        (Some(memory), Some(align)) if !align.admits(memory.as_ptr().addr(), offset, len as u64) => widened,
        _ => None,
    }
}

/// Runs what may call wakers and callbacks, which are the caller's code and may panic; the thread serves others too.
fn guarded(call: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(call)).is_err() {
        tracing::error!("a waker or callback of a transfer panicked on a ring thread");
    }
}
