//! One thread per device that turns events into calls.
//!
//! It asks events whether they have happened, instead of having the device tell: a host callback takes three times as
//! long and never comes after an error of the context, and a flag in mapped memory costs a second command per copy
//! (`docs/decisions/`).

mod lanes;
mod pace;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Thread;
use std::time::Instant;

use warpio_core::{DeviceEvent, Error, ErrorKind, Result, WatchDone};

use crate::context::{Context, lock};
use crate::earlier::on_idle;
use lanes::{Finished, Lanes, Watch};
use pace::{Next, Pace};

/// The thread that watches a device's events. It ends when this is dropped and everything watched has ended.
pub(crate) struct Reactor {
    shared: Arc<Shared>,
    thread: Thread,
}

struct Shared {
    context: Arc<Context>,
    arrivals: Mutex<Vec<Watch>>,
    /// How many arrivals there are, for a spinning reactor to see without the lock.
    waiting: AtomicUsize,
    /// The reactor looks again soon by itself, and is not to be woken.
    napping: AtomicBool,
    closed: AtomicBool,
}

impl Reactor {
    pub(crate) fn start(context: &Arc<Context>) -> Result<Self> {
        let shared = Arc::new(Shared {
            context: context.clone(),
            arrivals: Mutex::default(),
            waiting: AtomicUsize::new(0),
            napping: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        });
        let on_thread = shared.clone();
        let name = format!("warpio-{}", context.id());
        let spawned = std::thread::Builder::new().name(name).spawn(move || on_thread.run());
        let spawned = spawned.map_err(|error| Error::new(ErrorKind::ResourceLimit).with_cause(error))?;
        Ok(Self { shared, thread: spawned.thread().clone() })
    }

    /// Calls `done` when `event` has happened or its context is lost; at once, if that is so already.
    pub(crate) fn watch(&self, event: DeviceEvent, done: WatchDone) {
        match event.is_done() {
            Ok(false) => {}
            Ok(true) => return done(Ok(())),
            Err(error) if is_final(&error) => return done(Err(error)),
            Err(_) => {}
        }
        let watch = Watch { event, done, since: Instant::now() };
        {
            let mut arrivals = lock(&self.shared.arrivals);
            arrivals.push(watch);
            self.shared.waiting.store(arrivals.len(), Ordering::Release);
        }
        // Read after the lock was held: a reactor that took the arrivals before this one came, and sleeps since, had
        // cleared the flag by then.
        if !self.shared.napping.load(Ordering::Relaxed) {
            self.thread.unpark();
        }
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Whether no work touches memory any more after this error of an event.
fn is_final(error: &Error) -> bool {
    // Without a device, in a forked child, nothing does either.
    matches!(error.kind(), ErrorKind::DeviceLost | ErrorKind::NoDevice)
}

impl Shared {
    fn run(&self) {
        if let Err(error) = self.context.adopt_thread() {
            tracing::warn!(%error, "the reactor's thread does not have the context");
        }
        precise_naps();
        let start = Instant::now();
        let (mut lanes, mut pace) = (Lanes::new(start), Pace::new(start));
        let mut finished = Vec::new();
        loop {
            let closed = self.closed.load(Ordering::Acquire);
            self.take_arrivals(&mut lanes, &mut pace);
            if lanes.len() > 0 {
                lanes.poll(Instant::now(), &mut finished);
                self.tell(&mut pace, &mut finished);
            }
            match pace.next(Instant::now(), lanes.len()) {
                Next::Spin => std::hint::spin_loop(),
                Next::Nap(time) => {
                    self.napping.store(true, Ordering::Relaxed);
                    std::thread::park_timeout(time);
                    self.napping.store(false, Ordering::Relaxed);
                }
                Next::Sleep if closed && self.waiting.load(Ordering::Acquire) == 0 => return,
                Next::Sleep => std::thread::park(),
            }
        }
    }

    fn take_arrivals(&self, lanes: &mut Lanes, pace: &mut Pace) {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return;
        }
        let arrivals = {
            let mut arrivals = lock(&self.arrivals);
            self.waiting.store(0, Ordering::Release);
            std::mem::take(&mut *arrivals)
        };
        for watch in arrivals {
            pace.arrived(watch.since);
            lanes.push(watch);
        }
    }

    /// Makes the calls of one round, with no lock held.
    fn tell(&self, pace: &mut Pace, finished: &mut Vec<Finished>) {
        let now = Instant::now();
        for Finished { watch, result, latency } in finished.drain(..) {
            pace.completed(now, latency);
            match result {
                Err(error) if !is_final(&error) => self.tell_when_idle(watch, error),
                result => call(watch.done, result),
            }
        }
    }

    /// The driver cannot tell whether the event has happened. Its work has ended when all of the context's has.
    fn tell_when_idle(&self, watch: Watch, error: Error) {
        tracing::warn!(%error, "an event cannot be asked; waiting for the whole device");
        let done = Arc::new(Mutex::new(Some(watch.done)));
        let later = done.clone();
        let waits = on_idle(&self.context, move |_| {
            if let Some(done) = lock(&later).take() {
                call(done, Err(error));
            }
        });
        if let Err(error) = waits {
            // Whoever waits would be told of memory that may still be written: rather never.
            tracing::error!(%error, "no thread to wait for the device; a transfer hangs and leaks its memory");
            std::mem::forget(done);
        }
    }
}

/// A call runs code of others, which must not end the reactor.
fn call(done: WatchDone, result: Result<()>) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| done(result))).is_err() {
        tracing::error!("a panic in a call that an event led to");
    }
}

/// Lets naps of this thread end on time; the kernel's default slack of 50 µs would double them.
fn precise_naps() {
    const SLACK_NS: libc::c_ulong = 1000;
    // SAFETY: sets a number of the calling thread. Refused, naps are longer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK_NS) };
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor").field("context", &self.shared.context).finish_non_exhaustive()
    }
}
