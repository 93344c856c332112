//! A second request for a part whose bytes are slow to come.

use std::ops::Range;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, Either, OptionFuture, select};

use super::object::Object;
use crate::failure::Failure;
use crate::origin::{Opened, Origin, Payload};
use crate::reply::check;
use crate::server::Server;

/// Sends the request, and after a while without a reply a second one: whichever is answered first counts.
pub(super) async fn open(object: &Object, range: Range<u64>, patience: Option<Duration>) -> Result<Opened, Failure> {
    let origin = &*object.origin;
    let Some(patience) = patience else { return origin.get(Some(range)).await };
    let first = origin.get(Some(range.clone()));
    let first = match select(first, Box::pin(tokio::time::sleep(patience))).await {
        Either::Left((opened, _)) => return opened,
        Either::Right(((), first)) => first,
    };
    match select(first, ask(origin, range)).await {
        Either::Left((Ok(opened), _)) | Either::Right((Ok(opened), _)) => Ok(opened),
        Either::Left((Err(_), other)) | Either::Right((Err(_), other)) => other.await,
    }
}

/// The same request over another connection.
fn ask(origin: &dyn Origin, range: Range<u64>) -> BoxFuture<'_, Result<Opened, Failure>> {
    tracing::debug!(source = origin.name(), start = range.start, "it is slow, and asked for a second time");
    origin.get(Some(range))
}

/// Watches over one body. Where it is slow, what is missing is asked for over another connection, and read from there
/// as soon as that is answered.
pub(super) struct Hedge<'a> {
    object: &'a Object,
    server: &'a Server,
    patience: Option<Duration>,
    /// Since when the body is being read, and what it has brought.
    began: Instant,
    received: u64,
    due: Instant,
    rival: Option<Rival<'a>>,
}

struct Rival<'a> {
    start: u64,
    reply: BoxFuture<'a, Result<Opened, Failure>>,
}

impl<'a> Hedge<'a> {
    pub(super) fn new(server: &'a Server, object: &'a Object) -> Self {
        let (patience, now) = (server.settings.hedge_after, Instant::now());
        let due = now + patience.unwrap_or_default();
        Self { object, server, patience, began: now, received: 0, due, rival: None }
    }

    /// Receives some of the body into `room`; `rest` is what is missing of the object's part.
    pub(super) async fn read(
        &mut self,
        payload: &mut Payload,
        room: &mut [u8],
        rest: Range<u64>,
    ) -> Result<usize, Failure> {
        let Some(patience) = self.patience else { return payload.read(room).await };
        loop {
            let asked = self.rival.is_some();
            let reply: OptionFuture<_> = self.rival.as_mut().map(|rival| &mut rival.reply).into();
            let answered = tokio::select! {
                // A body of which there is always a little is slow, too.
                biased;
                Some(reply) = reply, if asked => Some(reply),
                () = tokio::time::sleep_until(self.due.into()), if !asked => None,
                read = payload.read(room) => {
                    self.received += read.as_ref().map_or(0, |n| *n as u64);
                    return read;
                }
            };
            match answered {
                Some(reply) => {
                    let start = self.rival.take().map_or(rest.start, |rival| rival.start);
                    // A rival that is refused leaves the first where it was.
                    if let Ok(opened) = reply
                        && let Some(other) = accept(self.object, opened, start..rest.end, rest.start).await
                    {
                        *payload = other;
                    }
                    (self.began, self.received) = (Instant::now(), 0);
                    self.due = self.began + patience;
                }
                None if self.server.is_slow(self.received, self.began.elapsed()) => {
                    let reply = ask(&*self.object.origin, rest.clone());
                    self.rival = Some(Rival { start: rest.start, reply });
                }
                None => self.due = Instant::now() + patience,
            }
        }
    }
}

/// The body of a rival that was asked for `range`, from `at` on, where the first has got to meanwhile.
async fn accept(object: &Object, opened: Opened, range: Range<u64>, at: u64) -> Option<Payload> {
    let promise = check(&opened.facts, &range, &object.known()).ok()?;
    if promise.range.start != range.start {
        return None;
    }
    let mut payload = opened.payload;
    let (mut left, mut scratch) = (at - range.start, [0; 4096]);
    while left > 0 {
        let len = scratch.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        left -= payload.read(&mut scratch[..len]).await.ok().filter(|n| *n > 0)? as u64;
    }
    Some(payload)
}
