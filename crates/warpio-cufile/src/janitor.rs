//! One thread for releases that may block: deregistering files and memory, destroying batches, closing the driver.
//! Handles are dropped on tokio, reactor and I/O threads, where nothing may block.
//!
//! It works in order. Whatever is registered holds the driver, so that the driver is closed behind it. Once the process
//! ends, nothing is released any more: the library's own exit handlers do that, and a call beside them could crash.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, Once, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::guard;

type Job = Box<dyn FnOnce() + Send>;

static JANITOR: OnceLock<Result<Sender<Job>, String>> = OnceLock::new();
/// The process ends.
static ENDING: AtomicBool = AtomicBool::new(false);
/// Held while something is released.
static AT_WORK: Mutex<()> = Mutex::new(());

/// How long the end of the process waits for a release that is under way.
const LAST_JOB: Duration = Duration::from_secs(2);

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
        let _at_work = AT_WORK.lock().unwrap_or_else(PoisonError::into_inner);
        if ENDING.load(Ordering::SeqCst) {
            std::mem::forget(job);
        } else if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
            tracing::error!("a panic while something of cuFile was released");
        }
    }
}

/// Releases nothing any more once the process ends. To be called when the library has its exit handlers: those that come
/// later run earlier.
pub(crate) fn stop_at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler takes nothing, does not unwind, and lives as long as the process: nothing unloads it.
        if unsafe { libc::atexit(stop) } != 0 {
            tracing::debug!("cuFile may be released while the process ends");
        }
    });
}

extern "C" fn stop() {
    if guard::is_child() {
        return;
    }
    ENDING.store(true, Ordering::SeqCst);
    let began = Instant::now();
    while matches!(AT_WORK.try_lock(), Err(TryLockError::WouldBlock)) && began.elapsed() < LAST_JOB {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The thread, unless nothing is released: in a forked child, which has neither the thread nor the driver, at the end of
/// the process, and where the thread cannot be had, without which no driver is opened.
fn at_work() -> Option<&'static Sender<Job>> {
    if guard::is_child() || ENDING.load(Ordering::SeqCst) { None } else { sender().ok() }
}

/// Runs `job` on the thread.
pub(crate) fn later(job: impl FnOnce() + Send + 'static) {
    match at_work() {
        Some(sender) => drop(sender.send(Box::new(job))),
        None => std::mem::forget(job),
    }
}

/// Blocks until everything that was dropped before this call has been released. Where nothing is released any more, in a
/// forked child or at the end of the process, it does not wait.
pub fn wait_for_releases() {
    let Some(janitor) = at_work() else { return };
    let (done, wait) = channel();
    let word = move || {
        let _ = done.send(());
    };
    if janitor.send(Box::new(word)).is_ok() {
        // A process that ends meanwhile says no more.
        while matches!(wait.recv_timeout(LAST_JOB), Err(std::sync::mpsc::RecvTimeoutError::Timeout)) {
            if at_work().is_none() {
                return;
            }
        }
    }
}
