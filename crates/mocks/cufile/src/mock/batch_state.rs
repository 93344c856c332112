//! What a batch holds, and how its entries end.

use std::collections::VecDeque;

use super::codes::{COMPLETE, IoEvent};
use super::command::Order;
use super::device;
use super::plan::{Action, mixed, share_of};
use super::state::{CHANGED, Locked, State};
use super::transfer::Transfer;

#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) capacity: u32,
    /// Entries that have not ended.
    pub(crate) in_flight: u32,
    /// Ends that were not told yet.
    pub(crate) events: VecDeque<IoEvent>,
    /// Entries that whoever asks for events has to copy.
    pub(crate) ready: VecDeque<Job>,
    /// A submission failed: everything in flight is forgotten, and nothing is ever told again.
    pub(crate) wiped: bool,
    /// Entries submitted before this was counted up were cancelled.
    pub(crate) round: u64,
}

/// An entry on its way.
#[derive(Debug)]
pub(crate) struct Job {
    /// Under which the device knows what it uses.
    pub(crate) number: u64,
    pub(crate) batch: u64,
    pub(crate) round: u64,
    pub(crate) cookie: u64,
    pub(crate) transfer: Transfer,
    pub(crate) planned: Option<Action>,
}

impl Job {
    pub(crate) fn is_endless(&self) -> bool {
        self.planned == Some(Action::Never)
    }
}

/// Leaves an entry to whoever asks for events next.
pub(crate) fn make_ready(state: &mut State, job: Job) {
    match state.batches.get_mut(&job.batch) {
        Some(batch) if !batch.wiped && batch.round == job.round => {
            batch.ready.push_back(job);
            CHANGED.notify_all();
        }
        _ => vanish(state, &job),
    }
}

/// Carries an entry out and tells its end.
pub(crate) fn run(state: &mut Locked, job: Job) {
    let lives = |state: &State| state.batches.get(&job.batch).is_some_and(|b| !b.wiped && b.round == job.round);
    if !lives(state) {
        return vanish(state, &job);
    }
    let (status, ret) = match job.planned {
        Some(Action::Event(status, ret)) => (status, ret),
        Some(Action::Ret(ret)) => (COMPLETE, ret),
        planned => {
            let most = match planned {
                Some(Action::Max(most)) => most,
                Some(Action::Percent(share)) => share_of(job.transfer.len, share),
                _ => usize::MAX,
            };
            match device::unlocked(state, &job.transfer, most) {
                Some(moved) => (COMPLETE, moved),
                None => {
                    state.violation("memory was freed under an entry of a batch");
                    (COMPLETE, -i64::from(libc::EFAULT))
                }
            }
        }
    };
    count(state, &job.transfer, ret);
    if job.planned == Some(Action::Lose) {
        return vanish(state, &job);
    }
    let order = state.settings.order;
    if let Some(batch) = state.batches.get_mut(&job.batch).filter(|batch| !batch.wiped && batch.round == job.round) {
        let event = IoEvent { cookie: job.cookie, status, ret };
        match order {
            Order::Due => batch.events.push_back(event),
            Order::Reversed => batch.events.push_front(event),
            Order::Shuffled(seed) => {
                let place = mixed(seed.wrapping_add(job.number)) as usize % (batch.events.len() + 1);
                batch.events.insert(place, event);
            }
        }
    }
    vanish(state, &job);
}

/// Takes an entry off the books.
pub(crate) fn vanish(state: &mut State, job: &Job) {
    if let Some(batch) = state.batches.get_mut(&job.batch) {
        batch.in_flight -= 1;
    }
    state.device.forget(job.number);
    state.end();
}

/// Counts bytes that were moved, and which way they took.
pub(crate) fn count(state: &mut State, transfer: &Transfer, moved: i64) {
    let mode = state.true_mode();
    state.driver.statistics.count(mode, transfer.write, moved);
    let bytes = u64::try_from(moved).unwrap_or(0);
    match transfer.write {
        true => state.counters.bytes_written += bytes,
        false => state.counters.bytes_read += bytes,
    }
}

/// Tells that the entries of a batch were cancelled, as the documentation has it and the library was not seen to do.
pub(crate) fn tell_cancelled(state: &mut State, handle: u64) {
    const CANCELED: u32 = 8;
    let cookies = state.device.cookies_of(handle);
    if let Some(batch) = state.batches.get_mut(&handle) {
        batch.events.extend(cookies.into_iter().map(|cookie| IoEvent { cookie, status: CANCELED, ret: 0 }));
    }
}
