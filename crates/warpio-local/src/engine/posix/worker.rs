use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use warpio_core::engine::{Direction, Lanes, Segment, Target};
use warpio_core::{Error, ErrorKind, Result};

use super::Shared;
use crate::engine::OpenFile;
use crate::sys::rw::{pread_full, pwrite_full};

/// One thread: takes segments until the engine is gone.
pub(super) fn run(shared: &Shared) {
    let mut lanes = Lanes::default();
    while let Some((target, segment)) = shared.next() {
        // A waker is the caller's code and may panic; the thread serves others too.
        let caught = catch_unwind(AssertUnwindSafe(|| serve(&target, segment, &mut lanes)));
        if caught.is_err() {
            tracing::error!("a waker or callback of a transfer panicked on an I/O thread");
        }
    }
}

fn serve(target: &Target, segment: Segment, lanes: &mut Lanes) {
    if segment.is_moot() {
        return segment.skip();
    }
    let Some(file) = target.downcast_ref::<OpenFile>() else {
        let error = segment.error(ErrorKind::InvalidInput);
        return segment.finish(Err(error.with_message("this engine serves open files only")));
    };
    match segment.direction() {
        Direction::Read => read(file.as_fd(), segment, lanes),
        Direction::Write => write(file.as_fd(), segment, lanes),
    }
}

fn read(fd: BorrowedFd<'_>, segment: Segment, lanes: &mut Lanes) {
    let (offset, len) = (segment.offset(), segment.len());
    if let Some(memory) = segment.host_memory() {
        // SAFETY: the segment's memory is valid for writes of its length, and held until it is finished below.
        let result = unsafe { pread_full(fd, memory.as_ptr(), len, offset) };
        return segment.finish(result.map_err(Error::from));
    }
    let device = segment.device().clone();
    let (lane, slot) = match (lanes.get(&device), device.staging().acquire_blocking(len)) {
        (Ok(lane), Ok(slot)) => (lane, slot),
        (Err(error), _) | (_, Err(error)) => return segment.finish(Err(error)),
    };
    // SAFETY: the slot is lent to this segment alone and at least as long; nothing else touches it.
    match unsafe { pread_full(fd, slot.as_ptr().as_ptr(), len, offset) } {
        Ok(n) => segment.copy_in(lane, slot, n),
        Err(error) => segment.finish(Err(error.into())),
    }
}

fn write(fd: BorrowedFd<'_>, segment: Segment, lanes: &mut Lanes) {
    if let Some(memory) = segment.host_memory() {
        let result = write_from(fd, memory, &segment);
        return segment.finish(result);
    }
    let device = segment.device().clone();
    let (lane, slot) = match (lanes.get(&device), device.staging().acquire_blocking(segment.len())) {
        (Ok(lane), Ok(slot)) => (lane, slot),
        (Err(error), _) | (_, Err(error)) => return segment.finish(Err(error)),
    };
    let Some(outgoing) = segment.copy_out(lane, slot) else { return };
    let Some((segment, slot)) = outgoing.wait() else { return };
    let result = write_from(fd, slot.as_ptr(), &segment);
    drop(slot);
    segment.finish(result);
}

fn write_from(fd: BorrowedFd<'_>, memory: NonNull<u8>, segment: &Segment) -> Result<usize> {
    let len = segment.len();
    // SAFETY: the segment's memory, or the slot that holds its bytes, is valid for reads of its length meanwhile.
    unsafe { pwrite_full(fd, memory.as_ptr(), len, segment.offset()) }.map_err(|error| {
        let message = format!("only {} of {len} bytes were written", error.written);
        Error::from(error.source).with_message(message)
    })?;
    Ok(len)
}
