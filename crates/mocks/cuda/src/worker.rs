//! The thread of a stream: takes one operation after the other and carries it out.

use std::{sync::Arc, thread, time::Duration};

use parking_lot::{Condvar, MutexGuard};

use crate::{
    codes::Result,
    copy::RawCopy,
    fill::RawFill,
    launch::RawLaunch,
    queue::{HostFunction, Op, Queued},
    state::{Gpu, PROGRESS, State, in_host_function, lock},
    stream::Stream,
    table::Handle,
};

/// How often memory is looked at that a stream waits for: nobody tells when it is written.
const POLL: Duration = Duration::from_micros(50);

/// What comes next for a stream.
enum Step {
    /// Something was settled under the lock.
    Again,
    Sleep(Arc<Condvar>),
    Poll(Arc<Condvar>),
    Delay(Duration),
    Run(Queued, Job),
    /// The operation needed no job.
    Settled(Queued, Result),
    Exit,
}

/// An operation with its addresses resolved, to be run outside the lock.
enum Job {
    Copies(Vec<RawCopy>),
    Fill(RawFill),
    Kernel(RawLaunch),
    Host(HostFunction, u64),
}

impl Job {
    /// Whether the GPU touches memory meanwhile; a host function is the program's own.
    fn touches_memory(&self) -> bool {
        !matches!(self, Self::Host(..))
    }

    fn run(&self) -> Result {
        match self {
            Self::Copies(copies) => {
                copies.iter().for_each(RawCopy::run);
                Ok(())
            }
            Self::Fill(fill) => {
                fill.run();
                Ok(())
            }
            Self::Kernel(launch) => launch.run(),
            Self::Host(function, data) => {
                // SAFETY: the program gave this function to be called once with this data, on a thread of ours.
                in_host_function(|| unsafe { function(*data as *mut _) });
                Ok(())
            }
        }
    }
}

/// Runs a stream until it is destroyed and its work done.
pub(crate) fn run(handle: Handle) {
    let mut gpu = lock();
    loop {
        match gpu.step(handle) {
            Step::Again => {}
            Step::Sleep(work) => work.wait(&mut gpu),
            Step::Poll(work) => {
                work.wait_for(&mut gpu, POLL);
            }
            Step::Delay(time) => MutexGuard::unlocked(&mut gpu, || thread::sleep(time)),
            Step::Run(queued, job) => {
                let touches = job.touches_memory();
                gpu.running(handle, touches, 1);
                let outcome = MutexGuard::unlocked(&mut gpu, || job.run());
                gpu.running(handle, touches, -1);
                finish(&mut gpu, handle, &queued, outcome);
            }
            Step::Settled(queued, outcome) => finish(&mut gpu, handle, &queued, outcome),
            Step::Exit => return,
        }
    }
}

/// Ends an operation. One that failed has ended when its context is broken, so that nobody takes it for done.
fn finish(gpu: &mut Gpu, handle: Handle, queued: &Queued, outcome: Result) {
    if let Err(code) = outcome
        && let Ok(context) = gpu.streams.get(handle).map(|stream| stream.context)
    {
        gpu.break_context(context, code);
        while gpu.is_breaking(context) {
            PROGRESS.wait(gpu);
        }
    }
    gpu.end(handle, queued, outcome.is_ok());
}

impl State {
    fn step(&mut self, handle: Handle) -> Step {
        let Ok(stream) = self.streams.get_mut(handle) else {
            return Step::Exit;
        };
        let (context, device) = (stream.context, stream.device);
        let work = Arc::clone(&stream.work);
        let Some(front) = stream.queue.front_mut() else {
            if stream.destroyed {
                // Nothing is left to fail: the stream is in the table.
                let _ = self.streams.remove(handle);
                return Step::Exit;
            }
            return Step::Sleep(work);
        };
        let (op, doomed) = (front.op.clone(), front.doomed);
        if doomed || self.check_context(context).is_err() {
            return self.discard(handle);
        }
        if self.is_breaking(context) {
            return Step::Sleep(work);
        }
        if op.is_work() && !front_delayed(self.streams.get_mut(handle)) {
            let delay = self.plan.next_delay();
            if !delay.is_zero() {
                return Step::Delay(delay);
            }
        }
        match &op {
            Op::Wait(ticket) if !self.reached(*ticket) => {
                if let Ok(other) = self.streams.get_mut(ticket.stream)
                    && !other.waiters.contains(&handle)
                {
                    other.waiters.push(handle);
                }
                return Step::Sleep(work);
            }
            Op::Copies(_) if !self.pass_gate(handle) => return Step::Sleep(work),
            Op::Await(wait) => match self.resolve(wait.target, handle) {
                Ok(at) if !wait.is_met(at) => return Step::Poll(work),
                Ok(_) => {}
                Err(code) => return self.settle(handle, Err(code)),
            },
            _ => {}
        }
        if op.is_work()
            && !matches!(op, Op::Host(..))
            && let Some(code) = self.plan.sticky_due(device)
        {
            self.break_device(device, code);
            return Step::Again;
        }
        match self.prepare(op, handle) {
            Ok(None) => self.settle(handle, Ok(())),
            Ok(Some(job)) => match self.pop(handle) {
                Some(queued) => Step::Run(queued, job),
                None => Step::Again,
            },
            Err(code) => self.settle(handle, Err(code)),
        }
    }

    /// Carries out what is only bookkeeping; the rest becomes a job.
    fn prepare(&mut self, op: Op, handle: Handle) -> Result<Option<Job>> {
        Ok(Some(match op {
            Op::Copies(copies) => {
                let mut raw = Vec::with_capacity(copies.len());
                for copy in copies.iter() {
                    raw.push(copy.resolve(self, handle)?);
                }
                self.plan.shuffle(&mut raw);
                Job::Copies(raw)
            }
            Op::Fill(fill) => Job::Fill(fill.resolve(self, handle)?),
            Op::Kernel(launch) => {
                let raw = launch.resolve(self, handle)?;
                self.counters.kernels_run += 1;
                Job::Kernel(raw)
            }
            Op::Host(function, data) => {
                self.counters.host_functions_run += 1;
                Job::Host(function, data)
            }
            Op::Write(write) => {
                let at = self.resolve(write.target, handle)?;
                write.run(at);
                return Ok(None);
            }
            Op::Record(event, number) => {
                self.stamp_event(event, number);
                return Ok(None);
            }
            Op::Ready(base) => {
                if let Some(allocation) = self.device_memory.get_mut(base) {
                    allocation.ready = true;
                }
                return Ok(None);
            }
            Op::Free(base) => {
                self.free_now(base)?;
                return Ok(None);
            }
            Op::Wait(_) | Op::Await(_) => return Ok(None),
        }))
    }

    /// Whether the copy at the front may go on.
    fn pass_gate(&mut self, handle: Handle) -> bool {
        let passes = self.plan.gate.pass();
        if let Ok(stream) = self.streams.get_mut(handle) {
            stream.held = !passes;
        }
        PROGRESS.notify_all();
        passes
    }

    fn pop(&mut self, handle: Handle) -> Option<Queued> {
        let stream = self.streams.get_mut(handle).ok()?;
        let queued = stream.queue.pop_front()?;
        stream.busy = true;
        Some(queued)
    }

    /// Ends the operation at the front, which needed no job.
    fn settle(&mut self, handle: Handle, outcome: Result) -> Step {
        self.pop(handle).map_or(Step::Again, |queued| Step::Settled(queued, outcome))
    }

    /// Notes that one more stream of a context touches memory, or one fewer.
    fn running(&mut self, handle: Handle, touches: bool, change: isize) {
        if touches
            && let Ok(stream) = self.streams.get(handle)
            && let context = stream.context
        {
            self.change_running(context, change);
        }
    }

    /// Drops all work of broken contexts, before they are healed: what it used may be gone. Where an operation still runs,
    /// what is queued behind it goes when that has ended.
    pub(crate) fn discard_broken(&mut self) {
        let broken = |stream: &Stream| self.contexts.get(stream.context).is_ok_and(|context| context.broken.is_some());
        let streams: Vec<_> =
            self.streams.iter().filter(|(_, stream)| broken(stream)).map(|(handle, _)| handle).collect();
        for handle in streams {
            let Ok(stream) = self.streams.get_mut(handle) else { continue };
            if stream.busy {
                stream.queue.iter_mut().for_each(|queued| queued.doomed = true);
                continue;
            }
            for _ in 0..stream.queue.len() {
                self.discard(handle);
            }
        }
    }

    /// Drops the operation at the front: its context is broken.
    fn discard(&mut self, handle: Handle) -> Step {
        if let Some(queued) = self.pop(handle) {
            if let Op::Free(base) = queued.op {
                self.end_allocation(base);
            }
            self.end(handle, &queued, false);
        }
        Step::Again
    }

    /// Takes an operation off the books and tells all who wait for it.
    fn end(&mut self, handle: Handle, queued: &Queued, done: bool) {
        for memory in queued.op.memory() {
            self.let_go(memory);
        }
        let (copies, bytes) = queued.op.copies();
        self.counters.finished(copies, bytes, done);
        let Ok(stream) = self.streams.get_mut(handle) else {
            return;
        };
        stream.completed = queued.number;
        (stream.busy, stream.held) = (false, false);
        stream.done.notify_all();
        for waiter in std::mem::take(&mut stream.waiters) {
            if let Ok(waiter) = self.streams.get(waiter) {
                waiter.work.notify_one();
            }
        }
        PROGRESS.notify_all();
    }
}

/// Whether the operation at the front was already delayed; from now on it was.
fn front_delayed(stream: Result<&mut Stream>) -> bool {
    let front = stream.ok().and_then(|stream| stream.queue.front_mut());
    front.is_none_or(|queued| std::mem::replace(&mut queued.delayed, true))
}
