use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore};
use warpio_core::engine::Segment;
use warpio_core::{Error, ErrorKind, Result};

use super::backend::Backend;
use super::part;
use crate::server::Server;

/// Memory is counted in units of this.
const UNIT: u64 = 1 << 20;

/// What the pieces of one sink share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) backend: Box<dyn Backend>,
    pub(super) server: Arc<Server>,
    state: Mutex<State>,
    /// Told when something moves that `finish` waits for.
    changed: Notify,
    /// Units of memory that parts may take.
    memory: Arc<Semaphore>,
    units: u32,
    first_part: u64,
}

#[derive(Debug, Default)]
struct State {
    /// Where the next write must begin.
    reserved: u64,
    /// How much has been put into parts.
    assembled: u64,
    /// Segments that are not in parts yet, by their offsets.
    waiting: BTreeMap<u64, Segment>,
    assembling: bool,
    /// The part that is being filled, between two tasks that do so.
    part: Option<Part>,
    /// Parts that were sent off.
    parts: usize,
    sent: u64,
    begun: bool,
    uploads: usize,
    closed: bool,
    published: bool,
    broken: Option<Error>,
}

/// A part that is being filled.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) bytes: Vec<u8>,
    pub(super) len: usize,
    memory: tokio::sync::OwnedSemaphorePermit,
}

impl Shared {
    pub(super) fn new(backend: Box<dyn Backend>, server: Arc<Server>) -> Self {
        let settings = &server.settings;
        let first_part = settings.write_part_size.unwrap_or(8 << 20).max(part::LEAST);
        // At least one part must fit.
        let units = u32::try_from(settings.write_memory.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX >> 4);
        let memory = Arc::new(Semaphore::new(units as usize));
        let (state, changed) = (Mutex::default(), Notify::new());
        Self { backend, server, state, changed, memory, units, first_part }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the place of a write that was announced.
    pub(super) fn reserve(&self, offset: u64, len: usize) -> Result<()> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::invalid_input("the object was finished already"));
        }
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        if offset != state.reserved {
            return Err(Error::unsupported(format!(
                "an object is written from its beginning to its end: the next write must begin at {}, not at {offset}",
                state.reserved
            )));
        }
        state.reserved = offset
            .checked_add(len as u64)
            .filter(|&end| end <= i64::MAX as u64)
            .ok_or_else(|| Error::invalid_input("offset + length exceeds what an object can hold"))?;
        Ok(())
    }

    /// Takes the segments of a write. Whether somebody must be started who puts them into parts.
    pub(super) fn take_in(&self, segments: Vec<Segment>) -> bool {
        let refused = {
            let mut state = self.lock();
            match state.broken.clone() {
                Some(error) => (segments, error),
                None => {
                    state.waiting.extend(segments.into_iter().map(|segment| (segment.offset(), segment)));
                    return !std::mem::replace(&mut state.assembling, true);
                }
            }
        };
        let (segments, error) = refused;
        segments.into_iter().for_each(|segment| segment.finish(Err(error.clone())));
        false
    }

    /// The segment at `offset`, if it is there.
    pub(super) fn segment_at(&self, offset: u64) -> Option<Segment> {
        self.lock().waiting.remove(&offset)
    }

    /// How much has been put into parts.
    pub(super) fn assembled(&self) -> u64 {
        self.lock().assembled
    }

    /// Whether whoever puts segments into parts may end, as nothing waits at `offset`.
    pub(super) fn may_rest(&self, offset: u64) -> bool {
        let mut state = self.lock();
        let rest = !state.waiting.contains_key(&offset);
        state.assembling &= !rest;
        drop(state);
        self.changed.notify_waiters();
        rest
    }

    /// So many bytes more are in parts.
    pub(super) fn has_assembled(&self, bytes: u64) {
        self.lock().assembled += bytes;
        self.changed.notify_waiters();
    }

    /// Fails everything, now and later.
    pub(super) fn break_with(&self, error: &Error) {
        let waiting = {
            let mut state = self.lock();
            state.broken.get_or_insert_with(|| error.clone());
            std::mem::take(&mut state.waiting)
        };
        self.changed.notify_waiters();
        waiting.into_values().for_each(|segment| segment.finish(Err(error.clone())));
    }

    pub(super) fn broken(&self) -> Option<Error> {
        self.lock().broken.clone()
    }

    /// The part to fill: the one that was left unfilled, or a new one, for which memory may have to be waited for.
    pub(super) async fn part(&self) -> Result<Part> {
        let index = {
            let mut state = self.lock();
            if let Some(error) = &state.broken {
                return Err(error.clone());
            }
            if let Some(part) = state.part.take() {
                return Ok(part);
            }
            state.parts as u64
        };
        let len = part::length(index, self.first_part);
        let units = u32::try_from(len.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.units);
        let memory = self.memory.clone().acquire_many_owned(units).await;
        let memory = memory.map_err(|_| Error::new(ErrorKind::Gone))?;
        // It may have been waited for until what held it was given up.
        if let Some(error) = self.broken() {
            return Err(error);
        }
        let no_memory = || Error::new(ErrorKind::OutOfMemory).with_message(format!("a part has {len} bytes"));
        let len = usize::try_from(len).map_err(|_| no_memory())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| no_memory())?;
        Ok(Part { bytes, len, memory })
    }

    /// Keeps a part that is not full yet. Once the sink is broken, nobody would fill it, nor free its memory.
    pub(super) fn keep(&self, part: Part) {
        let mut state = self.lock();
        if state.broken.is_none() {
            state.part = Some(part);
        }
    }

    /// Sends a part off, and returns at once.
    pub(super) async fn send(self: &Arc<Self>, part: Part) -> Result<()> {
        self.begin().await?;
        let (index, offset) = {
            let mut state = self.lock();
            let at = (state.parts, state.sent);
            state.parts += 1;
            state.sent += part.bytes.len() as u64;
            state.uploads += 1;
            at
        };
        let Part { bytes, memory, .. } = part;
        let (shared, bytes) = (self.clone(), Bytes::from(bytes));
        let upload = async move {
            let ended = Upload(shared);
            let _memory = memory;
            let Upload(shared) = &ended;
            let put = || shared.backend.put_part(index, offset, bytes.clone());
            if let Err(error) = shared.unless_broken(shared.server.try_until(shared.backend.name(), put)).await {
                shared.break_with(&error);
            }
        };
        if self.backend.is_parallel() {
            self.server.net.spawn(upload);
        } else {
            upload.await;
        }
        Ok(())
    }

    /// Gives a call up as soon as it is of no use any more.
    async fn unless_broken<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let broken = async {
            loop {
                let changed = self.changed.notified();
                if let Some(error) = self.broken() {
                    return error;
                }
                changed.await;
            }
        };
        tokio::select! {
            result = call => result,
            error = broken => Err(error),
        }
    }

    async fn begin(&self) -> Result<()> {
        if self.lock().begun {
            return Ok(());
        }
        self.server.try_until(self.backend.name(), || self.backend.begin()).await?;
        self.lock().begun = true;
        Ok(())
    }

    /// Waits until all that was announced is in the store, and lets it show.
    pub(super) async fn publish(self: &Arc<Self>) -> Result<()> {
        {
            let mut state = self.lock();
            if let Some(error) = &state.broken {
                return Err(error.clone());
            }
            if std::mem::replace(&mut state.closed, true) {
                return Err(Error::invalid_input("the object was finished already"));
            }
        }
        self.wait(|state| state.assembled == state.reserved && !state.assembling).await?;
        let (last, parts) = {
            let mut state = self.lock();
            (state.part.take(), state.parts)
        };
        let name = self.backend.name();
        if parts == 0 {
            let bytes = last.map(|part| Bytes::from(part.bytes)).unwrap_or_default();
            // Where it does not come to be, something may be left all the same.
            self.lock().begun = true;
            self.server.try_until(name, || self.backend.put_whole(bytes.clone())).await?;
        } else {
            if let Some(part) = last {
                self.send(part).await?;
            }
            self.wait(|state| state.uploads == 0).await?;
            let (parts, len) = {
                let state = self.lock();
                (state.parts, state.sent)
            };
            self.server.try_until(name, || self.backend.complete(parts, len)).await?;
        }
        self.lock().published = true;
        Ok(())
    }

    async fn wait(&self, until: impl Fn(&State) -> bool) -> Result<()> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // First the place in the queue, then the look.
            changed.as_mut().enable();
            {
                let state = self.lock();
                if let Some(error) = &state.broken {
                    return Err(error.clone());
                }
                if until(&state) {
                    return Ok(());
                }
            }
            changed.await;
        }
    }

    /// Throws away what is in the store and does not show, once nothing more is being sent there.
    pub(super) async fn abandon(self: Arc<Self>) {
        self.break_with(
            &Error::new(ErrorKind::Cancelled).with_message("the object was dropped before it was finished"),
        );
        let all = self.memory.acquire_many(self.units);
        // A part that nobody fills any more holds memory, too.
        drop(self.lock().part.take());
        drop(all.await);
        let (begun, published) = {
            let state = self.lock();
            (state.begun, state.published)
        };
        if begun && !published {
            let aborted = self.server.try_until(self.backend.name(), || self.backend.abort()).await;
            if let Err(error) = aborted {
                tracing::warn!(%error, object = self.backend.name(), "parts of an object that was given up may be left");
            }
        }
    }

    pub(super) fn is_published(&self) -> bool {
        self.lock().published
    }
}

/// A part that is being sent.
struct Upload(Arc<Shared>);

impl Drop for Upload {
    fn drop(&mut self) {
        self.0.lock().uploads -= 1;
        self.0.changed.notify_waiters();
    }
}

/// A write that was announced. Where it is dropped before its segments have come, it failed, and leaves a hole.
#[derive(Debug)]
pub(super) struct Announced {
    shared: Arc<Shared>,
    came: AtomicBool,
}

impl Announced {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, came: AtomicBool::new(false) }
    }

    pub(super) fn came(&self) {
        self.came.store(true, Ordering::Release);
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        if !self.came.load(Ordering::Acquire) {
            self.shared.break_with(&hole());
        }
    }
}

/// Why an object cannot be finished any more.
pub(super) fn hole() -> Error {
    Error::new(ErrorKind::Cancelled)
        .with_message("a write to this object failed or was cancelled, and left a hole in it")
}
