//! How a segment's bytes get from a staging slot to its device, and back.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::time::Duration;

use super::Segment;
use crate::device::{DeviceEvent, WatchDone};
use crate::engine::{Completion, Lane, Outgoing, Sent};
use crate::pool::Slot;
use crate::{Error, ErrorKind, Result};

/// A copy that was enqueued: the event behind it, and what is to be called when it has happened.
type Enqueued = (DeviceEvent, WatchDone);

impl Segment {
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
        self.copy_in_from(lane, slot, 0, n);
    }

    /// As [`copy_in`](Self::copy_in), with the bytes at `start` in `slot`: behind those that direct I/O had to read
    /// with them.
    pub fn copy_in_from(self, lane: &Lane, slot: Slot, start: usize, n: usize) {
        watch(lane, self.enqueue(lane, slot, start, n, ()));
    }

    /// As [`copy_in`](Self::copy_in), and looks for the end of the copy for as long as `patience` itself: for copies
    /// that take less time than waking another thread.
    pub fn copy_in_now(self, lane: &Lane, slot: Slot, n: usize, patience: Duration) {
        let enqueued = self.enqueue(lane, slot, 0, n, ());
        if let Some((event, _)) = enqueued.as_ref().filter(|_| !patience.is_zero()) {
            // Whoever watches an event that has happened is called at once, and is told of errors.
            let _ = event.wait_for(patience);
        }
        watch(lane, enqueued);
    }

    /// As [`copy_in`](Self::copy_in), with `hold` dropped when the copy is done. Whoever sent it may also see to its end;
    /// `None` if it has ended.
    pub fn copy_in_followed(self, lane: &Lane, slot: Slot, n: usize, hold: impl Send + 'static) -> Option<Sent> {
        let (event, done) = self.enqueue(lane, slot, 0, n, hold)?;
        let (sent, done) = Sent::new(event.clone(), done);
        watch(lane, Some((event, done)));
        Some(sent)
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
            Ok(()) => watch(lane, unsafe { self.send(lane, from, n, None, hold) }),
            Err(error) => self.finish(Err(error)),
        }
    }

    /// `None` if the segment has ended.
    fn enqueue(self, lane: &Lane, slot: Slot, start: usize, n: usize, hold: impl Send + 'static) -> Option<Enqueued> {
        let n = n.min(self.len);
        if n == 0 {
            drop(slot);
            self.finish(Ok(0));
            return None;
        }
        if let Err(error) = self.check(lane, &slot, start, n) {
            // Whoever sees the transfer end finds the slot back in its pool.
            drop(slot);
            self.finish(Err(error));
            return None;
        }
        let from = NonNull::from(&slot.as_slice()[start..start + n]).cast();
        if self.parts.is_some() {
            // SAFETY: the segment's own memory is host memory here, valid for `len >= n` bytes, and no slot lent to it.
            unsafe { self.ptr.copy_from_nonoverlapping(from, n) };
            drop((slot, hold));
            self.finish(Ok(n));
            return None;
        }
        // SAFETY: the slot is valid for the range just taken of it, and held until the copy is done.
        unsafe { self.send(lane, from, n, Some(slot), hold) }
    }

    /// `None` if the segment has ended.
    ///
    /// # Safety
    /// `from` is valid for reads of `n <= len` bytes by the device until `slot` and `hold` are dropped.
    unsafe fn send(
        self,
        lane: &Lane,
        from: NonNull<u8>,
        n: usize,
        slot: Option<Slot>,
        hold: impl Send + 'static,
    ) -> Option<Enqueued> {
        // SAFETY: `ptr` is valid for `len >= n` bytes while the lease lives, `from` by the caller's promise; both are
        // held by the completion until the event behind the copy has happened.
        let copied = unsafe { lane.stream().backend().copy_to_device(self.ptr, from, n) };
        if let Err(error) = copied {
            drop((slot, hold));
            self.finish(Err(error));
            return None;
        }
        match lane.stream().record() {
            Ok(event) => {
                let completion = self.sent(lane, event.clone(), n, slot);
                // Leaked, as the completion leaks its slot, should nobody call.
                let hold = ManuallyDrop::new(hold);
                let done = move |result| {
                    drop(ManuallyDrop::into_inner(hold));
                    completion.done(result);
                };
                Some((event, Box::new(done)))
            }
            Err(error) => {
                // A copy is on its way and nothing will tell when it ends, unless the context is lost.
                if error.kind() != ErrorKind::DeviceLost {
                    std::mem::forget(hold);
                }
                self.unobserved(&error, slot);
                self.finish(Err(error));
                None
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
}

/// Lets the device's reactor end what was enqueued, if anything was.
fn watch(lane: &Lane, enqueued: Option<Enqueued>) {
    if let Some((event, done)) = enqueued {
        lane.device().backend().watch(event, done);
    }
}
