//! From a slot to the places on the device.

use std::ptr::NonNull;

use super::ROW;
use super::task::{GatherRun, GatherTask};
use crate::device::ScatterRow;
use crate::engine::completion::Completion;
use crate::engine::lane::Lane;
use crate::pool::Slot;
use crate::{Error, ErrorKind, Result};

impl GatherTask {
    /// Sends the pieces from `slot`, where the runs were read to their offsets with these results, to their places on
    /// the device, and takes care of the rest.
    pub fn scatter(mut self, lane: &Lane, mut slot: Slot, runs: &[(GatherRun, Result<usize>)]) {
        let bytes = runs.iter().map(|(run, _)| run.slot_offset + run.len()).max().unwrap_or(0).next_multiple_of(8);
        let base = runs.iter().find_map(|(run, _)| self.pieces(run).first()).map_or(0, |first| self.place(first));
        let count = match self.write_rows(&mut slot, bytes, base, runs) {
            Ok(count) if lane.device() == self.device() => count,
            result => {
                let other = || Error::invalid_input("a copy stream of another device was used");
                // Whoever sees the read end finds the slot back in its pool.
                drop(slot);
                return self.fail_runs(runs.iter().map(|(run, _)| run), &result.err().unwrap_or_else(other));
            }
        };
        self.settle(runs);
        let Some(base) = NonNull::new(base as *mut u8).filter(|_| count > 0) else {
            drop(slot);
            return self.end();
        };
        let source = slot.as_ptr();
        // SAFETY: `write_rows` put `count` rows there, aligned and within the slot, and nothing writes the slot until
        // the copies are done.
        let rows = unsafe { std::slice::from_raw_parts(source.as_ptr().add(bytes).cast::<ScatterRow>(), count) };
        // SAFETY: every row lies within a run in the slot and within the place of a piece, and the rows behind the
        // bytes; slot and lease are held by the completion until an event behind the copies has happened.
        let copied = unsafe { lane.stream().backend().scatter(base, source, rows) };
        let operation = self.shared.operation.clone();
        if let Err(error) = copied {
            // Some copies may be under way, so the event is waited for all the same.
            operation.fail(error);
        }
        match lane.stream().record() {
            Ok(event) => {
                self.finished = true;
                operation.add_event(lane.id(), event.clone());
                // Registered as a completion before it counts as queued, as for a segment.
                let completion = Completion::new(operation.clone(), Some(slot));
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

    /// Writes the table of what arrived, neighbours in one buffer joined, and returns how many rows it has.
    fn write_rows(
        &self,
        slot: &mut Slot,
        start: usize,
        base: usize,
        runs: &[(GatherRun, Result<usize>)],
    ) -> Result<usize> {
        let too_small = || Error::invalid_input("the slot is too small for the task");
        let table = slot.as_mut_slice().get_mut(start..).ok_or_else(too_small)?;
        let (rows, _) = table.as_chunks_mut::<ROW>();
        let (mut count, mut last, mut last_index) = (0, ScatterRow::default(), 0);
        for (run, result) in runs {
            let n = result.as_ref().map_or(0, |n| *n as u64);
            for piece in self.pieces(run) {
                let offset = self.offset_in(run, piece);
                let row = ScatterRow {
                    from: run.slot_offset as u64 + offset,
                    to: self.place(piece).wrapping_sub(base) as u64,
                    len: n.saturating_sub(offset).min(piece.len),
                };
                if row.len == 0 {
                    continue;
                }
                let same_buffer = self.shared.one_buffer || piece.index == last_index;
                let follows = last.from + last.len == row.from && last.to.wrapping_add(last.len) == row.to;
                last_index = piece.index;
                if count > 0 && same_buffer && follows {
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
