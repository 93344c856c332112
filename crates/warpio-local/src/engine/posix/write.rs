use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::fs::Advice;
use warpio_core::engine::{Lanes, Outgoing, Segment};
use warpio_core::{Error, Result, Slot};

use crate::engine::OpenFile;
use crate::sys::cache::{advise, write_back};
use crate::sys::rw::pwrite_full;

/// How much of one file a thread writes before others have their turn, in bytes.
const TURN: usize = 64 << 20;

/// How much of what comes from a device is written at a time, in bytes. Two pieces fit in a processor's own caches: what
/// the device has put there is read from there.
const PIECE: usize = 1 << 20;

/// Serves the writes of one file for a while. Returns whether it has more; if not, the thread has let go of the file.
pub(super) fn turn(file: &OpenFile, lanes: &mut Lanes) -> bool {
    let mut left = TURN;
    let mut current = None;
    let mut pieces = Pieces { file, rest: None };
    loop {
        let Some(ready) = current.take() else {
            match pieces.pop() {
                Some(segment) => current = begin(segment, lanes),
                None => return !file.writes().leave(),
            }
            continue;
        };
        left = left.saturating_sub(ready_len(&ready));
        if left == 0 && pieces.rest.is_none() {
            write(file, ready);
            return !file.writes().leave();
        }
        // The copy of the next segment runs while this one is written.
        match pieces.pop().map(|next| begin_early(next, lanes)) {
            Some(Begun::Waits(next)) => {
                write(file, ready);
                current = begin(next, lanes);
            }
            Some(Begun::Ready(next)) => {
                write(file, ready);
                current = Some(next);
            }
            Some(Begun::Ended) | None => write(file, ready),
        }
    }
}

/// The segments of a file's writes, those from a device in pieces.
struct Pieces<'a> {
    file: &'a OpenFile,
    rest: Option<Segment>,
}

impl Pieces<'_> {
    fn pop(&mut self) -> Option<Segment> {
        let mut segment = self.rest.take().or_else(|| self.file.writes().pop())?;
        if segment.len() > PIECE && segment.host_memory().is_none() {
            self.rest = Some(segment.split_off(PIECE));
        }
        Some(segment)
    }
}

/// A segment whose bytes are in host memory, or on their way there.
enum Ready {
    Host(Segment),
    Coming(Outgoing),
}

fn ready_len(ready: &Ready) -> usize {
    match ready {
        Ready::Host(segment) => segment.len(),
        Ready::Coming(outgoing) => outgoing.len(),
    }
}

enum Begun {
    Ready(Ready),
    /// No slot is free. Only a thread that holds none may wait for one.
    Waits(Segment),
    Ended,
}

fn begin_early(segment: Segment, lanes: &mut Lanes) -> Begun {
    if segment.is_moot() {
        segment.skip();
        return Begun::Ended;
    }
    if segment.host_memory().is_some() {
        return Begun::Ready(Ready::Host(segment));
    }
    match segment.device().staging().try_acquire(segment.len()) {
        Some(slot) => copy_out(segment, slot, lanes).map_or(Begun::Ended, Begun::Ready),
        None => Begun::Waits(segment),
    }
}

/// As [`begin_early`], waiting for a slot. `None` if the segment has ended.
fn begin(segment: Segment, lanes: &mut Lanes) -> Option<Ready> {
    match begin_early(segment, lanes) {
        Begun::Ready(ready) => Some(ready),
        Begun::Ended => None,
        Begun::Waits(segment) => match segment.device().staging().acquire_blocking(segment.len()) {
            Ok(slot) => copy_out(segment, slot, lanes),
            Err(error) => {
                segment.finish(Err(error));
                None
            }
        },
    }
}

fn copy_out(segment: Segment, slot: Slot, lanes: &mut Lanes) -> Option<Ready> {
    match lanes.get(&segment.device().clone()) {
        Ok(lane) => segment.copy_out(lane, slot).map(Ready::Coming),
        Err(error) => {
            segment.finish(Err(error));
            None
        }
    }
}

fn write(file: &OpenFile, ready: Ready) {
    match ready {
        Ready::Host(segment) => match segment.host_memory() {
            Some(memory) => {
                let result = write_from(file, memory, &segment);
                segment.finish(result);
            }
            None => segment.skip(),
        },
        Ready::Coming(outgoing) => {
            let Some((segment, slot)) = outgoing.wait() else { return };
            let result = write_from(file, slot.as_ptr(), &segment);
            drop(slot);
            segment.finish(result);
        }
    }
}

fn write_from(file: &OpenFile, memory: NonNull<u8>, segment: &Segment) -> Result<usize> {
    let (offset, len) = (segment.offset(), segment.len());
    // SAFETY: the segment's memory, or the slot that holds its bytes, is valid for reads of its length meanwhile.
    unsafe { pwrite_full(file.as_fd(), memory.as_ptr(), len, offset) }.map_err(|error| {
        let message = format!("only {} of {len} bytes were written", error.written);
        Error::from(error.source).with_message(message)
    })?;
    if file.policy().leave_clean {
        // Only what is on the disk can leave the cache.
        let range = offset..offset + len as u64;
        let done = write_back(file.as_fd(), &range).and_then(|()| advise(file.as_fd(), &range, Advice::DontNeed));
        if let Err(error) = done {
            return Err(Error::from(error).with_message("what was written did not reach the disk"));
        }
    }
    Ok(len)
}
