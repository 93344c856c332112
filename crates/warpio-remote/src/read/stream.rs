//! Objects on servers that send them whole only: one reply, read in order.

use super::carry::{cut_short, too_long};
use super::filler::Filler;
use super::object::Object;
use crate::failure::Failure;
use crate::origin::Payload;
use crate::reply::{Refusal, check};
use crate::server::{Server, Tries};
use warpio_core::{Error, ErrorKind};

/// A reply that holds all of an object, and how far it has been read.
#[derive(Debug)]
pub(crate) struct OpenStream {
    payload: Payload,
    at: u64,
    /// `None` where only the end of the body tells.
    total: Option<u64>,
}

/// How much is thrown away at once on the way to an offset.
const SKIP: usize = 64 << 10;

impl OpenStream {
    pub(super) fn new(payload: Payload, total: Option<u64>) -> Self {
        Self { payload, at: 0, total }
    }

    /// Receives into `into`; 0 is the end, which has been seen to be it.
    async fn read(&mut self, into: &mut [u8]) -> Result<usize, Failure> {
        let left = self.total.map_or(u64::MAX, |total| total - self.at);
        let len = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if len == 0 {
            return match self.payload.is_at_end().await? {
                true => Ok(0),
                false => Err(too_long(self.at)),
            };
        }
        let n = self.payload.read(&mut into[..len]).await?;
        self.at += n as u64;
        match (n, self.total) {
            (0, Some(total)) => Err(cut_short(self.at, total)),
            _ => Ok(n),
        }
    }

    async fn skip_to(&mut self, offset: u64) -> Result<(), Failure> {
        let mut scratch = vec![0; SKIP];
        while self.at < offset {
            let len = SKIP.min(usize::try_from(offset - self.at).unwrap_or(SKIP));
            if self.read(&mut scratch[..len]).await? == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// Fills what `filler` wants, in its turn.
pub(super) async fn carry(server: &Server, object: &Object, filler: &mut Filler, tries: &mut Tries<'_>) {
    let mut stream = object.stream.lock().await;
    loop {
        let failure = match attempt(server, object, &mut stream, filler, tries).await {
            Ok(()) => return,
            Err(failure) => failure,
        };
        *stream = None;
        if let Err(error) = tries.again(failure, object.origin.name()).await {
            return filler.fail(&error);
        }
    }
}

async fn attempt(
    server: &Server,
    object: &Object,
    slot: &mut Option<OpenStream>,
    filler: &mut Filler,
    tries: &mut Tries<'_>,
) -> Result<(), Failure> {
    if let Some(total) = object.total() {
        filler.clip(total);
    }
    let wanted = filler.missing();
    if wanted.is_empty() {
        filler.end();
        return Ok(());
    }
    // What has been read past is gone.
    if slot.as_ref().is_some_and(|stream| stream.at > wanted.start) {
        *slot = None;
    }
    let stream = match slot {
        Some(stream) => stream,
        None => slot.insert(tries.within(open(object)).await?),
    };
    tries.within(stream.skip_to(wanted.start)).await?;
    while stream.at == filler.missing().start && stream.at < wanted.end {
        let room = filler.room(server).await.map_err(Failure::last)?;
        let n = tries.within(stream.read(room)).await?;
        if n == 0 {
            break;
        }
        tries.arrived(n);
        filler.advance(n);
    }
    let done = match stream.total {
        // The end must be seen before the last bytes count.
        Some(total) if stream.at == total => tries.within(stream.read(&mut [0])).await? == 0,
        Some(_) => false,
        None => stream.at < wanted.end,
    };
    if done {
        object.learn_total(stream.at)?;
        *slot = None;
    }
    filler.end();
    Ok(())
}

async fn open(object: &Object) -> Result<OpenStream, Failure> {
    let opened = object.origin.get(None).await?;
    let total = match check(&opened.facts, &(0..u64::MAX), &object.known()) {
        Ok(promise) => {
            object.learn(&promise.version)?;
            Some(promise.range.end)
        }
        Err(Refusal::NoRanges(version)) => {
            object.learn(&version)?;
            None
        }
        Err(Refusal::PastEnd { .. }) => Some(0),
        Err(refusal) => return Err(refusal.into()),
    };
    if total.is_none() && !opened.payload.proves_its_end() {
        return Err(Failure::last(Error::new(ErrorKind::Unsupported).with_message(
            "the server tells neither the length of the object nor where the reply ends, so that a broken connection \
             would look like its end; say the length with `len`",
        )));
    }
    Ok(OpenStream::new(opened.payload, total))
}
