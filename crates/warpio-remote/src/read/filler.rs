use std::collections::VecDeque;
use std::ops::Range;

use warpio_core::engine::{Lane, Segment};
use warpio_core::{Error, PathKind, Result, Slot};

use crate::server::{Claim, Server};

/// Puts bytes where the segments of a part want them, one after another. A segment is on its way to its device as soon
/// as it is full, while the next is received; only the last one waits until the reply has been seen to end as it must.
#[derive(Debug)]
pub(super) struct Filler {
    segments: VecDeque<Segment>,
    /// Bytes of the first segment that are there.
    filled: usize,
    received: u64,
    /// Where they are, if its memory is not the host's. At most one slot is held while the network is waited for.
    slot: Option<(Lane, Slot)>,
    claim: Option<Claim>,
}

impl Filler {
    /// For neighbouring segments of one transfer.
    pub(super) fn new(mut segments: VecDeque<Segment>, claim: Option<Claim>) -> Self {
        segments.iter_mut().for_each(|segment| segment.set_path(PathKind::Remote));
        Self { segments, filled: 0, received: 0, slot: None, claim }
    }

    /// What is still to be received.
    pub(super) fn missing(&self) -> Range<u64> {
        let start = self.segments.front().map_or(0, |segment| segment.offset() + self.filled as u64);
        let end = self.segments.back().map_or(start, |segment| segment.offset() + segment.len() as u64);
        start..end
    }

    /// How many bytes came in all.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Whether every segment has ended.
    pub(super) fn is_done(&self) -> bool {
        self.segments.is_empty()
    }

    /// Memory for the next bytes, never empty while some are missing.
    pub(super) async fn room(&mut self, server: &Server) -> Result<&mut [u8]> {
        let Some(segment) = self.segments.front() else { return Ok(&mut []) };
        let rest = self.filled..segment.len();
        if let Some(memory) = segment.host_memory() {
            // SAFETY: the memory is valid and initialised for the segment's length until that is finished or dropped,
            // and nothing else reaches it. The slice borrows the filler, which finishes segments through `&mut self`.
            let memory = unsafe { std::slice::from_raw_parts_mut(memory.as_ptr(), segment.len()) };
            return Ok(&mut memory[rest]);
        }
        if self.slot.is_none() {
            let lane = server.lane(segment.device())?;
            let slot = segment.device().staging().acquire(segment.len()).await?;
            self.slot = Some((lane, slot));
        }
        match &mut self.slot {
            Some((_, slot)) => Ok(&mut slot.as_mut_slice()[rest]),
            None => unreachable!("it was just acquired"),
        }
    }

    /// So many bytes of the room were filled.
    pub(super) fn advance(&mut self, n: usize) {
        self.filled += n;
        self.received += n as u64;
        if let Some(claim) = &mut self.claim {
            claim.came(n as u64);
        }
        let full = self.segments.front().is_some_and(|segment| self.filled >= segment.len());
        if full && self.segments.len() > 1 {
            self.finish_first();
        }
    }

    /// The bytes that are there are good, and there are no more of them: what is missing lies behind the end.
    pub(super) fn end(&mut self) {
        while !self.segments.is_empty() {
            self.finish_first();
        }
    }

    /// What lies behind `total` is the end.
    pub(super) fn clip(&mut self, total: u64) {
        while let Some(last) = self.segments.back()
            && last.offset() >= total
            && (self.segments.len() > 1 || self.filled == 0)
        {
            if let Some(segment) = self.segments.pop_back() {
                segment.finish(Ok(0));
            }
        }
    }

    pub(super) fn fail(&mut self, error: &Error) {
        for segment in self.segments.drain(..) {
            segment.finish(Err(error.clone()));
        }
        self.slot = None;
    }

    fn finish_first(&mut self) {
        let Some(segment) = self.segments.pop_front() else { return };
        let n = std::mem::take(&mut self.filled);
        match self.slot.take() {
            Some((lane, slot)) if n > 0 => segment.copy_in(&lane, slot, n),
            _ => segment.finish(Ok(n)),
        }
    }
}
