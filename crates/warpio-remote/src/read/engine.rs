use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{Either, select};
use warpio_core::engine::{Batch, Engine, Seat, Seats};

use super::carry::carry;
use super::filler::Filler;
use super::queue::{Part, PartQueue};
use crate::server::Server;

/// Carries out reads of the objects on one server: a bounded number of tasks on the network threads, each of which
/// takes the next part, asks for it, and goes on.
pub(crate) struct RemoteEngine {
    server: Arc<Server>,
    seats: Seats<PartQueue>,
}

impl RemoteEngine {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        Self { server, seats: Seats::default() }
    }
}

impl Engine for RemoteEngine {
    fn submit(&self, batch: Batch) {
        self.seats.queue(|queue| queue.push(batch));
        fill(&self.server, &self.seats);
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

/// Starts as many tasks as there may be, and is work for.
fn fill(server: &Arc<Server>, seats: &Seats<PartQueue>) {
    while let Some((seat, part)) = seats.take(server.limit(), |queue| next(server, queue)) {
        server.net.spawn(serve(server.clone(), seat, part));
    }
}

fn next(server: &Server, queue: &mut PartQueue) -> Option<Part> {
    let before = queue.bytes();
    let mut part = queue.pop(server.part_len(before))?;
    part.claim = Some(server.claim(before - queue.bytes()));
    Some(part)
}

async fn serve(server: Arc<Server>, mut seat: Seat<PartQueue>, first: Part) {
    let mut part = Some(first);
    while let Some(this) = part {
        let bytes = run(&server, this).await;
        let waiting = seat.seats().queue(|queue| !queue.is_empty());
        server.ended(bytes, waiting);
        // The limit may have grown.
        fill(&server, seat.seats());
        part = seat.next(server.limit(), |queue| next(&server, queue));
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
