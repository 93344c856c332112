mod copies;

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::gather::Parts;
use super::operation::Operation;
use crate::buffer::MemoryBlock;
use crate::device::Device;
use crate::transfer::PathKind;
use crate::{Error, ErrorKind, Result};

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From storage into memory.
    Read,
    /// From memory to storage.
    Write,
}

impl Direction {
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// One piece of a transfer: a range of the source, and the memory that it goes to or comes from.
///
/// Dropped unfinished, its transfer fails as [`Gone`](ErrorKind::Gone), or as [`Cancelled`](ErrorKind::Cancelled) if
/// it was. It must not be dropped or finished while anything can touch its memory.
pub struct Segment {
    operation: Arc<Operation>,
    offset: u64,
    buffer_offset: usize,
    ptr: NonNull<u8>,
    len: usize,
    path: PathKind,
    finished: bool,
    /// Where it is a part of a read of many ranges: the reads into one slot, and the number of its own. Its memory is
    /// host memory then, whatever device the ranges go to.
    parts: Option<(Arc<Parts>, usize)>,
}

// SAFETY: the memory belongs to the operation's lease, or to a slot that its parts hold, which any thread may use; segments never overlap.
unsafe impl Send for Segment {}
// SAFETY: nothing is accessible through a shared reference but addresses.
unsafe impl Sync for Segment {}

impl Segment {
    pub(super) fn new(
        operation: Arc<Operation>,
        offset: u64,
        buffer_offset: usize,
        ptr: NonNull<u8>,
        len: usize,
    ) -> Self {
        Self { operation, offset, buffer_offset, ptr, len, path: PathKind::PageCache, finished: false, parts: None }
    }

    /// Read number `index` of `parts`: `len` bytes at `offset` into host memory at `ptr`.
    pub(super) fn of_parts(parts: Arc<Parts>, index: usize, offset: u64, ptr: NonNull<u8>, len: usize) -> Self {
        let mut segment = Self::new(parts.operation().clone(), offset, 0, ptr, len);
        segment.parts = Some((parts, index));
        segment
    }

    /// The offset in the source, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The length in bytes, never zero.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Which way the bytes go.
    pub fn direction(&self) -> Direction {
        self.operation.direction
    }

    /// The device that the bytes go to or come from.
    pub fn device(&self) -> &Device {
        &self.operation.device
    }

    /// The total length of the transfer that this is a piece of, in bytes.
    pub fn transfer_len(&self) -> usize {
        self.operation.len
    }

    /// The memory, where the processor and the kernel can use it directly: `len` bytes, valid until the segment is
    /// finished or dropped. `None` means that the bytes have to pass through a staging slot.
    pub fn host_memory(&self) -> Option<NonNull<u8>> {
        (self.parts.is_some() || self.device().is_host_visible()).then_some(self.ptr)
    }

    /// The memory's address on its device.
    pub fn device_memory(&self) -> NonNull<u8> {
        self.ptr
    }

    /// The allocation that the memory lies in, for engines that keep something with it.
    pub fn memory_block(&self) -> Option<MemoryBlock> {
        self.operation.allocation().map(MemoryBlock)
    }

    /// Whether the work can be skipped: the transfer was cancelled or dropped, or another segment failed.
    pub fn is_moot(&self) -> bool {
        self.operation.is_moot()
    }

    /// Waits until the work [can be skipped](Self::is_moot), apart from the segment itself: for engines that wait for
    /// others, such as a server.
    pub fn moot(&self) -> impl Future<Output = ()> + Send + 'static {
        let operation = self.operation.clone();
        async move { operation.control.unwanted(|| operation.is_moot()).await }
    }

    /// Says which way the bytes take; [`PathKind::PageCache`] otherwise.
    pub fn set_path(&mut self, path: PathKind) {
        self.path = path;
    }

    /// Ends a segment whose work can be skipped.
    pub fn skip(self) {
        drop(self);
    }

    /// Ends the segment: `n` bytes are in their place and nothing touches the memory any more. Fewer than
    /// [`len`](Self::len) means the end of the source.
    pub fn finish(mut self, result: Result<usize>) {
        self.end(result);
    }

    fn end(&mut self, result: Result<usize>) {
        self.finished = true;
        if let Some((parts, index)) = self.parts.take() {
            return parts.ended(index, self.buffer_offset, self.len, self.path, result);
        }
        match result {
            Ok(n) => self.arrived(n),
            Err(error) => self.operation.fail(error),
        }
        self.operation.one_queued();
        self.operation.one_done();
    }

    /// Ends the segment as failed although something may touch its memory for ever, such as a driver that lost track of
    /// a DMA: the transfer resolves without its buffer, which is leaked.
    pub fn abandon(self, error: Error) {
        self.operation.taint();
        self.finish(Err(error));
    }

    fn arrived(&self, n: usize) {
        let n = n.min(self.len);
        self.operation.control.report().add(self.path, n as u64);
        if n < self.len {
            self.operation.cut_short_at(self.buffer_offset + n);
        }
    }

    /// Cuts the segment in two: afterwards this one has `at` bytes, and the returned one the rest.
    ///
    /// # Panics
    /// If either would be empty.
    #[must_use = "the rest of the transfer fails otherwise"]
    pub fn split_off(&mut self, at: usize) -> Self {
        assert!(0 < at && at < self.len, "split at {at} of a segment of {} bytes", self.len);
        match &self.parts {
            Some((parts, _)) => parts.one_more(),
            None => self.operation.one_more(),
        }
        // SAFETY: within the segment's memory.
        let ptr = unsafe { self.ptr.add(at) };
        let (offset, buffer_offset) = (self.offset + at as u64, self.buffer_offset + at);
        let mut rest = Self::new(self.operation.clone(), offset, buffer_offset, ptr, self.len - at);
        (rest.parts, rest.path) = (self.parts.clone(), self.path);
        self.len = at;
        rest
    }

    /// Whether its transfer is the only one of its runtime.
    pub fn is_alone(&self) -> bool {
        self.operation.is_alone()
    }

    /// An error that says where this segment lies.
    pub fn error(&self, kind: ErrorKind) -> Error {
        let operation = &*self.operation;
        Error::new(kind).or_context(self.direction().verb(), &operation.source, self.offset, self.len as u64)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if !self.finished {
            let gone = self.operation.gone();
            if self.parts.is_some() {
                // Unlike a range that fails for itself, this ends the whole read.
                self.operation.fail(gone.clone());
            }
            self.end(Err(gone));
        }
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("direction", &self.direction())
            .field("offset", &self.offset)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
