use std::num::NonZeroU64;

/// How a range is cut into segments: at file offsets that are multiples of `task_size`, so that only the first and
/// the last segment can be unaligned.
///
/// ```
/// use warpio_core::plan::Split;
///
/// let split = Split::new(4096).unwrap();
/// let segments: Vec<_> = split.segments(4000, 5000).map(|s| (s.offset, s.buffer_offset, s.len)).collect();
/// assert_eq!(segments, [(4000, 0, 96), (4096, 96, 4096), (8192, 4192, 808)]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    task_size: NonZeroU64,
}

/// One segment of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitSegment {
    /// The offset in the source, in bytes.
    pub offset: u64,
    /// The offset in the buffer, in bytes.
    pub buffer_offset: usize,
    /// The length in bytes, never zero.
    pub len: usize,
}

impl Split {
    /// Segments of at most `task_size` bytes; `None` for zero.
    pub const fn new(task_size: usize) -> Option<Self> {
        match NonZeroU64::new(task_size as u64) {
            Some(task_size) => Some(Self { task_size }),
            None => None,
        }
    }

    /// How many segments [`segments`](Self::segments) yields.
    pub fn count(self, offset: u64, len: usize) -> usize {
        if len == 0 {
            return 0;
        }
        let last = offset.saturating_add(len as u64 - 1) / self.task_size;
        (last - offset / self.task_size + 1) as usize
    }

    /// The segments of `[offset, offset + len)`, in order. The caller has checked that the end does not overflow.
    pub fn segments(self, offset: u64, len: usize) -> impl Iterator<Item = SplitSegment> {
        let task = self.task_size.get();
        let mut done = 0;
        std::iter::from_fn(move || {
            if done == len {
                return None;
            }
            let at = offset + done as u64;
            let to_boundary = task - at % task;
            let len = to_boundary.min((len - done) as u64) as usize;
            let segment = SplitSegment { offset: at, buffer_offset: done, len };
            done += len;
            Some(segment)
        })
    }
}

impl Split {
    /// The finer of two ways to cut.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { task_size: self.task_size.min(other.task_size) }
    }

    /// The longest segment, in bytes.
    pub fn task_size(self) -> usize {
        self.task_size.get() as usize
    }
}
