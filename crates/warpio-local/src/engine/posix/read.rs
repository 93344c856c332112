use std::os::fd::AsFd;
use std::sync::Arc;

use warpio_core::engine::{Lanes, Segment, Target};
use warpio_core::{Error, ErrorKind};

use super::COPIES_IN_FLIGHT;
use super::credits::Credits;
use crate::engine::OpenFile;
use crate::sys::rw::pread_full;

/// Reads one segment, through a staging slot if its memory is on a GPU.
pub(super) fn serve(target: &Target, segment: Segment, lanes: &mut Lanes, credits: &Arc<Credits>) {
    if segment.is_moot() {
        return segment.skip();
    }
    let Some(file) = target.downcast_ref::<OpenFile>() else {
        let error = segment.error(ErrorKind::InvalidInput);
        return segment.finish(Err(error.with_message("this engine serves open files only")));
    };
    let (fd, offset, len) = (file.as_fd(), segment.offset(), segment.len());
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
        Ok(n) if n <= device.staging().small_slot_len() => segment.copy_in(lane, slot, n),
        Ok(n) => {
            let credit = credits.take(n, COPIES_IN_FLIGHT);
            segment.copy_in_holding(lane, slot, n, credit);
        }
        Err(error) => segment.finish(Err(error.into())),
    }
}
