use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{ALIGN, ROW, Shared};
use crate::device::{Device, ScatterRow};
use crate::engine::completion::Completion;
use crate::engine::lane::Lane;
use crate::plan::{Packed, Piece};
use crate::pool::Slot;
use crate::transfer::PathKind;
use crate::{Error, ErrorKind, Result};

/// A part of a read of many ranges: some runs, and the pieces that they serve.
///
/// Dropped unfinished, the whole read fails as [`Gone`](ErrorKind::Gone), or as [`Cancelled`](ErrorKind::Cancelled) if
/// it was. It must not be dropped or finished while anything can touch the memory of its pieces.
pub struct GatherTask {
    shared: Arc<Shared>,
    packed: Arc<Packed>,
    runs: Range<usize>,
    pieces: Range<usize>,
    path: PathKind,
    finished: bool,
}

/// One contiguous read of a [`GatherTask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatherRun {
    /// What to read.
    pub range: Range<u64>,
    /// Where it goes in a slot, as an offset that [`GatherTask::layout`] chose.
    pub slot_offset: usize,
    pieces: Range<usize>,
}

impl GatherRun {
    /// The length in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }
}

impl GatherTask {
    pub(super) fn new(shared: Arc<Shared>, packed: Arc<Packed>, runs: Range<usize>, pieces: Range<usize>) -> Self {
        Self { shared, packed, runs, pieces, path: PathKind::PageCache, finished: false }
    }

    /// The device that the pieces are on.
    pub fn device(&self) -> &Device {
        &self.shared.operation.device
    }

    /// Whether the work can be skipped.
    pub fn is_moot(&self) -> bool {
        self.shared.operation.is_moot()
    }

    /// Says which way the bytes take; [`PathKind::PageCache`] otherwise.
    pub fn set_path(&mut self, path: PathKind) {
        self.path = path;
    }

    /// The reads of this task, each with a place in a slot, one behind another, and the length of the slot that holds
    /// them and the table of their pieces.
    pub fn layout(&self) -> (Vec<GatherRun>, usize) {
        let mut at = 0;
        let runs = self.runs.clone().map(|run| {
            let of_run = self.packed.pieces_of(run);
            let pieces = of_run.start.max(self.pieces.start)..of_run.end.min(self.pieces.end);
            let range = self.packed.range(run);
            // Bytes whose source and destination are equally aligned are copied in wide words.
            if let Some(first) = self.packed.pieces()[pieces.clone()].first() {
                let want = self.place(first).wrapping_sub(first.run_offset as usize) % ALIGN;
                at += (want + ALIGN - at % ALIGN) % ALIGN;
            }
            let run = GatherRun { range, slot_offset: at, pieces };
            at += run.len();
            run
        });
        let runs: Vec<_> = runs.collect();
        (runs, at.next_multiple_of(8) + self.pieces.len() * ROW)
    }

    fn place(&self, piece: &Piece) -> usize {
        self.shared.places[piece.index] + piece.range_offset as usize
    }

    fn pieces(&self, run: &GatherRun) -> &[Piece] {
        &self.packed.pieces()[run.pieces.clone()]
    }

    /// Where the processor and the kernel can put the bytes of a run at once: a run that is one piece in host memory.
    /// It is valid for [`len`](GatherRun::len) bytes until the task is finished or dropped.
    pub fn host_memory(&self, run: &GatherRun) -> Option<NonNull<u8>> {
        match self.pieces(run) {
            [piece] if piece.len as usize == run.len() && self.device().is_host_visible() => {
                NonNull::new(self.place(piece) as *mut u8)
            }
            _ => None,
        }
    }

    /// Copies the pieces of a run whose first bytes are `bytes` to their places in host memory.
    ///
    /// # Panics
    /// If the places are not in host memory.
    pub fn copy_out_of(&self, run: &GatherRun, bytes: &[u8]) {
        assert!(self.device().is_host_visible(), "the processor cannot write memory of {}", self.device());
        for piece in self.pieces(run) {
            let Some(bytes) = bytes.get(piece.run_offset as usize..) else { continue };
            let n = bytes.len().min(piece.len as usize);
            // SAFETY: the place belongs to the lease and is valid for the piece's length; pieces never overlap, and
            // `bytes` is no part of the lease, which nothing else borrows.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.place(piece) as *mut u8, n) };
        }
    }

    /// Says what became of a run: how many of its bytes arrived, fewer than its length at the end of the source only,
    /// or why none did. It does not end the task.
    pub fn settle(&self, run: &GatherRun, result: &Result<usize>) {
        let results = &self.shared.results;
        let mut arrived = 0;
        for piece in self.pieces(run) {
            match result {
                Ok(n) => {
                    let here = (*n as u64).saturating_sub(piece.run_offset).min(piece.len);
                    arrived += here;
                    if here < piece.len {
                        results.cut_short(piece.index, piece.range_offset + here);
                    }
                }
                Err(error) => {
                    let operation = &self.shared.operation;
                    let range = &self.shared.ranges[piece.index];
                    let len = range.end - range.start;
                    results.fail(piece.index, error.clone().or_context("read", &operation.source, range.start, len));
                }
            }
        }
        self.shared.operation.control.report().add(self.path, arrived);
    }

    /// Ends the task: everything is in its place and nothing touches its memory any more.
    pub fn finish(mut self) {
        self.end();
    }

    /// Fails every range that this task serves a part of.
    pub fn fail(mut self, error: &Error) {
        let (runs, _) = self.layout();
        runs.iter().for_each(|run| self.settle(run, &Err(error.clone())));
        self.end();
    }

    fn end(&mut self) {
        self.finished = true;
        self.shared.operation.one_queued();
        self.shared.operation.one_done();
    }

    /// Sends the pieces from `slot`, where the runs were read to their offsets with these results, to their places on
    /// the device, and takes care of the rest.
    pub fn scatter(mut self, lane: &Lane, mut slot: Slot, runs: &[(GatherRun, Result<usize>)]) {
        let start = runs.iter().map(|(run, _)| run.slot_offset + run.len()).max().unwrap_or(0).next_multiple_of(8);
        let count = match self.write_rows(&mut slot, start, runs) {
            Ok(count) if lane.device() == self.device() => count,
            Ok(_) => return self.fail(&Error::invalid_input("a copy stream of another device was used")),
            Err(error) => return self.fail(&error),
        };
        runs.iter().for_each(|(run, result)| self.settle(run, result));
        let base = self.pieces.clone().next().map(|at| self.place(&self.packed.pieces()[at]));
        let Some(base) = base.and_then(|at| NonNull::new(at as *mut u8)).filter(|_| count > 0) else {
            return self.end();
        };
        let bytes = slot.as_ptr();
        // SAFETY: `write_rows` put `count` rows there, aligned and within the slot, and nothing writes the slot until
        // the copies are done.
        let rows = unsafe { std::slice::from_raw_parts(bytes.as_ptr().add(start).cast::<ScatterRow>(), count) };
        // SAFETY: every row lies within a run in the slot and within the place of a piece; slot and lease are held by
        // the completion until an event behind the copies has happened.
        let copied = unsafe { lane.stream().backend().scatter(base, bytes, rows) };
        if let Err(error) = copied {
            // Some copies may be under way, so the event is waited for all the same.
            self.shared.operation.fail(error);
        }
        self.finished = true;
        let operation = &self.shared.operation;
        match lane.stream().record() {
            Ok(event) => {
                operation.add_event(lane.id(), event.clone());
                // Registered as a completion before it counts as queued, as for a segment.
                let completion = Completion::new(operation.clone(), slot);
                operation.one_queued();
                self.device().backend().watch(event, Box::new(move |result| completion.done(result)));
            }
            Err(error) => {
                if error.kind() != ErrorKind::DeviceLost {
                    operation.taint();
                    slot.leak();
                }
                operation.fail(error);
                self.end();
            }
        }
    }

    /// Writes the table of what arrived, neighbours joined, and returns how many rows it has.
    fn write_rows(&self, slot: &mut Slot, start: usize, runs: &[(GatherRun, Result<usize>)]) -> Result<usize> {
        let too_small = || Error::invalid_input("the slot is too small for the task");
        let Some(first) = self.packed.pieces().get(self.pieces.start) else { return Ok(0) };
        let base = self.place(first);
        let table = slot.as_mut_slice().get_mut(start..).ok_or_else(too_small)?;
        let (rows, _) = table.as_chunks_mut::<ROW>();
        let (mut count, mut last) = (0, ScatterRow::default());
        for (run, result) in runs {
            let n = result.as_ref().map_or(0, |n| *n as u64);
            for piece in self.pieces(run) {
                let row = ScatterRow {
                    from: run.slot_offset as u64 + piece.run_offset,
                    to: self.place(piece).wrapping_sub(base) as u64,
                    len: n.saturating_sub(piece.run_offset).min(piece.len),
                };
                if row.len == 0 {
                    continue;
                }
                let joins = count > 0 && last.from + last.len == row.from && last.to.wrapping_add(last.len) == row.to;
                if joins {
                    last.len += row.len;
                } else {
                    (last, count) = (row, count + 1);
                }
                let at = rows.get_mut(count - 1).ok_or_else(too_small)?;
                at[..8].copy_from_slice(&last.from.to_ne_bytes());
                at[8..16].copy_from_slice(&last.to.to_ne_bytes());
                at[16..].copy_from_slice(&last.len.to_ne_bytes());
            }
        }
        Ok(count)
    }
}

impl Drop for GatherTask {
    fn drop(&mut self) {
        if !self.finished {
            self.shared.operation.fail(self.shared.operation.gone());
            self.end();
        }
    }
}

impl fmt::Debug for GatherTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatherTask")
            .field("runs", &self.runs.len())
            .field("pieces", &self.pieces.len())
            .finish_non_exhaustive()
    }
}
