//! One thread for releases that may block: deregistering files and memory, destroying batches, closing the driver.
//! Handles are dropped on tokio, reactor and I/O threads, where nothing may block.
//!
//! It works in order. Whatever is registered holds the driver, so that the driver is closed behind it.

use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::guard;

type Job = Box<dyn FnOnce() + Send>;

static JANITOR: OnceLock<Result<Sender<Job>, String>> = OnceLock::new();

/// Starts the thread, if it does not run yet.
///
/// # Errors
/// What the system says.
pub(crate) fn start() -> Result<(), String> {
    sender().map(drop)
}

fn sender() -> Result<&'static Sender<Job>, String> {
    let started = JANITOR.get_or_init(|| {
        let (sender, jobs) = channel();
        let thread = std::thread::Builder::new().name("warpio-cufile-release".into()).spawn(move || run(&jobs));
        thread.map(|_| sender).map_err(|error| error.to_string())
    });
    started.as_ref().map_err(Clone::clone)
}

fn run(jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
            tracing::error!("a panic while something of cuFile was released");
        }
    }
}

/// Runs `job` on the thread. In a forked child, which has neither the thread nor the driver, nothing is released.
pub(crate) fn later(job: impl FnOnce() + Send + 'static) {
    match sender() {
        _ if guard::is_child() => std::mem::forget(job),
        Ok(sender) => drop(sender.send(Box::new(job))),
        // Without the thread, the driver was not opened, and there is nothing to release.
        Err(_) => std::mem::forget(job),
    }
}

/// Blocks until everything that was dropped before this call has been released.
pub fn wait_for_releases() {
    let (done, wait) = channel();
    later(move || {
        let _ = done.send(());
    });
    // An error means that nothing is released here at all.
    let _ = wait.recv();
}
