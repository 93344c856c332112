use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{ALIGN, ROW, Shared};
use crate::device::Device;
use crate::plan::{Packed, Piece};
use crate::transfer::PathKind;
use crate::{Error, Result};

/// A part of a read of many ranges: some runs, and the pieces that they serve.
///
/// Dropped unfinished, the whole read fails as [`Gone`](crate::ErrorKind::Gone), or as
/// [`Cancelled`](crate::ErrorKind::Cancelled) if it was. It must not be dropped or finished while anything can touch the
/// memory of its pieces.
pub struct GatherTask {
    pub(super) shared: Arc<Shared>,
    packed: Arc<Packed>,
    runs: Runs,
    path: PathKind,
    pub(super) finished: bool,
}

enum Runs {
    /// Some of the plan's, and the pieces that this task serves of them.
    Planned(Range<usize>, Range<usize>),
    Listed(Vec<GatherRun>),
}

/// One contiguous read of a [`GatherTask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatherRun {
    /// What to read.
    pub range: Range<u64>,
    /// Where it goes in a slot, as an offset that [`GatherTask::layout`] chose.
    pub slot_offset: usize,
    pub(super) pieces: Range<usize>,
    /// Where it begins in the run that was planned.
    shift: u64,
    /// It was read to its own place in host memory, not to the slot.
    pub(super) own: bool,
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
        Self { shared, packed, runs: Runs::Planned(runs, pieces), path: PathKind::PageCache, finished: false }
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

    /// Its runs, without places in a slot.
    pub(super) fn runs(&self) -> Vec<GatherRun> {
        let (runs, pieces) = match &self.runs {
            Runs::Listed(runs) => return runs.clone(),
            Runs::Planned(runs, pieces) => (runs.clone(), pieces),
        };
        let run = |run| {
            let of_run = self.packed.pieces_of(run);
            let pieces = of_run.start.max(pieces.start)..of_run.end.min(pieces.end);
            GatherRun { range: self.packed.range(run), slot_offset: 0, pieces, shift: 0, own: false }
        };
        runs.map(run).collect()
    }

    /// Its reads, each with a place in a slot, one behind another, and the length of the slot that holds them and the
    /// table of their pieces.
    pub fn layout(&self) -> (Vec<GatherRun>, usize) {
        let mut runs = self.runs();
        let (mut at, mut rows) = (0, 0);
        for run in &mut runs {
            run.slot_offset = self.aligned_place(run, at);
            at = run.slot_offset + run.len();
            rows += run.pieces.len();
        }
        (runs, at.next_multiple_of(8) + rows * ROW)
    }

    /// The first offset from `at` on at which the run's bytes are aligned as their destination is: they can be copied in
    /// wide words then.
    pub(super) fn aligned_place(&self, run: &GatherRun, at: usize) -> usize {
        let Some(first) = self.pieces(run).first() else { return at };
        let want = self.place(first).wrapping_sub(self.offset_in(run, first) as usize) % ALIGN;
        at + (want + ALIGN - at % ALIGN) % ALIGN
    }

    /// A run cut into its pieces, in the places where they are in it: for when it failed as a whole, so that those of
    /// its ranges that can be read are. `None` if there is but one.
    pub fn each_alone(&self, run: &GatherRun) -> Option<Vec<GatherRun>> {
        let alone = |(at, piece): (usize, &Piece)| {
            let start = run.range.start + self.offset_in(run, piece);
            GatherRun {
                range: start..start + piece.len,
                slot_offset: run.slot_offset + self.offset_in(run, piece) as usize,
                pieces: run.pieces.start + at..run.pieces.start + at + 1,
                shift: piece.run_offset,
                own: false,
            }
        };
        (run.pieces.len() > 1).then(|| self.pieces(run).iter().enumerate().map(alone).collect())
    }

    /// Where a piece begins in a run.
    pub(super) fn offset_in(&self, run: &GatherRun, piece: &Piece) -> u64 {
        piece.run_offset - run.shift
    }

    /// Takes `runs`, some of its own, out into a task of their own. They must not be given to this one any more.
    #[must_use = "the read fails otherwise"]
    pub fn split_off(&self, runs: Vec<GatherRun>) -> Self {
        self.shared.operation.one_more();
        Self {
            shared: self.shared.clone(),
            packed: self.packed.clone(),
            runs: Runs::Listed(runs),
            path: self.path,
            finished: false,
        }
    }

    pub(super) fn place(&self, piece: &Piece) -> usize {
        self.shared.places[piece.index] + piece.range_offset as usize
    }

    pub(super) fn pieces(&self, run: &GatherRun) -> &[Piece] {
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
            let Some(bytes) = bytes.get(self.offset_in(run, piece) as usize..) else { continue };
            let n = bytes.len().min(piece.len as usize);
            // SAFETY: the place belongs to the lease and is valid for the piece's length; pieces never overlap, and
            // `bytes` is no part of the lease, which nothing else borrows.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.place(piece) as *mut u8, n) };
        }
    }

    /// Says what became of some runs: how many of their bytes arrived, fewer than a run's length at the end of the
    /// source only, or why none did.
    pub(super) fn settle<'a>(&self, runs: impl IntoIterator<Item = &'a (GatherRun, Result<usize>)>) {
        let arrived = runs.into_iter().map(|(run, result)| self.settle_run(run, result)).sum();
        self.count(self.path, arrived);
    }

    pub(super) fn count(&self, path: PathKind, arrived: u64) {
        self.shared.operation.control.report().add(path, arrived);
    }

    /// Returns how many bytes arrived in their places.
    pub(super) fn settle_run(&self, run: &GatherRun, result: &Result<usize>) -> u64 {
        let results = &self.shared.results;
        let mut arrived = 0;
        for piece in self.pieces(run) {
            match result {
                Ok(n) => {
                    let here = (*n as u64).saturating_sub(self.offset_in(run, piece)).min(piece.len);
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
        arrived
    }

    /// Ends the task: everything is in its place in host memory, and nothing touches that any more. The results are
    /// those of its runs: the bytes that arrived, fewer than a run's length at the end of the source only, or why none
    /// did.
    pub fn finish(mut self, results: &[(GatherRun, Result<usize>)]) {
        self.settle(results);
        self.end();
    }

    /// Fails every range that this task serves a part of.
    pub fn fail(self, error: &Error) {
        let runs = self.runs();
        self.fail_runs(runs.iter(), error);
    }

    pub(super) fn fail_runs<'a>(mut self, runs: impl Iterator<Item = &'a GatherRun>, error: &Error) {
        let result = Err(error.clone());
        runs.for_each(|run| _ = self.settle_run(run, &result));
        self.end();
    }

    pub(super) fn end(&mut self) {
        self.finished = true;
        self.shared.operation.one_queued();
        self.shared.operation.one_done();
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
        f.debug_struct("GatherTask").field("runs", &self.runs().len()).finish_non_exhaustive()
    }
}
