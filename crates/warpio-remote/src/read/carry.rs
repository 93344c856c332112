//! One part of a transfer, from the request to the last byte.

use std::ops::Range;
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use warpio_core::{Error, ErrorKind};

use super::filler::Filler;
use super::object::Object;
use super::stream;
use crate::failure::Failure;
use crate::origin::{Opened, Origin, Payload};
use crate::reply::{Refusal, check};
use crate::server::{Server, Tries};

/// Fills what `filler` wants from `object`: with one request, and with more where that breaks off. Returns how many
/// bytes came.
pub(super) async fn carry(server: &Server, object: &Object, mut filler: Filler) -> u64 {
    let mut tries = server.tries();
    loop {
        if let Some(total) = object.total() {
            filler.clip(total);
        }
        if filler.is_done() {
            return filler.received();
        }
        if object.is_stream() {
            stream::carry(server, object, &mut filler, &mut tries).await;
            return filler.received();
        }
        let failure = match attempt(server, object, &mut filler, &mut tries).await {
            Ok(()) => return filler.received(),
            Err(Stop::NoRanges) => continue,
            Err(Stop::Failed(failure)) => failure,
        };
        if let Err(error) = tries.again(failure, object.origin.name()).await {
            filler.fail(&error);
        }
    }
}

/// Why one request did not do all of it.
enum Stop {
    NoRanges,
    Failed(Failure),
}

impl<F: Into<Failure>> From<F> for Stop {
    fn from(failure: F) -> Self {
        Self::Failed(failure.into())
    }
}

/// One request for all that is missing, if anything is.
async fn attempt(server: &Server, object: &Object, filler: &mut Filler, tries: &mut Tries<'_>) -> Result<(), Stop> {
    let wanted = filler.missing();
    if !wanted.is_empty() {
        receive(server, object, filler, tries, wanted).await?;
    }
    tries.within(object.origin.confirm(&object.known())).await?;
    filler.end();
    Ok(())
}

async fn receive(
    server: &Server,
    object: &Object,
    filler: &mut Filler,
    tries: &mut Tries<'_>,
    wanted: Range<u64>,
) -> Result<(), Stop> {
    let asked = Instant::now();
    let hedge = server.settings.hedge_after;
    let opened = tries.within(open(object, wanted.clone(), hedge)).await?;
    let latency = asked.elapsed();
    let promise = match check(&opened.facts, &wanted, &object.known()) {
        Ok(promise) => promise,
        Err(Refusal::NoRanges(version)) => {
            object.learn(&version)?;
            object.becomes_stream();
            object.offer(opened, version.total);
            return Err(Stop::NoRanges);
        }
        Err(Refusal::PastEnd { total }) => return Ok(past_end(server, object, &wanted, total).await?),
        Err(refusal) => return Err(Failure::from(refusal).into()),
    };
    object.learn(&promise.version)?;
    let mut payload = opened.payload;
    let body = Instant::now();
    let end = promise.range.end;
    while filler.missing().start < end {
        let at = filler.missing().start;
        let room = filler.room(server).await.map_err(Failure::last)?;
        let len = room.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        let n = tries.within(read(object, &mut payload, &mut room[..len], at..wanted.end, hedge)).await?;
        if n == 0 {
            return Err(cut_short(at, end).into());
        }
        tries.arrived(n);
        filler.advance(n);
    }
    if !tries.within(payload.is_at_end()).await? {
        return Err(too_long(end - wanted.start).into());
    }
    server.measured(latency, end - wanted.start, body.elapsed());
    Ok(())
}

pub(super) fn cut_short(at: u64, end: u64) -> Failure {
    let message = format!("the reply ended at byte {at} instead of {end}");
    Failure::again(Error::new(ErrorKind::Unavailable).with_message(message))
}

pub(super) fn too_long(promised: u64) -> Failure {
    let message = format!("the reply goes on behind the {promised} bytes that it promised");
    Failure::last(Error::new(ErrorKind::Integrity).with_message(message))
}

/// The server says that there is nothing at `wanted`: true only where the object has been seen to end before.
async fn past_end(server: &Server, object: &Object, wanted: &Range<u64>, total: Option<u64>) -> Result<(), Failure> {
    if let Some(total) = total {
        return object.learn_total(total);
    }
    let total = object.find_total(server).await.map_err(Failure::last)?;
    if total <= wanted.start {
        return Ok(());
    }
    let message = format!("the server says that byte {} is behind the end of {total}", wanted.start);
    Err(Failure::last(Error::new(ErrorKind::Integrity).with_message(message)))
}

/// Sends the request, and after a while without a reply a second one: whichever is answered first counts.
async fn open(object: &Object, range: Range<u64>, hedge: Option<Duration>) -> Result<Opened, Failure> {
    let origin = &*object.origin;
    let Some(patience) = hedge else { return origin.get(Some(range)).await };
    let first = origin.get(Some(range.clone()));
    let (late, first) = match select(first, Box::pin(tokio::time::sleep(patience))).await {
        Either::Left((opened, _)) => return opened,
        Either::Right(parts) => parts,
    };
    let () = late;
    match select(first, rival(origin, range)).await {
        Either::Left((Ok(opened), _)) | Either::Right((Ok(opened), _)) => Ok(opened),
        Either::Left((Err(_), other)) | Either::Right((Err(_), other)) => other.await,
    }
}

/// The same request over another connection.
fn rival(
    origin: &dyn Origin,
    range: Range<u64>,
) -> std::pin::Pin<Box<dyn Future<Output = Result<Opened, Failure>> + Send + '_>> {
    tracing::debug!(source = origin.name(), start = range.start, "nothing came for a while: asked for a second time");
    origin.get(Some(range))
}

/// Receives some of the body. After a while without any, the rest is asked for over another connection, and whichever
/// comes first is read on.
async fn read(
    object: &Object,
    payload: &mut Payload,
    room: &mut [u8],
    rest: Range<u64>,
    hedge: Option<Duration>,
) -> Result<usize, Failure> {
    let Some(patience) = hedge else { return payload.read(room).await };
    if let Ok(n) = tokio::time::timeout(patience, payload.read(room)).await {
        return n;
    }
    let other = rival(&*object.origin, rest.clone());
    let opened = match select(Box::pin(payload.read(room)), other).await {
        Either::Left((n, _)) => return n,
        Either::Right((opened, _)) => opened,
    };
    // A rival that is refused leaves the first where it was.
    if let Ok(opened) = opened
        && let Ok(promise) = check(&opened.facts, &rest, &object.known())
        && promise.range.start == rest.start
    {
        *payload = opened.payload;
    }
    payload.read(room).await
}
