use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::{Either, select};
use warpio_core::engine::{Batch, Engine};

use super::carry::carry;
use super::filler::Filler;
use super::queue::{Part, PartQueue};
use crate::server::Server;

/// Carries out reads of the objects on one server: a bounded number of tasks on the network threads, each of which
/// takes the next part, asks for it, and goes on.
pub(crate) struct RemoteEngine {
    server: Arc<Server>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    queue: PartQueue,
    tasks: usize,
}

impl RemoteEngine {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        Self { server, state: Arc::default() }
    }
}

impl Engine for RemoteEngine {
    fn submit(&self, batch: Batch) {
        lock(&self.state).queue.push(batch);
        fill_seats(&self.server, &self.state);
    }

    fn name(&self) -> &'static str {
        "remote"
    }
}

impl fmt::Debug for RemoteEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteEngine").finish_non_exhaustive()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts as many tasks as there may be, and is work for.
fn fill_seats(server: &Arc<Server>, state: &Arc<Mutex<State>>) {
    while let Some(part) = {
        let limit = server.limit();
        let mut state = lock(state);
        (state.tasks < limit).then(|| next(server, &mut state)).flatten().inspect(|_| state.tasks += 1)
    } {
        let seat = Seat { server: server.clone(), state: state.clone(), ended: false };
        server.net.spawn(seat.work(part));
    }
}

fn next(server: &Server, state: &mut State) -> Option<Part> {
    let before = state.queue.bytes();
    let mut part = state.queue.pop(server.part_len(before))?;
    part.claim = Some(server.claim(before - state.queue.bytes()));
    Some(part)
}

/// A task's right to take parts. When the task is dropped before its end, the last one takes the queue along, so that
/// nobody waits for threads that are gone.
struct Seat {
    server: Arc<Server>,
    state: Arc<Mutex<State>>,
    ended: bool,
}

impl Seat {
    async fn work(mut self, first: Part) {
        let mut next = Some(first);
        while let Some(part) = next {
            let bytes = run(&self.server, part).await;
            let waiting = !lock(&self.state).queue.is_empty();
            self.server.ended(bytes, waiting);
            // The limit may have grown.
            fill_seats(&self.server, &self.state);
            next = self.take();
        }
    }

    /// The next part, unless there are more tasks than there may be.
    fn take(&mut self) -> Option<Part> {
        let limit = self.server.limit();
        let mut state = lock(&self.state);
        let part = if state.tasks > limit { None } else { next(&self.server, &mut state) };
        if part.is_none() {
            // Under the same lock: a batch that comes now finds a seat free.
            state.tasks -= 1;
            self.ended = true;
        }
        part
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let orphans = {
            let mut state = lock(&self.state);
            state.tasks -= 1;
            if state.tasks > 0 {
                return;
            }
            std::mem::take(&mut state.queue)
        };
        drop(orphans);
    }
}

/// Works on one part until it is done or nobody wants it any more. A panic fails the transfer that it was for, and no
/// other.
async fn run(server: &Server, part: Part) -> u64 {
    let Part { object, segments, claim, turn: _turn } = part;
    let Some(first) = segments.front() else { return 0 };
    let moot = pin!(first.moot());
    let filler = Filler::new(segments, claim);
    let done = pin!(AssertUnwindSafe(carry(server, &object, filler)).catch_unwind());
    match select(moot, done).await {
        Either::Right((Ok(bytes), _)) => bytes,
        Either::Right((Err(_), _)) => {
            tracing::error!(source = object.origin.name(), "a remote source panicked");
            0
        }
        Either::Left(_) => 0,
    }
}
