//! One thread for releases that may block: unpinning memory, destroying streams and contexts. Buffers are dropped on
//! reactor, ring and tokio threads, where nothing may block.

use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};

use warpio_core::{Error, ErrorKind, Result};

use crate::driver::Driver;

type Job = Box<dyn FnOnce() + Send>;

static JANITOR: OnceLock<std::result::Result<Sender<Job>, String>> = OnceLock::new();

/// Starts the thread, if it does not run yet.
pub(crate) fn start() -> Result<()> {
    sender().map(drop)
}

fn sender() -> Result<&'static Sender<Job>> {
    let started = JANITOR.get_or_init(|| {
        let (sender, jobs) = channel();
        let thread = std::thread::Builder::new().name("warpio-release".into()).spawn(move || run(&jobs));
        thread.map(|_| sender).map_err(|error| error.to_string())
    });
    started.as_ref().map_err(|reason| {
        let message = format!("the thread that releases device memory cannot be started: {reason}");
        Error::new(ErrorKind::ResourceLimit).with_message(message)
    })
}

fn run(jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
            tracing::error!("a panic while device memory was released");
        }
        // cudarc leaves contexts current on the threads that drop its objects.
        if let Ok(driver) = Driver::get() {
            // SAFETY: null makes no context current.
            unsafe { (driver.cuCtxSetCurrent)(std::ptr::null_mut()) };
        }
    }
}

/// Runs `job` on the thread. In a forked child, which has neither the thread nor a device, nothing is released.
pub(crate) fn later(job: impl FnOnce() + Send + 'static) {
    match sender() {
        _ if Driver::get().is_err() => std::mem::forget(job),
        Ok(sender) => drop(sender.send(Box::new(job))),
        Err(_) => job(),
    }
}

/// Blocks until everything that was dropped before this call has been released: pinned memory, streams and contexts
/// are released by a thread of their own. For programs that measure what is free.
pub fn wait_for_releases() {
    if Driver::get().is_err() {
        return;
    }
    let (done, wait) = channel();
    later(move || {
        let _ = done.send(());
    });
    // An error means that the thread is gone, and with it what it would have released.
    let _ = wait.recv();
}
