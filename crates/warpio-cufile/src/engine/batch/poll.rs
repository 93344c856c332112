//! The thread that asks for events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::piece::Piece;
use super::super::shared::{Shared, count};
use super::super::sync::MAX_INTERRUPTIONS;
use super::super::verdict::{self, Verdict};
use super::handle::BatchHandle;
use crate::error::{CuFileError, Failure};
use crate::sys::IoEvent;
use warpio_cuda::CudaDeviceExt;

/// How long one question for events waits: long enough to be cheap, short enough to notice what else is to do.
const PATIENCE: Duration = Duration::from_millis(10);
/// An answer without events that came sooner than this did not wait for any.
const AT_ONCE: Duration = Duration::from_micros(500);
/// How long to sleep after such an answer, at first and at most.
const NAPS: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(2));
/// So many refusals to tell events in a row are one too many.
const MAX_REFUSALS: u32 = 16;

pub(super) fn run(shared: &Arc<Shared>) {
    if let Err(error) = shared.driver.device().adopt_thread() {
        tracing::warn!(%error, "the thread that asks for events does not have the context");
    }
    let mut poller = Poller {
        shared,
        events: vec![IoEvent::NONE; shared.batches.depth],
        last_event: Instant::now(),
        nap: NAPS.0,
        refusals: 0,
    };
    while let Some(turn) = poller.next() {
        match turn {
            Turn::Ask(handle) => poller.ask(&handle),
            Turn::Replace(error) => poller.replace(&error),
        }
    }
}

enum Turn {
    Ask(Arc<BatchHandle>),
    /// The batch is lost.
    Replace(CuFileError),
}

struct Poller<'a> {
    shared: &'a Arc<Shared>,
    events: Vec<IoEvent>,
    last_event: Instant,
    nap: Duration,
    refusals: u32,
}

impl Poller<'_> {
    /// Sleeps until there is something to do; `None` when there never will be.
    fn next(&mut self) -> Option<Turn> {
        let batches = &self.shared.batches;
        let mut state = batches.lock();
        loop {
            match (&state.lost, &state.handle) {
                // Nobody may be in the library with a batch that is destroyed.
                (Some(error), _) if !state.in_submit => return Some(Turn::Replace(error.clone())),
                (None, Some(handle)) if state.entries.len() > 0 => return Some(Turn::Ask(handle.clone())),
                (None, _) if state.closed && state.entries.len() == 0 => {
                    let handle = state.handle.take();
                    drop(state);
                    if let Some(handle) = handle {
                        handle.destroy();
                    }
                    return None;
                }
                _ => {}
            }
            state = batches.wait(state);
            // What was submitted in between counts from now on.
            self.last_event = Instant::now();
            self.nap = NAPS.0;
        }
    }

    fn ask(&mut self, handle: &BatchHandle) {
        let began = Instant::now();
        let answer = self.shared.batches.polling.during(|| handle.events(PATIENCE, &mut self.events));
        match answer {
            Ok(0) => self.nothing_came(began),
            Ok(count) => {
                self.refusals = 0;
                self.nap = NAPS.0;
                self.last_event = Instant::now();
                for event in &self.events[..count] {
                    settle(self.shared, event);
                }
                self.shared.batches.changed.notify_all();
            }
            Err(error) => {
                self.refusals += 1;
                if self.refusals > MAX_REFUSALS {
                    self.refusals = 0;
                    return self.lose(error);
                }
                tracing::debug!(%error, "cuFile does not tell events");
                self.nothing_came(began);
            }
        }
    }

    fn nothing_came(&mut self, began: Instant) {
        let stall = self.shared.options.stall;
        if self.last_event.elapsed() > stall {
            let failure = Failure::Nonsense("no event came for long");
            return self.lose(CuFileError::new("cuFileBatchIOGetStatus", failure));
        }
        // Some answers come at once although something is in flight; others have waited already.
        if began.elapsed() < AT_ONCE {
            std::thread::sleep(self.nap);
            self.nap = (self.nap * 2).min(NAPS.1);
        }
    }

    fn lose(&self, error: CuFileError) {
        let mut state = self.shared.batches.lock();
        state.lost = state.lost.take().or(Some(error));
    }

    /// Destroys the batch, which waits for what is in flight, and sends its entries another way.
    fn replace(&mut self, error: &CuFileError) {
        tracing::warn!(%error, "cuFile lost a batch; its requests go by calls of their own");
        count(&self.shared.counts.lost_batches);
        let batches = &self.shared.batches;
        let handle = batches.lock().handle.take();
        if let Some(handle) = handle {
            batches.polling.during(|| handle.destroy());
        }
        let entries = {
            let mut state = batches.lock();
            state.lost = None;
            state.entries.drain()
        };
        batches.changed.notify_all();
        for entry in entries {
            drop(entry.pin);
            self.shared.retry(entry.piece, error.clone());
        }
        self.last_event = Instant::now();
    }
}

/// Ends the entry that an event is about, or asks for the rest of it.
fn settle(shared: &Arc<Shared>, event: &IoEvent) {
    let cookie = event.cookie as usize as u64;
    let (entry, verdict) = {
        let mut state = shared.batches.lock();
        let Some(entry) = state.entries.get(cookie) else {
            tracing::warn!("cuFile sent an event for something that is not in flight");
            return;
        };
        let verdict = verdict::event(entry.piece.direction(), entry.piece.left(), event);
        if verdict == Verdict::Pending {
            return;
        }
        match state.entries.remove(cookie) {
            Some(entry) => (entry, verdict),
            None => return,
        }
    };
    drop(entry.pin);
    let (mut piece, path) = (entry.piece, entry.file.path);
    match verdict {
        Verdict::End if entry.file.handle.has_more(piece.offset()) => {
            shared.retry(piece, verdict::false_end("cuFileBatchIOGetStatus"));
        }
        Verdict::Done => {
            piece.done += piece.left();
            piece.finish(path);
        }
        Verdict::End => piece.finish(path),
        Verdict::Short(n) => {
            piece.done += n;
            again(shared, piece);
        }
        Verdict::Interrupted if piece.interruptions < MAX_INTERRUPTIONS => {
            piece.interruptions += 1;
            again(shared, piece);
        }
        Verdict::Interrupted => {
            shared.retry(piece, CuFileError::new("cuFileBatchIOGetStatus", Failure::Os(libc::EINTR)));
        }
        Verdict::Failed(error) => shared.retry(piece, error),
        Verdict::Pending => {}
    }
}

fn again(shared: &Shared, piece: Piece) {
    shared.entries.push(vec![piece]);
}
