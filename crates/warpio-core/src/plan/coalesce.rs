use std::ops::Range;

/// One contiguous read that serves several of the ranges asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// What to read from the source.
    pub range: Range<u64>,
    /// The ranges served by it.
    pub pieces: Vec<Piece>,
}

/// Where one of the ranges asked for lies in a [`Run`]. A range longer than the longest run has several pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The index of the range in the list given.
    pub index: usize,
    /// The offset within that range, in bytes.
    pub range_offset: u64,
    /// The offset within the run, in bytes.
    pub run_offset: u64,
    /// The length in bytes, never zero.
    pub len: u64,
}

/// Joins ranges into few contiguous reads: sorted by offset, with gaps of up to `gap` bytes read and thrown away,
/// overlapping and equal ranges read once, and no run longer than `max_run` bytes. Empty ranges (and those that end
/// before they start) have no pieces.
///
/// ```
/// use warpio_core::plan::coalesce;
///
/// let runs = coalesce(&[100..200, 0..50, 150..250], 100, 1 << 20);
/// assert_eq!(runs.len(), 1);
/// assert_eq!(runs[0].range, 0..250);
/// ```
pub fn coalesce(ranges: &[Range<u64>], gap: u64, max_run: u64) -> Vec<Run> {
    let max_run = max_run.max(1);
    let mut order: Vec<usize> = (0..ranges.len()).filter(|&i| ranges[i].start < ranges[i].end).collect();
    order.sort_by_key(|&i| (ranges[i].start, ranges[i].end));

    let mut runs: Vec<Run> = Vec::new();
    for index in order {
        let range = &ranges[index];
        let mut at = range.start;
        // The runs that end behind the start of this range already hold some of it: at most a range's worth of them,
        // the newest last.
        let mut first = runs.len();
        while first > 0 && runs[first - 1].range.end > at {
            first -= 1;
        }
        for run in &mut runs[first..] {
            take(run, index, range, &mut at);
        }
        while at < range.end {
            let extend = runs
                .last()
                .is_some_and(|run| run.range.end <= at && at - run.range.end <= gap && at - run.range.start < max_run);
            if !extend {
                runs.push(Run { range: at..at, pieces: Vec::new() });
            }
            if let Some(run) = runs.last_mut() {
                run.range.end = range.end.min(run.range.start.saturating_add(max_run));
                take(run, index, range, &mut at);
            }
        }
    }
    runs
}

/// Adds to `run` the piece of `range` that starts at `at` and lies in it, and moves `at` behind it.
fn take(run: &mut Run, index: usize, range: &Range<u64>, at: &mut u64) {
    let end = range.end.min(run.range.end);
    if *at >= run.range.start && *at < end {
        run.pieces.push(Piece {
            index,
            range_offset: *at - range.start,
            run_offset: *at - run.range.start,
            len: end - *at,
        });
        *at = end;
    }
}
