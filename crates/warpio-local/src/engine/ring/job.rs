//! One segment while the kernel reads or writes it.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr::NonNull;

use warpio_core::engine::{Direction, Lanes, Segment};
use warpio_core::{Error, PathKind, Result, Slot};

use super::fixed::FixedBuffers;
use super::plan::{self, Part};
use super::queue::Ticket;
use super::target::{Mode, RingTarget};
use crate::sys::rw::{MAX_CALL, Progress};
use crate::sys::statx::page_size;

/// After so many answers of EAGAIN in a row a transfer fails.
const MAX_REFUSALS: u8 = 32;

/// What a ring has to do next for a job.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Op {
    /// Names the job in the result.
    pub(in crate::engine) token: u32,
    pub(in crate::engine) direction: Direction,
    /// Open until the result is in, as is the memory.
    pub(in crate::engine) fd: RawFd,
    pub(in crate::engine) ptr: *mut u8,
    pub(in crate::engine) len: u32,
    pub(in crate::engine) offset: u64,
    /// The registered buffer that the memory lies in.
    pub(in crate::engine) fixed: Option<u16>,
    /// It was refused for now: to be done by a thread of the kernel that may wait.
    pub(in crate::engine) patient: bool,
}

/// A segment, and what has to live while the kernel works on it.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) ticket: Ticket,
    target: RingTarget,
    segment: Segment,
    slot: Option<Slot>,
    /// The segment's first byte, in its own memory or in the slot.
    base: NonNull<u8>,
    part: Part,
    /// Parts still to come, the next one last.
    later: Vec<Part>,
    progress: Progress,
    /// Bytes read or written by parts before this one.
    before: usize,
    /// For reads: unwanted bytes before the wanted ones.
    head: usize,
    went_direct: bool,
    refusals: u8,
}

impl Job {
    /// A segment in host memory, or one with the slot that it passes through. For a write, the slot holds its bytes.
    /// `Err` gives the segment back if there is no memory to use.
    pub(super) fn new(
        ticket: Ticket,
        target: RingTarget,
        segment: Segment,
        slot: Option<Slot>,
    ) -> std::result::Result<Self, Segment> {
        let Some(base) = slot.as_ref().map(Slot::as_ptr).or_else(|| segment.host_memory()) else {
            return Err(segment);
        };
        let nothing = Part { at: 0, offset: segment.offset(), len: 0, direct: None };
        let mut job = Self {
            ticket,
            target,
            segment,
            slot,
            base,
            part: nothing,
            later: Vec::new(),
            progress: Progress::read(0, None),
            before: 0,
            head: 0,
            went_direct: false,
            refusals: 0,
        };
        job.plan(job.target.mode());
        Ok(job)
    }

    fn plan(&mut self, mode: Mode) {
        let align = match mode {
            Mode::Direct => self.target.file().direct().map(|(_, align)| align),
            Mode::Buffered => None,
        };
        let (address, offset, len) = (self.base.as_ptr().addr(), self.segment.offset(), self.segment.len());
        self.before = 0;
        match self.segment.direction() {
            Direction::Read => {
                let capacity = self.slot.as_ref().map_or(len, Slot::len);
                let read = plan::read(align, address, capacity, offset, len);
                self.head = read.head;
                self.begin(read.part);
            }
            Direction::Write => {
                let mut parts: Vec<_> = plan::write(align, page_size() as u32, address, offset, len).collect();
                parts.reverse();
                if let Some(part) = parts.pop() {
                    self.begin(part);
                }
                self.later = parts;
            }
        }
    }

    fn begin(&mut self, part: Part) {
        self.progress = match self.segment.direction() {
            Direction::Read => Progress::read(part.len, part.direct),
            Direction::Write => Progress::write(part.len, part.direct),
        };
        self.went_direct |= part.direct.is_some();
        self.part = part;
        self.refusals = 0;
    }

    /// What to do next.
    pub(super) fn op(&self, token: u32, fixed: &FixedBuffers) -> Op {
        let (part, next) = (&self.part, self.progress.next());
        let file = self.target.file();
        let fd = part.direct.and_then(|_| file.direct_fd()).unwrap_or_else(|| file.as_fd());
        Op {
            token,
            direction: self.segment.direction(),
            fd: fd.as_raw_fd(),
            ptr: self.base.as_ptr().wrapping_add(part.at + next),
            len: (part.len - next).min(MAX_CALL) as u32,
            offset: part.offset + next as u64,
            fixed: self.slot.as_ref().and_then(|slot| fixed.index(slot.region())),
            patient: self.refusals > 0,
        }
    }

    /// Takes the result of what [`op`](Self::op) asked for. Breaks when the kernel is done with the memory: with the
    /// bytes read, those before the wanted ones included, or the bytes written.
    pub(super) fn absorb(&mut self, answer: io::Result<usize>) -> ControlFlow<io::Result<usize>> {
        match &answer {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) && self.refusals < MAX_REFUSALS => {
                self.refusals += 1;
                return ControlFlow::Continue(());
            }
            Err(error) if self.part.direct.is_some() && is_refusal(error) => {
                self.fall_back();
                return ControlFlow::Continue(());
            }
            _ => self.refusals = 0,
        }
        match self.progress.absorb(answer) {
            ControlFlow::Break(Ok(n)) => self.part_done(n),
            other => other,
        }
    }

    /// The kernel is done with `n` bytes of this part. Goes on with the next one, if there is one.
    fn part_done(&mut self, n: usize) -> ControlFlow<io::Result<usize>> {
        let total = self.before + n;
        let next = match self.segment.direction() {
            Direction::Write => self.later.pop(),
            Direction::Read => self.rest(total),
        };
        let Some(part) = next else { return ControlFlow::Break(Ok(total)) };
        self.begin(part);
        self.before = total;
        ControlFlow::Continue(())
    }

    /// What is left to read after a direct read that stopped short. That means the end of the file, where the device
    /// moves whole blocks; but a network file system may move anything, and a file may grow. So the page cache, which
    /// knows the end, has the last word.
    fn rest(&self, total: usize) -> Option<Part> {
        let wanted = self.head + self.segment.len();
        let short = self.part.direct.is_some() && total < wanted;
        let (at, offset) = (self.part.at + total, self.part.offset + total as u64);
        short.then(|| Part { at, offset, len: wanted - total, direct: None })
    }

    /// Starts anew through the page cache.
    fn fall_back(&mut self) {
        self.target.file().refuse_direct();
        if let Some(memory) = self.segment.host_memory() {
            self.slot = None;
            self.base = memory;
        }
        self.went_direct = false;
        self.plan(Mode::Buffered);
    }

    /// Bytes of the segment.
    pub(super) fn len(&self) -> usize {
        self.segment.len()
    }

    /// Ends the segment with what [`absorb`](Self::absorb) broke with, or sends it on to its device.
    pub(super) fn finish(self, result: io::Result<usize>, lanes: &mut Lanes) {
        let Self { mut segment, slot, head, .. } = self;
        segment.set_path(if self.went_direct { PathKind::Direct } else { PathKind::PageCache });
        let result = match (segment.direction(), result) {
            (Direction::Read, Ok(n)) => match slot {
                None => Ok(n),
                Some(slot) => {
                    let wanted = n.saturating_sub(head).min(segment.len());
                    return deliver(segment, slot, head, wanted, lanes);
                }
            },
            (Direction::Read, Err(error)) => Err(error.into()),
            (Direction::Write, Ok(_)) => Ok(segment.len()),
            (Direction::Write, Err(error)) => {
                let (written, len) = (self.before + self.progress.done(), segment.len());
                Err(Error::from(error).with_message(format!("only {written} of {len} bytes were written")))
            }
        };
        segment.finish(result);
    }
}

/// Brings the `n` bytes at `start` in `slot` to their place.
fn deliver(segment: Segment, slot: Slot, start: usize, n: usize, lanes: &mut Lanes) {
    let result: Result<usize> = match segment.host_memory() {
        Some(memory) => {
            let bytes = &slot.as_slice()[start..start + n];
            // SAFETY: the segment's memory is valid for its length, which `n` does not exceed; a slot is other memory.
            unsafe { memory.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), n) };
            drop(slot);
            Ok(n)
        }
        None => match lanes.get(&segment.device().clone()) {
            Ok(lane) => return segment.copy_in_from(lane, slot, start, n),
            Err(error) => Err(error),
        },
    };
    segment.finish(result);
}

/// Whether the kernel does not do this transfer as direct I/O, though it might otherwise.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}
