use std::panic::{AssertUnwindSafe, catch_unwind};

use warpio_core::engine::Lanes;

use super::copies::Copies;
use super::gather::Gatherer;
use super::queue::Job;
use super::read::{self, Reader};
use super::{Shared, sort, write};

/// One thread: takes what is to do until the engine is gone.
pub(super) fn run(shared: &Shared, worker: usize) {
    let mut lanes = Lanes::default();
    let (mut copies, mut scratch) = (Copies::default(), Vec::new());
    while let Some(job) = shared.queue.next() {
        match job {
            Job::Sort(batch) => {
                guarded(|| sort::sort(batch, shared));
            }
            Job::Read(target, segment) => {
                let (lanes, copies) = (&mut lanes, &mut copies);
                guarded(|| read::serve(target, segment, &mut Reader { lanes, copies, shared, worker }));
            }
            Job::Plan(target, gather) => {
                guarded(|| match gather.is_moot() {
                    true => drop(gather),
                    false => shared.queue.submit_tasks(target, gather.plan()),
                });
            }
            Job::Gather(target, task) => {
                let (lanes, scratch) = (&mut lanes, &mut scratch);
                guarded(|| Gatherer { lanes, scratch, shared, worker }.serve(target, task));
            }
            Job::Writes(file) => {
                let more = guarded(|| write::turn(&file, &mut lanes)).unwrap_or_else(|| !file.writes().leave());
                if more {
                    shared.queue.again(file);
                }
            }
        }
    }
}

/// A waker is the caller's code and may panic; the thread serves others too.
pub(super) fn guarded<T>(job: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(job));
    if result.is_err() {
        tracing::error!("a waker or callback of a transfer panicked on an I/O thread");
    }
    result.ok()
}
