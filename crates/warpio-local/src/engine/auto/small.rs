use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use warpio_core::Slot;
use warpio_core::engine::{Batch, Lanes, Segment};

use crate::engine::OpenFile;
use crate::sys::rw::{pread_cached, pread_full};

/// The longest read that is served on the caller's thread, in bytes: copying as much takes about 10 µs, less than
/// handing it to another thread.
const LIMIT: usize = 64 << 10;

/// How long the caller looks for the end of a copy to a GPU itself: such a copy takes 6 to 9 µs, and to be woken by
/// another thread takes as long again.
const PATIENCE: Duration = Duration::from_micros(20);

/// How bytes are read without waiting for storage.
#[derive(Clone, Copy, Debug)]
enum Call {
    /// With a flag that refuses to wait.
    NoWait,
    /// As ever: the file is in memory, which knows no such flag, and its pages were there a moment ago.
    Plain,
}

/// Serves small cached reads where they are submitted, with calls that do not wait for storage.
#[derive(Debug, Default)]
pub(super) struct SmallReads {
    lanes: Mutex<Lanes>,
}

impl SmallReads {
    /// Serves `batch`, or returns it, and whether that is because its bytes are not cached.
    pub(super) fn try_now(&self, file: &OpenFile, batch: Batch) -> Result<(), (Batch, bool)> {
        let [segment] = batch.segments() else { return Err((batch, false)) };
        if segment.len() > LIMIT {
            return Err((batch, false));
        }
        let (cache, offset) = (file.cache(), segment.offset());
        let call = if file.is_in_memory() {
            match cache.is_present(file.as_fd(), offset, segment.len()) {
                true => Call::Plain,
                false => return Err((batch, false)),
            }
        } else if !cache.answers_nowait() {
            return Err((batch, false));
        } else if cache.begins_cached(file.as_fd(), offset) == Some(false) {
            return Err((batch, true));
        } else {
            Call::NoWait
        };
        let (target, mut segments) = batch.into_parts();
        let Some(segment) = segments.pop() else { return Ok(()) };
        self.read(file, segment, call).map_err(|(segment, missed)| (Batch::new(target, vec![segment]), missed))
    }

    fn read(&self, file: &OpenFile, segment: Segment, call: Call) -> Result<(), (Segment, bool)> {
        let (fd, offset, len) = (file.as_fd(), segment.offset(), segment.len());
        if let Some(memory) = segment.host_memory() {
            // SAFETY: the segment's memory is valid for writes of its length, and held until it is finished.
            return match unsafe { attempt(fd, memory.as_ptr(), len, offset, call) } {
                Some(n) => {
                    segment.finish(Ok(n));
                    Ok(())
                }
                None => Err((segment, true)),
            };
        }
        // Whoever finds the lanes in use goes by the threads: a caller never waits for another one here.
        let mut lanes = match self.lanes.try_lock() {
            Ok(lanes) => lanes,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err((segment, false)),
        };
        let device = segment.device().clone();
        let (Some(slot), Ok(lane)) = (device.staging().try_acquire(len), lanes.get(&device).cloned()) else {
            return Err((segment, false));
        };
        drop(lanes);
        match read_slot(fd, &slot, len, offset, call) {
            Some(n) => {
                let patience = if segment.is_alone() { PATIENCE } else { Duration::ZERO };
                segment.copy_in_now(&lane, slot, n, patience);
                Ok(())
            }
            None => Err((segment, true)),
        }
    }
}

fn read_slot(fd: BorrowedFd<'_>, slot: &Slot, len: usize, offset: u64, call: Call) -> Option<usize> {
    // SAFETY: the slot is lent to this segment alone and at least as long.
    unsafe { attempt(fd, slot.as_ptr().as_ptr(), len, offset, call) }
}

/// The bytes read, if they are all there is to read. A part of what is cached, and every error, is left to those that
/// may wait.
///
/// # Safety
/// `ptr` is valid for writes of `len` bytes.
unsafe fn attempt(fd: BorrowedFd<'_>, ptr: *mut u8, len: usize, offset: u64, call: Call) -> Option<usize> {
    if let Call::Plain = call {
        // SAFETY: the caller vouches for it.
        return unsafe { pread_full(fd, ptr, len, offset) }.ok();
    }
    // SAFETY: the caller vouches for it.
    unsafe { pread_cached(fd, ptr, len, offset) }.ok()?.whole()
}
