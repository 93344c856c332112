//! One part of a transfer, from the request to the last byte.

use std::ops::Range;
use std::time::Instant;

use warpio_core::{Error, ErrorKind};

use super::filler::Filler;
use super::hedge::{self, Hedge};
use super::object::Object;
use super::stream;
use crate::failure::Failure;
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
    let opened = tries.within(hedge::open(object, wanted.clone(), server.settings.hedge_after)).await?;
    server.waited(asked.elapsed());
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
    let (body, mut hedge) = (Instant::now(), Hedge::new(server, object));
    let end = promise.range.end;
    while filler.missing().start < end {
        let at = filler.missing().start;
        let room = filler.room(server).await.map_err(Failure::last)?;
        let len = room.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        let n = tries.within(hedge.read(&mut payload, &mut room[..len], at..wanted.end)).await?;
        if n == 0 {
            return Err(cut_short(at, end).into());
        }
        tries.arrived(n);
        filler.advance(n);
    }
    if !tries.within(payload.is_at_end()).await? {
        return Err(too_long(end - wanted.start).into());
    }
    server.received(end - wanted.start, body.elapsed());
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
