//! Where in a slot runs are read that another engine reads as segments.

use std::ptr::NonNull;

use super::ROW;
use super::task::{GatherRun, GatherTask};

/// A run, and the read that serves it: of more than the run where direct I/O asks for it.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) run: GatherRun,
    /// The bytes of the read before the run's.
    pub(super) head: usize,
    /// Where the read begins in the source, and how long it is.
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) memory: Memory,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Memory {
    /// The run's own place in host memory.
    Own(NonNull<u8>),
    /// An offset in a slot.
    Slot(usize),
}

// SAFETY: an address in the lease, which any thread may use.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl GatherTask {
    /// Whether each of its runs has room in a slot, beside its table, where reads begin and end at multiples of
    /// `align`. [`read_by`](Self::read_by) reads those that have not as they stand.
    pub fn fits_aligned(&self, align: usize) -> bool {
        let room = self.device().staging().slot_len();
        self.runs().iter().all(|run| {
            let placed = self.place_run(run, align, 0);
            match placed.memory {
                Memory::Own(_) => true,
                Memory::Slot(_) => {
                    placed.len.is_multiple_of(align) && placed.end(0).next_multiple_of(8) + self.table(run) <= room
                }
            }
        })
    }

    /// The length of a run's table.
    fn table(&self, run: &GatherRun) -> usize {
        if self.device().is_host_visible() { 0 } else { run.pieces.len() * ROW }
    }

    /// The first of `runs`, as many as fit in a slot of `room` bytes with their table, but at least one; and the length
    /// of the slot that they need. Reads into a slot begin and end at multiples of `align`, in the source and in the
    /// slot.
    pub(super) fn place_runs(&self, runs: &[GatherRun], align: usize, room: usize) -> (Vec<Placed>, usize) {
        let mut placed = Vec::with_capacity(runs.len());
        let (mut at, mut rows) = (0usize, 0);
        for run in runs {
            let mut next = self.place_run(run, align, at);
            let table = rows + self.table(run);
            if next.end(at).next_multiple_of(8) + table > room {
                if !placed.is_empty() {
                    break;
                }
                // As it stands, it fits: that is how it was planned.
                next = self.place_run(run, 1, at);
            }
            (at, rows) = (next.end(at), table);
            placed.push(next);
        }
        let len = if at == 0 { 0 } else { at.next_multiple_of(8) + rows };
        (placed, len)
    }

    fn place_run(&self, run: &GatherRun, align: usize, at: usize) -> Placed {
        let mut run = run.clone();
        run.own = false;
        // What is not aligned would need staging memory of its own, and wait for it while it holds some here.
        let aligned = |own: &NonNull<u8>| {
            (own.as_ptr() as usize | run.range.start as usize | run.len()).is_multiple_of(align.max(1))
        };
        if let Some(own) = self.host_memory(&run).filter(aligned) {
            let (offset, len) = (run.range.start, run.len());
            run.own = true;
            return Placed { run, head: 0, offset, len, memory: Memory::Own(own) };
        }
        let step = align.max(1) as u64;
        let start = run.range.start / step * step;
        let end = run.range.end.checked_next_multiple_of(step).filter(|&end| end <= i64::MAX as u64);
        let (Some(end), true) = (end, align > 1) else {
            run.slot_offset = self.aligned_place(&run, at);
            let (offset, len, memory) = (run.range.start, run.len(), Memory::Slot(run.slot_offset));
            return Placed { run, head: 0, offset, len, memory };
        };
        let (head, at) = ((run.range.start - start) as usize, at.next_multiple_of(align));
        run.slot_offset = at + head;
        Placed { run, head, offset: start, len: (end - start) as usize, memory: Memory::Slot(at) }
    }
}

impl Placed {
    /// Where the next one may begin, if this one began from `at` on.
    fn end(&self, at: usize) -> usize {
        match self.memory {
            Memory::Own(_) => at,
            Memory::Slot(at) => at + self.len,
        }
    }
}
