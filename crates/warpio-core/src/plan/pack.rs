use std::ops::Range;

/// Ranges joined into few contiguous reads, in two flat lists: a million ranges are no million allocations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    runs: Vec<(Range<u64>, usize)>,
    pieces: Vec<Piece>,
}

/// Where one of the ranges asked for lies in a read. A range longer than the longest read has several pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The index of the range in the list given.
    pub index: usize,
    /// The offset within that range, in bytes.
    pub range_offset: u64,
    /// The offset within the read, in bytes.
    pub run_offset: u64,
    /// The length in bytes, never zero.
    pub len: u64,
}

impl Packed {
    /// How many reads there are.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether nothing is to be read.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// What read number `run` reads.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn range(&self, run: usize) -> Range<u64> {
        self.runs[run].0.clone()
    }

    /// Which of the [pieces](Self::pieces) read number `run` serves.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn pieces_of(&self, run: usize) -> Range<usize> {
        let end = self.runs.get(run + 1).map_or(self.pieces.len(), |next| next.1);
        self.runs[run].1..end
    }

    /// The pieces of all reads, in the order of the reads.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
}

/// Joins ranges into reads: sorted by offset, with gaps of up to `gap` bytes read and thrown away, overlapping and equal
/// ranges read once, and no read longer than `max_run` bytes, which is one at least. Empty ranges, and those that end before
/// they start, have no pieces.
///
/// ```
/// use warpio_core::plan::pack;
///
/// let packed = pack(&[100..200, 0..50, 150..250], 100, 1 << 20);
/// assert_eq!((packed.len(), packed.range(0), packed.pieces().len()), (1, 0..250, 3));
/// ```
pub fn pack(ranges: &[Range<u64>], gap: u64, max_run: u64) -> Packed {
    let max_run = max_run.max(1);
    // The ranges themselves, as sorting their numbers would look each of them up again and again.
    let mut order: Vec<(u64, u64, usize)> = ranges
        .iter()
        .enumerate()
        .filter(|(_, range)| range.start < range.end)
        .map(|(index, range)| (range.start, range.end, index))
        .collect();
    order.sort_unstable();

    let mut runs: Vec<Range<u64>> = Vec::with_capacity(order.len());
    // The run that a piece belongs to, beside it. The runs that hold a range are neighbours.
    let mut pieces: Vec<(usize, Piece)> = Vec::with_capacity(order.len());
    let mut in_order = true;
    for (start, end, index) in order {
        extend(&mut runs, &(start..end), gap, max_run);
        // Mostly the last one.
        let mut run = match runs.last() {
            Some(last) if last.start <= start => runs.len() - 1,
            _ => runs.partition_point(|run| run.end <= start),
        };
        in_order &= pieces.last().is_none_or(|&(last, _)| last <= run);
        let mut at = start;
        while at < end {
            let (first, last) = (runs[run].start, runs[run].end.min(end));
            pieces.push((run, Piece { index, range_offset: at - start, run_offset: at - first, len: last - at }));
            (at, run) = (last, run + 1);
        }
    }
    if !in_order {
        // Stable: within a run, in the order of the ranges.
        pieces.sort_by_key(|&(run, _)| run);
    }
    let mut firsts = vec![0; runs.len()];
    for (at, &(run, _)) in pieces.iter().enumerate().rev() {
        firsts[run] = at;
    }
    Packed {
        runs: runs.into_iter().zip(firsts).collect(),
        pieces: pieces.into_iter().map(|(_, piece)| piece).collect(),
    }
}

/// Makes the runs, which lie one behind another, hold `range`, which begins behind the beginning of all ranges before.
fn extend(runs: &mut Vec<Range<u64>>, range: &Range<u64>, gap: u64, max_run: u64) {
    let mut at = range.start;
    if let Some(last) = runs.last_mut() {
        let joins = at.saturating_sub(last.end) <= gap && at < last.start.saturating_add(max_run);
        if joins {
            last.end = last.end.max(range.end.min(last.start.saturating_add(max_run)));
        }
        at = at.max(last.end);
    }
    while at < range.end {
        let end = range.end.min(at.saturating_add(max_run));
        runs.push(at..end);
        at = end;
    }
}
