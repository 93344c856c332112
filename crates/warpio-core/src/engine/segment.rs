use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::completion::Completion;
use super::gather::Parts;
use super::lane::Lane;
use super::operation::Operation;
use super::outgoing::Outgoing;
use crate::device::{Device, DeviceEvent};
use crate::pool::Slot;
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

    /// Whether the work can be skipped: the transfer was cancelled or dropped, or another segment failed.
    pub fn is_moot(&self) -> bool {
        self.operation.is_moot()
    }

    /// Waits until the work [can be skipped](Self::is_moot), apart from the segment itself.
    pub(crate) fn moot(&self) -> impl Future<Output = ()> + Send + 'static {
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

    fn arrived(&self, n: usize) {
        let n = n.min(self.len);
        self.operation.control.report().add(self.path, n as u64);
        if n < self.len {
            self.operation.cut_short_at(self.buffer_offset + n);
        }
    }

    /// The bytes lie in `slot` and a copy to their place was enqueued; `event` is behind it. The returned completion
    /// must be finished when the event has happened.
    ///
    /// # Panics
    /// If the segment has [host memory](Self::host_memory) on a device that has none.
    pub fn queued(self, lane: &Lane, event: DeviceEvent, n: usize, slot: Slot) -> Completion {
        self.sent(lane, event, n, Some(slot))
    }

    fn sent(mut self, lane: &Lane, event: DeviceEvent, n: usize, slot: Option<Slot>) -> Completion {
        assert!(self.parts.is_none(), "host memory was copied to as if it were the device's");
        self.finished = true;
        self.arrived(n);
        self.operation.add_event(lane.id(), event);
        // Registered as a completion before it counts as queued: resolving in stream order must not free anything.
        let completion = Completion::new(self.operation.clone(), slot);
        self.operation.one_queued();
        completion
    }

    /// Sends the first `n` bytes of `slot` to their place on the device, and takes care of the rest: the slot goes
    /// back and the segment ends when the copy is done.
    pub fn copy_in(self, lane: &Lane, slot: Slot, n: usize) {
        self.enqueue(lane, slot, 0, n, Duration::ZERO, ());
    }

    /// As [`copy_in`](Self::copy_in), with the bytes at `start` in `slot`: behind those that direct I/O had to read
    /// with them.
    pub fn copy_in_from(self, lane: &Lane, slot: Slot, start: usize, n: usize) {
        self.enqueue(lane, slot, start, n, Duration::ZERO, ());
    }

    /// As [`copy_in`](Self::copy_in), with `hold` dropped when the copy is done.
    pub fn copy_in_holding(self, lane: &Lane, slot: Slot, n: usize, hold: impl Send + 'static) {
        self.enqueue(lane, slot, 0, n, Duration::ZERO, hold);
    }

    /// As [`copy_in`](Self::copy_in), and looks for the end of the copy for as long as `patience` itself: for copies
    /// that take less time than waking another thread.
    pub fn copy_in_now(self, lane: &Lane, slot: Slot, n: usize, patience: Duration) {
        self.enqueue(lane, slot, 0, n, patience, ());
    }

    /// Sends `n` bytes at `from` to their place on the device, and takes care of the rest: `hold` is dropped and the
    /// segment ends when the copy is done.
    ///
    /// # Safety
    /// `from` is host memory that is pinned for the device and valid for reads of `n` bytes until `hold` is dropped.
    pub unsafe fn copy_in_pinned(self, lane: &Lane, from: NonNull<u8>, n: usize, hold: impl Send + 'static) {
        let n = n.min(self.len);
        match self.check_lane(lane) {
            Ok(()) if n == 0 => self.finish(Ok(0)),
            // SAFETY: the caller's promise.
            Ok(()) => unsafe { self.send(lane, from, n, None, Duration::ZERO, hold) },
            Err(error) => self.finish(Err(error)),
        }
    }

    fn enqueue(self, lane: &Lane, slot: Slot, start: usize, n: usize, patience: Duration, hold: impl Send + 'static) {
        let n = n.min(self.len);
        if n == 0 {
            drop(slot);
            return self.finish(Ok(0));
        }
        if let Err(error) = self.check(lane, &slot, start, n) {
            // Whoever sees the transfer end finds the slot back in its pool.
            drop(slot);
            return self.finish(Err(error));
        }
        let from = NonNull::from(&slot.as_slice()[start..start + n]).cast();
        if self.parts.is_some() {
            // SAFETY: the segment's own memory is host memory here, valid for `len >= n` bytes, and no slot lent to it.
            unsafe { self.ptr.copy_from_nonoverlapping(from, n) };
            drop((slot, hold));
            return self.finish(Ok(n));
        }
        // SAFETY: the slot is valid for the range just taken of it, and held until the copy is done.
        unsafe { self.send(lane, from, n, Some(slot), patience, hold) }
    }

    /// # Safety
    /// `from` is valid for reads of `n <= len` bytes by the device until `slot` and `hold` are dropped.
    unsafe fn send(
        self,
        lane: &Lane,
        from: NonNull<u8>,
        n: usize,
        slot: Option<Slot>,
        patience: Duration,
        hold: impl Send + 'static,
    ) {
        // SAFETY: `ptr` is valid for `len >= n` bytes while the lease lives, `from` by the caller's promise; both are
        // held by the completion until the event behind the copy has happened.
        let copied = unsafe { lane.stream().backend().copy_to_device(self.ptr, from, n) };
        if let Err(error) = copied {
            drop((slot, hold));
            return self.finish(Err(error));
        }
        match lane.stream().record() {
            Ok(event) => {
                let device = self.device().clone();
                let completion = self.sent(lane, event.clone(), n, slot);
                // Leaked, as the completion leaks its slot, should nobody call.
                let hold = ManuallyDrop::new(hold);
                let done = move |result| {
                    drop(ManuallyDrop::into_inner(hold));
                    completion.done(result);
                };
                // Whoever watches an event that has happened is called at once.
                look_for(&event, patience);
                device.backend().watch(event, Box::new(done));
            }
            Err(error) => {
                // A copy is on its way and nothing will tell when it ends, unless the context is lost.
                if error.kind() != ErrorKind::DeviceLost {
                    std::mem::forget(hold);
                }
                self.unobserved(&error, slot);
                self.finish(Err(error));
            }
        }
    }

    /// A copy is on its way and nothing will tell when it ends, unless the context is lost: then it does not run.
    fn unobserved(&self, error: &Error, slot: Option<Slot>) {
        if error.kind() != ErrorKind::DeviceLost {
            self.operation.taint();
            if let Some(slot) = slot {
                slot.leak();
            }
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

    /// What an engine may get wrong, and a copy must not be started with.
    fn check(&self, lane: &Lane, slot: &Slot, start: usize, n: usize) -> Result<()> {
        self.check_lane(lane)?;
        if slot.len().saturating_sub(start) < n {
            let message = format!("{n} bytes at {start} were to pass through a staging slot of {} bytes", slot.len());
            return Err(Error::invalid_input(message));
        }
        Ok(())
    }

    fn check_lane(&self, lane: &Lane) -> Result<()> {
        if lane.device() != self.device() {
            let message = format!("a copy stream of {} was used for memory of {}", lane.device(), self.device());
            return Err(Error::invalid_input(message));
        }
        Ok(())
    }

    /// Starts the copy of the segment's bytes from the device into `slot`.
    ///
    /// # Errors
    /// The segment and the driver's error, if nothing was enqueued.
    pub fn copy_out(self, lane: &Lane, slot: Slot) -> Option<Outgoing> {
        if let Err(error) = self.check(lane, &slot, 0, self.len) {
            drop(slot);
            self.finish(Err(error));
            return None;
        }
        // SAFETY: as for `copy_in`, the other way round; `Outgoing` holds both sides until the event has happened.
        let copied = unsafe { lane.stream().backend().copy_to_host(slot.as_ptr(), self.ptr, self.len) };
        if let Err(error) = copied {
            drop(slot);
            self.finish(Err(error));
            return None;
        }
        match lane.stream().record() {
            Ok(event) => Some(Outgoing::new(self, slot, event)),
            Err(error) => {
                self.unobserved(&error, Some(slot));
                self.finish(Err(error));
                None
            }
        }
    }

    /// An error that says where this segment lies.
    pub fn error(&self, kind: ErrorKind) -> Error {
        let operation = &*self.operation;
        Error::new(kind).or_context(self.direction().verb(), &operation.source, self.offset, self.len as u64)
    }
}

/// Asks for the event until it has happened or `patience` is over.
fn look_for(event: &DeviceEvent, patience: Duration) {
    if patience.is_zero() {
        return;
    }
    let start = Instant::now();
    while matches!(event.is_done(), Ok(false)) && start.elapsed() < patience {
        std::hint::spin_loop();
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
