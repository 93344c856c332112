//! A read of many ranges: one operation, planned on a thread of an engine and cut into tasks of many pieces. No piece is
//! an object of its own.

mod parts;
mod place;
mod results;
mod scatter;
mod task;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::operation::Operation;
use crate::device::Device;
use crate::plan::{Packed, pack};
use crate::{Error, Result};

pub(super) use parts::{Parts, by_segments};
pub(super) use results::Results;
pub use task::{GatherRun, GatherTask};

/// How many bytes a task reads unless one run has more: 256 pieces of 4 KiB. Small enough that all threads have some,
/// and that others' turns come soon.
const TASK: usize = 1 << 20;

/// Room for a run's first byte to be moved to where its place can be written in wide words.
const ALIGN: usize = 16;

/// How much longer a run becomes where direct I/O asks for aligned reads.
const WIDER: usize = 2 * 4096;

/// The size of a row of the table that the device scatters by.
const ROW: usize = size_of::<crate::device::ScatterRow>();

/// A read of many ranges that nobody has planned yet. Dropped, it fails as [`Gone`](crate::ErrorKind::Gone), or as
/// [`Cancelled`](crate::ErrorKind::Cancelled) if it was.
pub struct Gather {
    shared: Arc<Shared>,
    gap: u64,
    finished: bool,
}

/// What the tasks of one read share.
struct Shared {
    operation: Arc<Operation>,
    /// The address of every range's place, in the lease.
    places: Box<[usize]>,
    /// All places are in one buffer. Where they are not, one may end where another begins, and still no copy may span both:
    /// a driver refuses to write to two allocations at once.
    one_buffer: bool,
    results: Arc<Results>,
    ranges: Box<[Range<u64>]>,
}

impl Gather {
    pub(super) fn new(
        operation: Arc<Operation>,
        mut ranges: Box<[Range<u64>]>,
        places: Box<[usize]>,
        one_buffer: bool,
        results: Arc<Results>,
        gap: u64,
    ) -> Self {
        results.each_failed(|index| ranges[index] = 0..0);
        Self { shared: Arc::new(Shared { operation, places, one_buffer, results, ranges }), gap, finished: false }
    }

    /// The device that the ranges are read to.
    pub fn device(&self) -> &Device {
        &self.shared.operation.device
    }

    /// Whether the work can be skipped.
    pub fn is_moot(&self) -> bool {
        self.shared.operation.is_moot()
    }

    /// Ends the read as a whole.
    pub fn fail(mut self, error: Error) {
        self.finished = true;
        self.end(Err(error));
    }

    fn end(&self, result: Result<()>) {
        if let Err(error) = result {
            self.shared.operation.fail(error);
        }
        self.shared.operation.one_queued();
        self.shared.operation.one_done();
    }

    /// Cuts the read into tasks. Sorting a million ranges takes a tenth of a second: not for a tokio worker.
    pub fn plan(mut self) -> Vec<GatherTask> {
        self.finished = true;
        let slot = self.device().staging().slot_len();
        // What a slot holds besides the bytes is the table.
        let packed = Arc::new(pack(&self.shared.ranges, self.gap, (slot / 4 * 3) as u64));
        let tasks = cut(&packed, slot)
            .into_iter()
            .map(|(runs, pieces)| {
                self.shared.operation.one_more();
                GatherTask::new(self.shared.clone(), packed.clone(), runs, pieces)
            })
            .collect();
        self.end(Ok(()));
        tasks
    }
}

/// The runs and pieces of every task: as many as fit in a slot with their table. A run with more pieces than that is
/// read by several.
fn cut(packed: &Packed, slot: usize) -> Vec<(Range<usize>, Range<usize>)> {
    let mut tasks: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    let mut room = 0;
    for run in 0..packed.len() {
        let (range, mut pieces) = (packed.range(run), packed.pieces_of(run));
        let bytes = (range.end - range.start) as usize + ALIGN;
        if let Some((runs, of_task)) = tasks.last_mut().filter(|_| bytes + pieces.len() * ROW <= room) {
            room -= bytes + pieces.len() * ROW;
            (runs.end, of_task.end) = (run + 1, pieces.end);
            continue;
        }
        // Behind the bytes there is a quarter of the slot, and a row to align the table.
        let most = (slot.saturating_sub(bytes + WIDER) / ROW).saturating_sub(1).max(1);
        while pieces.len() > most {
            tasks.push((run..run + 1, pieces.start..pieces.start + most));
            pieces.start += most;
        }
        room = TASK.min(slot - ROW).saturating_sub(bytes + pieces.len() * ROW);
        tasks.push((run..run + 1, pieces));
    }
    tasks
}

impl Drop for Gather {
    fn drop(&mut self) {
        if !self.finished {
            self.end(Err(self.shared.operation.gone()));
        }
    }
}

impl fmt::Debug for Gather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gather").field("ranges", &self.shared.ranges.len()).finish_non_exhaustive()
    }
}
