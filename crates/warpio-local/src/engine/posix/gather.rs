use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::Advice;
use warpio_core::engine::{GatherRun, GatherTask, Lanes, Target};
use warpio_core::{Error, Result};

use super::Shared;
use super::read::forget;
use crate::engine::OpenFile;
use crate::sys::cache::advise;
use crate::sys::rw::{pread_full, pread_nowait};

/// Reads the runs of one task: into a staging slot, from which the device scatters them, or straight into host memory.
pub(super) fn serve(
    target: Target,
    task: GatherTask,
    lanes: &mut Lanes,
    scratch: &mut Vec<u8>,
    shared: &Shared,
    worker: usize,
) {
    if task.is_moot() {
        return drop(task);
    }
    let Ok(file) = target.downcast::<OpenFile>() else {
        return task.fail(&Error::invalid_input("this engine serves open files only"));
    };
    if task.device().is_host_visible() {
        into_host(&file, task, scratch);
    } else if let Err((task, error)) = into_device(&file, task, lanes, shared, worker) {
        task.fail(&error);
    }
}

fn into_host(file: &OpenFile, task: GatherTask, scratch: &mut Vec<u8>) {
    let (runs, _) = task.layout();
    let longest = runs.iter().filter(|run| task.host_memory(run).is_none()).map(GatherRun::len).max();
    if let Some(more) = longest.and_then(|len| len.checked_sub(scratch.len())) {
        scratch.resize(scratch.len() + more, 0);
    }
    let missed = runs.into_iter().filter(|run| !host_run(file, &task, run, scratch, pread_cached)).collect::<Vec<_>>();
    ask_for(file, missed.iter());
    for run in &missed {
        host_run(file, &task, run, scratch, pread_waiting);
    }
    task.finish();
}

/// Reads one run with `read`. Returns whether that could say anything about it.
fn host_run(file: &OpenFile, task: &GatherTask, run: &GatherRun, scratch: &mut [u8], read: Read) -> bool {
    let place = task.host_memory(run);
    let ptr = place.map_or(scratch.as_mut_ptr(), |place| place.as_ptr());
    // SAFETY: the run's place is valid for its length until the task is finished; otherwise the scratch memory is as
    // long as the longest run that needs it.
    let Some(result) = (unsafe { read(file, ptr, run) }) else { return false };
    if let (None, Ok(n)) = (place, &result) {
        task.copy_out_of(run, &scratch[..*n]);
    }
    task.settle(run, &result);
    true
}

fn into_device(
    file: &OpenFile,
    task: GatherTask,
    lanes: &mut Lanes,
    shared: &Shared,
    worker: usize,
) -> Result<(), (GatherTask, Error)> {
    let device = task.device().clone();
    let (runs, len) = task.layout();
    let slot = match device.staging().acquire_near(len, worker, shared.threads) {
        Ok(slot) => slot,
        Err(error) => return Err((task, error)),
    };
    let lane = match lanes.get(&device) {
        Ok(lane) => lane,
        Err(error) => return Err((task, error)),
    };
    // SAFETY: the slot is lent to this task alone, and as long as the layout says.
    let read = |run: &GatherRun, read: Read| unsafe { read(file, slot.as_ptr().as_ptr().add(run.slot_offset), run) };
    let mut results: Vec<_> = runs.into_iter().map(|run| (read(&run, pread_cached), run)).collect();
    ask_for(file, results.iter().filter(|(result, _)| result.is_none()).map(|(_, run)| run));
    let results: Vec<_> = results
        .drain(..)
        .map(|(result, run)| {
            let result = result.or_else(|| read(&run, pread_waiting)).unwrap_or(Ok(0));
            (run, result)
        })
        .collect();
    task.scatter(lane, slot, &results);
    Ok(())
}

/// Starts the reads of what is not cached, all at once, so that waiting for one waits for the others too.
fn ask_for<'a>(file: &OpenFile, runs: impl Iterator<Item = &'a GatherRun>) {
    if !file.cache().can_miss() {
        return;
    }
    for run in runs {
        if let Err(error) = advise(file.as_fd(), &run.range, Advice::WillNeed) {
            tracing::trace!(%error, "a read cannot be started early");
        }
    }
}

/// Reads a run to a place that is valid for its length.
type Read = unsafe fn(&OpenFile, *mut u8, &GatherRun) -> Option<Result<usize>>;

/// Reads a run if nobody has to be waited for.
///
/// # Safety
/// `ptr` is valid for writes of the run's length.
unsafe fn pread_cached(file: &OpenFile, ptr: *mut u8, run: &GatherRun) -> Option<Result<usize>> {
    if !file.cache().can_miss() {
        // SAFETY: the caller's promise.
        return unsafe { pread_waiting(file, ptr, run) };
    }
    if !file.cache().answers_nowait() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { whole_nowait(file.as_fd(), ptr, run) }.map(Ok)
}

/// # Safety
/// As for [`pread_cached`].
unsafe fn whole_nowait(fd: BorrowedFd<'_>, ptr: *mut u8, run: &GatherRun) -> Option<usize> {
    let mut done = 0;
    while done < run.len() {
        let (rest, offset) = (run.len() - done, run.range.start + done as u64);
        // SAFETY: within the range that the caller vouches for. An error is left to the read that waits.
        match unsafe { pread_nowait(fd, ptr.add(done), rest, offset) }.ok()?? {
            // The end of the file.
            0 => break,
            n => done += n,
        }
    }
    Some(done)
}

/// Reads a run, however long it takes.
///
/// # Safety
/// As for [`pread_cached`].
unsafe fn pread_waiting(file: &OpenFile, ptr: *mut u8, run: &GatherRun) -> Option<Result<usize>> {
    let (fd, offset, len) = (file.as_fd(), run.range.start, run.len());
    let clean = file.policy().leave_clean && file.cache().can_miss();
    // SAFETY: the caller's promise.
    let result = unsafe { pread_full(fd, ptr, len, offset) };
    if clean {
        forget(fd, offset, len);
    }
    Some(result.map_err(Error::from))
}
