//! The device behind the library: carries out entries of batches when their time has come, and knows what every
//! operation uses meanwhile.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use super::batch_state::{self, Job};
use super::command::Mode;
use super::state::{CHANGED, Locked, State, lock};
use super::transfer::Transfer;

/// What is on its way.
#[derive(Debug)]
pub(crate) struct Device {
    each: Duration,
    parallel: usize,
    /// When the places where operations run side by side become free.
    places: BinaryHeap<Reverse<Instant>>,
    jobs: BinaryHeap<Reverse<(Instant, u64)>>,
    by_number: BTreeMap<u64, Job>,
    held: VecDeque<Job>,
    holding: bool,
    /// Entries that were told never to end.
    endless: Vec<Job>,
    /// What operations of all kinds use: file, address, length.
    uses: BTreeMap<u64, (u64, u64, usize)>,
    last_number: u64,
    started: bool,
}

impl Default for Device {
    fn default() -> Self {
        Self {
            each: Duration::ZERO,
            parallel: usize::MAX,
            places: BinaryHeap::new(),
            jobs: BinaryHeap::new(),
            by_number: BTreeMap::new(),
            held: VecDeque::new(),
            holding: false,
            endless: Vec::new(),
            uses: BTreeMap::new(),
            last_number: 0,
            started: false,
        }
    }
}

impl Device {
    pub(crate) fn set_time(&mut self, each: Duration, parallel: usize) {
        (self.each, self.parallel) = (each, parallel.max(1));
        self.places.clear();
    }

    pub(crate) fn hold(&mut self) {
        self.holding = true;
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.len() as u64
    }

    /// When an operation that begins now is over.
    pub(crate) fn due(&mut self) -> Instant {
        let now = Instant::now();
        if self.each.is_zero() {
            return now;
        }
        let free = match self.places.len() < self.parallel {
            true => now,
            false => self.places.pop().map_or(now, |Reverse(at)| at.max(now)),
        };
        let due = free + self.each;
        if self.parallel != usize::MAX {
            self.places.push(Reverse(due));
        }
        due
    }

    /// Remembers what an operation uses, until `forget`.
    pub(crate) fn remember(&mut self, transfer: &Transfer) -> u64 {
        self.last_number += 1;
        self.uses.insert(self.last_number, (transfer.handle, transfer.address, transfer.len));
        self.last_number
    }

    pub(crate) fn forget(&mut self, number: u64) {
        self.uses.remove(&number);
    }

    /// Whether an operation uses memory of this range.
    pub(crate) fn uses(&self, base: u64, len: usize) -> bool {
        self.uses.values().any(|&(_, address, used)| address < base + len as u64 && base < address + used as u64)
    }

    pub(crate) fn uses_file(&self, handle: u64) -> bool {
        self.uses.values().any(|&(file, ..)| file == handle)
    }

    /// The cookies of a batch's entries that have not ended.
    pub(crate) fn cookies_of(&self, batch: u64) -> Vec<u64> {
        let jobs = self.by_number.values().chain(&self.held).chain(&self.endless);
        jobs.filter(|job| job.batch == batch).map(|job| job.cookie).collect()
    }

    /// Takes an entry on.
    pub(crate) fn take(&mut self, job: Job) {
        if job.is_endless() {
            return self.endless.push(job);
        }
        if self.holding {
            return self.held.push_back(job);
        }
        let due = self.due();
        self.schedule(job, due);
    }

    fn schedule(&mut self, job: Job, due: Instant) {
        self.jobs.push(Reverse((due, job.number)));
        self.by_number.insert(job.number, job);
        if !std::mem::replace(&mut self.started, true) {
            let thread = std::thread::Builder::new().name("mock-cufile".to_owned()).spawn(run);
            if let Err(error) = thread {
                eprintln!("mock-cufile: no thread for the device: {error}");
                std::process::abort();
            }
        }
        CHANGED.notify_all();
    }

    /// The next entry whose time has come, or when that of the next one comes.
    fn next(&mut self) -> Result<Job, Option<Instant>> {
        let Some(&Reverse((due, number))) = self.jobs.peek() else { return Err(None) };
        if due > Instant::now() {
            return Err(Some(due));
        }
        self.jobs.pop();
        self.by_number.remove(&number).ok_or(None)
    }
}

/// Lets entries that are held complete: so many, or all and those that come.
pub(crate) fn complete(state: &mut State, count: Option<usize>) {
    let device = &mut state.device;
    if count.is_none() {
        device.holding = false;
    }
    let now = Instant::now();
    for _ in 0..count.unwrap_or(usize::MAX).min(device.held.len()) {
        if let Some(job) = device.held.pop_front() {
            device.schedule(job, now);
        }
    }
}

/// Ends the entries that were told never to end, without a word.
pub(crate) fn end_the_endless(state: &mut State) {
    for job in std::mem::take(&mut state.device.endless) {
        batch_state::vanish(state, &job);
    }
}

fn run() {
    let mut state = lock();
    loop {
        match state.device.next() {
            Ok(job) => carry_out(&mut state, job),
            Err(Some(due)) => drop(CHANGED.wait_until(&mut state, due)),
            Err(None) => CHANGED.wait(&mut state),
        }
    }
}

fn carry_out(state: &mut Locked, job: Job) {
    // In compatibility mode, whoever asks for events copies what was read past the page cache.
    if state.true_mode() == Mode::Compat && job.transfer.file.is_direct() {
        return batch_state::make_ready(state, job);
    }
    batch_state::run(state, job);
}

/// Carries out a transfer with nothing locked. `None` if its memory is gone.
pub(crate) fn unlocked(state: &mut Locked, transfer: &Transfer, most: usize) -> Option<i64> {
    MutexGuard::unlocked(state, || transfer.run(most))
}
