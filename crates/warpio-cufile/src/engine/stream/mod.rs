//! The stream API: requests in the order of a stream.
//!
//! One thread enqueues, because that may block for as long as the transfer takes, and one looks at the results once the
//! stream has passed a request. How many bytes arrived is known no sooner than that, and so a transfer resolves no
//! sooner, also one that asked for the order of a stream of the caller's: that stream then sees the bytes, as everyone
//! does.

mod lane;
mod params;
mod settle;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use warpio_core::{DeviceId, Result};

use super::piece::Piece;
use super::queue::Take;
use super::shared::{Shared, count};
use super::sync::adopt;
use super::watch::Call;
use lane::Lane;
use params::{InFlight, Op};
use settle::Passed;

/// What the two threads share.
#[derive(Debug)]
pub(super) struct Streams {
    enqueuing: Call,
    out: AtomicBool,
    places: Arc<Places>,
}

/// Bounds the requests in flight: with too many, the library answers with I/O errors.
#[derive(Debug)]
pub(super) struct Places {
    free: Mutex<usize>,
    returned: Condvar,
}

impl Places {
    fn take(&self) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            free = self.returned.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
    }

    fn give_back(&self) {
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.returned.notify_one();
    }
}

impl Streams {
    pub(super) fn new(depth: usize) -> Self {
        let places = Places { free: Mutex::new(depth.max(1)), returned: Condvar::new() };
        Self { enqueuing: Call::new(), out: AtomicBool::new(false), places: Arc::new(places) }
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn start(shared: &Arc<Shared>) -> std::io::Result<()> {
        let (told, results) = channel();
        let (enqueues, settles) = (shared.clone(), shared.clone());
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
        };
        spawn("warpio-cufile-r", Box::new(move || settle::run(&settles, &results)))?;
        spawn("warpio-cufile-q", Box::new(move || Enqueuer::new(enqueues, told).run()))
    }

    /// Whether requests may be put on a stream.
    pub(super) fn work(&self) -> bool {
        !self.out.load(Ordering::Acquire)
    }

    /// Whether a call hangs, and those that wait behind it are to go another way.
    pub(super) fn look(&self, stall: Duration) -> bool {
        if self.enqueuing.is_longer_than(stall) && !self.out.swap(true, Ordering::AcqRel) {
            tracing::warn!(?stall, "a call of cuFile for a stream hangs; requests go by calls of their own");
        }
        !self.work()
    }
}

/// The thread that enqueues.
struct Enqueuer {
    shared: Arc<Shared>,
    told: Sender<Passed>,
    lanes: HashMap<DeviceId, Arc<Lane>>,
    context: Option<DeviceId>,
}

impl Enqueuer {
    fn new(shared: Arc<Shared>, told: Sender<Passed>) -> Self {
        Self { shared, told, lanes: HashMap::new(), context: None }
    }

    fn run(mut self) {
        let take = Take { pieces: 1, bytes: usize::MAX, contiguous: false };
        loop {
            // First the place: what waits for one is in the queue, where it can be sent another way.
            self.shared.on_streams.enqueuing.during(|| self.shared.on_streams.places.take());
            let Some(pieces) = self.shared.streams.take(take) else { break };
            for piece in pieces {
                if !self.serve(piece) {
                    self.shared.on_streams.places.give_back();
                }
            }
        }
    }

    /// Whether the piece is on a stream now.
    fn serve(&mut self, piece: Piece) -> bool {
        let shared = self.shared.clone();
        if !shared.on_streams.work() {
            shared.route(vec![piece]);
            return false;
        }
        let call = &shared.on_streams.enqueuing;
        if let Err(error) = adopt(&mut self.context, &piece) {
            piece.fail(error);
            return false;
        }
        let file = match call.during(|| piece.target.file().registered(&shared)) {
            Ok(file) => file,
            Err(error) => {
                shared.not_served(piece, error);
                return false;
            }
        };
        let lane = match call.during(|| self.lane(&piece)) {
            Ok(lane) => lane,
            Err(error) => {
                piece.fail(error);
                return false;
            }
        };
        let (base, pin) = call.during(|| shared.base_of(piece.segment(), piece.address(), piece.left()));
        let mut op = InFlight::new(Op::new(piece, file, lane.clone(), base, pin));
        if let Some(op) = op.op() {
            count(&shared.counts.stream_calls);
            call.during(|| op.enqueue());
        }
        // From here on, whatever fails leaks what the library may use.
        match lane.stream().record() {
            Ok(event) => {
                let told = self.told.clone();
                let passed = move |result: Result<()>| {
                    // The receiver goes only when every sender has gone.
                    let _ = told.send(Passed { op, result });
                };
                lane.device().backend().watch(event, Box::new(passed));
            }
            Err(error) => op.lose(error),
        }
        true
    }

    fn lane(&mut self, piece: &Piece) -> Result<Arc<Lane>> {
        let device = piece.segment().device();
        if let Some(lane) = self.lanes.get(&device.id()) {
            return Ok(lane.clone());
        }
        let lane = Arc::new(Lane::new(&self.shared.driver, device, self.shared.on_streams.places.clone())?);
        self.lanes.insert(device.id(), lane.clone());
        Ok(lane)
    }
}
