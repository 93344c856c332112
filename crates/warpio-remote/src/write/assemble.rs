//! Puts segments into parts, in the order of their offsets.

use std::pin::Pin;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesOrdered;
use warpio_core::engine::Segment;
use warpio_core::{Error, ErrorKind, Result, Slot};

use super::shared::{Shared, hole};

/// Segments that are copied out of a device at once, while the bytes of one are put into a part.
const AHEAD: usize = 4;

type Staging = Pin<Box<dyn Future<Output = Option<(Segment, Option<Slot>)>> + Send>>;

/// Takes segments until none waits. Dropped before, it breaks the sink.
pub(super) async fn assemble(shared: Arc<Shared>) {
    let guard = Guard { shared: &shared, ended: false };
    let mut staged: FuturesOrdered<Staging> = FuturesOrdered::new();
    let mut next = shared.assembled();
    loop {
        while staged.len() < AHEAD
            && let Some(segment) = shared.segment_at(next)
        {
            next += segment.len() as u64;
            staged.push_back(Box::pin(stage(shared.clone(), segment)));
        }
        match staged.next().await {
            Some(Some((segment, slot))) => put(&shared, segment, slot.as_ref()).await,
            // The device failed, and the write with it.
            Some(None) => shared.break_with(&hole()),
            None if shared.may_rest(next) => break,
            None => {}
        }
    }
    guard.end();
}

struct Guard<'a> {
    shared: &'a Shared,
    ended: bool,
}

impl Guard<'_> {
    fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.break_with(&Error::new(ErrorKind::Gone));
        }
    }
}

/// Brings a segment into host memory. Slots are waited for in order, so that the first segment never waits for those
/// behind it.
async fn stage(shared: Arc<Shared>, segment: Segment) -> Option<(Segment, Option<Slot>)> {
    if segment.host_memory().is_some() {
        return Some((segment, None));
    }
    let staging = segment.device().staging().clone();
    let (lane, slot) = match (shared.server.lane(segment.device()), staging.acquire(segment.len()).await) {
        (Ok(lane), Ok(slot)) => (lane, slot),
        (Err(error), _) | (_, Err(error)) => {
            segment.finish(Err(error));
            return None;
        }
    };
    let outgoing = segment.copy_out(&lane, slot)?;
    let (tx, rx) = tokio::sync::oneshot::channel();
    outgoing.then(move |segment, slot| drop(tx.send((segment, Some(slot)))));
    rx.await.ok()
}

async fn put(shared: &Arc<Shared>, segment: Segment, slot: Option<&Slot>) {
    if let Some(error) = shared.broken() {
        return segment.finish(Err(error));
    }
    if segment.is_moot() {
        segment.skip();
        return shared.break_with(&hole());
    }
    let len = segment.len();
    let bytes = match (slot, segment.host_memory()) {
        (Some(slot), _) => &slot.as_slice()[..len],
        // SAFETY: the memory is valid and initialised for `len` bytes until the segment is finished or dropped, and
        // the slice is not used afterwards; nothing writes it meanwhile.
        (None, Some(memory)) => unsafe { std::slice::from_raw_parts(memory.as_ptr(), len) },
        (None, None) => unreachable!("a segment of a device has a slot"),
    };
    match fill(shared, bytes).await {
        Ok(()) => {
            shared.has_assembled(len as u64);
            segment.finish(Ok(len));
        }
        Err(error) => {
            shared.break_with(&error);
            segment.finish(Err(error));
        }
    }
}

async fn fill(shared: &Arc<Shared>, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        let mut part = shared.part().await?;
        let n = bytes.len().min(part.len - part.bytes.len());
        part.bytes.extend_from_slice(&bytes[..n]);
        bytes = &bytes[n..];
        match part.bytes.len() == part.len {
            true => shared.send(part).await?,
            false => shared.keep(part),
        }
    }
    Ok(())
}
