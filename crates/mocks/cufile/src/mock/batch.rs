//! The batch API.

use std::ffi::c_uint;
use std::time::{Duration, Instant};

use super::batch_state::{Batch, Job, run};
use super::codes::{
    BATCH_FULL, BATCH_SETUP, BATCH_SUBMIT, DRIVER_NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, IoEvent, IoParams,
    Status,
};
use super::command::Mode;
use super::plan::{Action, Call};
use super::state::{CHANGED, Locked, State, action, enter, planned};
use super::transfer::Transfer;

/// Entries that all batches of a process together can have, as many as were seen to fit.
const MOST_ENTRIES: u32 = 170 * 128;

/// # Safety
/// `batch` is null or a place for the result.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileBatchIOSetUp(batch: *mut u64, capacity: c_uint) -> Status {
    let mut state = enter("BatchIOSetUp");
    if let Some(status) = planned(&mut state, "BatchIOSetUp") {
        return status;
    }
    if state.driver.open == 0 {
        return Status::of(DRIVER_NOT_INITIALIZED);
    }
    if batch.is_null() || capacity == 0 || capacity > state.driver.max_batch {
        return Status::of(INVALID_VALUE);
    }
    let taken: u32 = state.batches.values().map(|batch| batch.capacity).sum();
    if taken + capacity > MOST_ENTRIES {
        return Status::of(BATCH_SETUP);
    }
    let handle = state.new_handle();
    state.batches.insert(handle, Batch { capacity, ..Batch::default() });
    // SAFETY: the caller's promise.
    unsafe { batch.write(handle) };
    Status::SUCCESS
}

/// # Safety
/// `entries` is null or points to `count` entries.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileBatchIOSubmit(
    handle: u64,
    count: c_uint,
    entries: *const IoParams,
    _flags: c_uint,
) -> Status {
    let mut state = enter("BatchIOSubmit");
    let outcome = match planned(&mut state, "BatchIOSubmit") {
        Some(status) => Err(status),
        None => {
            // SAFETY: the caller's promise.
            let entries =
                (0..count as usize).filter(|_| !entries.is_null()).map(|at| unsafe { entries.add(at).read() });
            submit(&mut state, handle, &entries.collect::<Vec<_>>())
        }
    };
    match outcome {
        Ok(()) => Status::SUCCESS,
        Err(status) => {
            // Everything in flight is forgotten, as it was seen to be.
            if let Some(batch) = state.batches.get_mut(&handle) {
                batch.wiped = true;
                batch.events.clear();
                let ready = std::mem::take(&mut batch.ready);
                ready.iter().for_each(|job| super::batch_state::vanish(&mut state, job));
            }
            status
        }
    }
}

fn submit(state: &mut Locked, handle: u64, entries: &[IoParams]) -> Result<(), Status> {
    let Some(batch) = state.batches.get(&handle) else {
        state.violation("a batch is used that was destroyed");
        return Err(Status::of(INVALID_CONTEXT));
    };
    if batch.wiped {
        state.violation("a batch is used again although a submission to it had failed");
    }
    let batch = &state.batches[&handle];
    let (count, capacity, waiting) = (entries.len() as u32, batch.capacity, batch.events.len() as u32);
    if count == 0 || count > capacity {
        return Err(Status::of(BATCH_SUBMIT));
    }
    // Places become free when ends are told.
    if batch.in_flight + waiting + count > capacity {
        return Err(Status::of(BATCH_FULL));
    }
    let checked: Vec<_> = entries.iter().map(|entry| check(state, entry)).collect::<Result<_, _>>()?;
    wait_for_slab(state, checked.len());
    for (entry, transfer) in entries.iter().zip(checked) {
        begin(state, handle, entry, transfer);
    }
    Ok(())
}

fn check(state: &State, entry: &IoParams) -> Result<Transfer, Status> {
    let (write, refuse) =
        (entry.opcode == 1, |errno: i32| Status::of(if errno < 5000 { INVALID_VALUE } else { errno }));
    if entry.mode != 1 {
        return Err(refuse(0));
    }
    state.check(entry.handle, write, entry.base, entry.size, entry.file_offset, entry.base_offset).map_err(refuse)
}

/// In compatibility mode every entry takes a bounce buffer, and the submission waits for one.
fn wait_for_slab(state: &mut Locked, count: usize) {
    let full = |state: &State| {
        let in_flight: u32 = state.batches.values().map(|batch| batch.in_flight + batch.events.len() as u32).sum();
        state.true_mode() == Mode::Compat && state.settings.slab.is_some_and(|slab| in_flight as usize + count > slab)
    };
    let began = state.releases;
    if !full(state) {
        return;
    }
    state.counters.blocked += 1;
    CHANGED.notify_all();
    while full(state) && state.releases == began {
        CHANGED.wait(state);
    }
    state.counters.blocked -= 1;
}

fn begin(state: &mut Locked, handle: u64, entry: &IoParams, transfer: Transfer) {
    if entry.opcode > 1 {
        state.violation("an entry with an operation that does not exist, on which some versions end the process");
        return;
    }
    if entry.size == 0 {
        state.violation("an entry without bytes was submitted, which never gets an event");
        return;
    }
    let call =
        Call { name: "entry", fd: Some(transfer.file.fd), offset: Some(transfer.offset), size: Some(transfer.len) };
    let planned = state.plan.action(call);
    let number = state.device.remember(&transfer);
    let Some(batch) = state.batches.get_mut(&handle) else { return };
    batch.in_flight += 1;
    let round = batch.round;
    state.counters.entries += 1;
    state.begin();
    state.device.take(Job { number, batch: handle, round, cookie: entry.cookie, transfer, planned });
}

/// # Safety
/// `count` is null or holds how many places for events there are; `timeout` is null or a time.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileBatchIOGetStatus(
    handle: u64,
    least: c_uint,
    count: *mut c_uint,
    events: *mut IoEvent,
    timeout: *const libc::timespec,
) -> Status {
    let mut state = enter("BatchIOGetStatus");
    if count.is_null() || events.is_null() {
        return Status::of(INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let (room, timeout) = unsafe { (count.read(), (!timeout.is_null()).then(|| timeout.read())) };
    let mut most = room as usize;
    match action(&mut state, Call::named("BatchIOGetStatus")) {
        Some(Action::Status(err, cu_err)) => return Status { err, cu_err },
        Some(Action::Max(n)) => most = most.min(n),
        Some(Action::Empty) => {
            // SAFETY: the caller's promise.
            unsafe { count.write(0) };
            return Status::SUCCESS;
        }
        _ => {}
    }
    let until = timeout.map(|time| Instant::now() + Duration::new(time.tv_sec as u64, time.tv_nsec as u32));
    let told = match reap(&mut state, handle, (least, room), most, until) {
        Ok(told) => told,
        Err(status) => return status,
    };
    for (at, event) in told.iter().enumerate() {
        // SAFETY: no more than `room` events; the caller's promise.
        unsafe { events.add(at).write(*event) };
    }
    // SAFETY: the caller's promise.
    unsafe { count.write(told.len() as c_uint) };
    CHANGED.notify_all();
    Status::SUCCESS
}

fn reap(
    state: &mut Locked,
    handle: u64,
    (least, room): (u32, u32),
    most: usize,
    until: Option<Instant>,
) -> Result<Vec<IoEvent>, Status> {
    loop {
        let Some(batch) = state.batches.get_mut(&handle) else { return Err(Status::of(INVALID_CONTEXT)) };
        if least > room || least > batch.capacity {
            return Err(Status::of(INVALID_VALUE));
        }
        if let Some(job) = batch.ready.pop_front() {
            run(state, job);
            continue;
        }
        let enough = batch.events.len() >= least as usize && !batch.events.is_empty();
        let late = until.is_some_and(|until| Instant::now() >= until);
        if enough || batch.in_flight == 0 || batch.wiped || late {
            let told = most.min(batch.events.len());
            return Ok(batch.events.drain(..told).collect());
        }
        match until {
            Some(until) => drop(CHANGED.wait_until(state, until)),
            None => CHANGED.wait(state),
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuFileBatchIOCancel(handle: u64) -> Status {
    let mut state = enter("BatchIOCancel");
    if let Some(status) = planned(&mut state, "BatchIOCancel") {
        return status;
    }
    let Some(batch) = state.batches.get_mut(&handle) else { return Status::of(INVALID_CONTEXT) };
    // Entries in flight are dropped when their time comes, and no event tells.
    batch.round += 1;
    let ready = std::mem::take(&mut batch.ready);
    ready.iter().for_each(|job| super::batch_state::vanish(&mut state, job));
    if state.settings.cancel_events {
        super::batch_state::tell_cancelled(&mut state, handle);
    }
    CHANGED.notify_all();
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuFileBatchIODestroy(handle: u64) {
    let mut state = enter("BatchIODestroy");
    let _ = planned(&mut state, "BatchIODestroy");
    // What is in flight runs out first.
    if let Some(batch) = state.batches.get_mut(&handle) {
        let ready = std::mem::take(&mut batch.ready);
        ready.into_iter().for_each(|job| super::batch_state::vanish(&mut state, &job));
    }
    while state.batches.get(&handle).is_some_and(|batch| batch.in_flight > 0) {
        CHANGED.wait(&mut state);
    }
    if state.batches.remove(&handle).is_none() {
        state.violation("a batch is destroyed twice");
    }
}
