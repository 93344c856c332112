use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::fs::Advice;
use warpio_core::engine::{Batch, Engine, Lanes, Segment, Target};
use warpio_core::{ErrorKind, PathKind, Result, Slot};

use super::copies::Copies;
use super::{COPIES_IN_FLIGHT, Shared};
use crate::engine::OpenFile;
use crate::engine::policy::direct_target;
use crate::mmap::{PinnedMap, changed};
use crate::sys::cache::advise;
use crate::sys::map::FileMap;
use crate::sys::rw::{Cached, pread_cached, pread_full};

/// Reads one segment, through a staging slot if its memory is on a GPU. What is not cached goes on to the engine for
/// that, if there is one.
pub(super) fn serve(target: Target, segment: Segment, reader: &mut Reader<'_>) {
    let shared = reader.shared;
    if segment.is_moot() {
        drop(target);
        return segment.skip();
    }
    let file = match target.downcast::<OpenFile>() {
        Ok(file) => file,
        Err(target) => match target.downcast::<FileMap>() {
            Ok(map) => return serve_map(map, segment, reader),
            Err(target) => match target.downcast::<PinnedMap>() {
                Ok(map) => return send_pinned(map, segment, reader),
                Err(_) => {
                    let error = segment.error(ErrorKind::InvalidInput);
                    return segment.finish(Err(error.with_message("this engine serves open files only")));
                }
            },
        },
    };
    let elsewhere = shared.uncached_of(&file);
    let mut segment = segment;
    let plan = elsewhere.map_or(Plan::Read, |_| Plan::of(&file, &segment));
    match plan {
        Plan::Forward => return forward(elsewhere, file, segment),
        Plan::Try { sure: Some(n) } if n < segment.len() => {
            forward(elsewhere, file.clone(), segment.split_off(n));
        }
        _ => {}
    }
    let (offset, len) = (segment.offset(), segment.len());
    let place = match reader.place(&segment) {
        Ok(place) => place,
        Err(error) => return segment.finish(Err(error)),
    };
    let ptr = place.ptr(&segment);
    let clean = file.policy().leave_clean && file.cache().begins_cached(file.as_fd(), offset) == Some(false);
    let read = match plan {
        // SAFETY: the place is valid for writes of the segment's length, and held until the segment is finished.
        Plan::Try { .. } => unsafe { pread_cached(file.as_fd(), ptr, len, offset) },
        // SAFETY: as above.
        Plan::Read | Plan::Forward => unsafe { pread_full(file.as_fd(), ptr, len, offset) }.map(Cached::Whole),
    };
    if clean {
        forget(file.as_fd(), offset, len);
    }
    match read {
        Ok(Cached::Whole(n)) => reader.deliver(place, segment, n),
        Ok(Cached::Part(0)) => {
            if let Plan::Try { sure: Some(_) } = plan {
                file.cache().doubt_nowait();
            }
            drop(place);
            forward(elsewhere, file, segment);
        }
        Ok(Cached::Part(n)) => {
            let rest = segment.split_off(n);
            reader.deliver(place, segment, n);
            forward(elsewhere, file, rest);
        }
        Err(error) => {
            drop(place);
            segment.finish(Err(error.into()));
        }
    }
}

/// Copies one segment out of a map. Whoever sees the transfer end finds the map gone, unless others have it too: pages
/// that are mapped cannot leave the page cache.
fn serve_map(map: Arc<FileMap>, mut segment: Segment, reader: &mut Reader<'_>) {
    segment.set_path(PathKind::Mmap);
    let place = match reader.place(&segment) {
        Ok(place) => place,
        Err(error) => {
            drop(map);
            return segment.finish(Err(error));
        }
    };
    // SAFETY: the place is valid for writes of the segment's length, and held until the segment is finished; no buffer
    // lies in the map, which is nobody's but ours.
    let copied = unsafe { copy_mapped(&map, segment.offset(), place.ptr(&segment), segment.len()) };
    drop(map);
    match copied {
        Ok(n) => reader.deliver(place, segment, n),
        Err(error) => {
            drop(place);
            segment.finish(Err(error));
        }
    }
}

/// As [`serve_map`], for a segment that may not fit in a slot.
fn serve_map_by_slots(map: Arc<FileMap>, mut segment: Segment, reader: &mut Reader<'_>) {
    let most = segment.device().staging().slot_len();
    while segment.len() > most && !segment.is_moot() {
        let rest = segment.split_off(most);
        serve_map(map.clone(), segment, reader);
        segment = rest;
    }
    match segment.is_moot() {
        true => {
            drop(map);
            segment.skip();
        }
        false => serve_map(map, segment, reader),
    }
}

/// Lets the device copy one segment out of a pinned map.
fn send_pinned(map: Arc<PinnedMap>, mut segment: Segment, reader: &mut Reader<'_>) {
    segment.set_path(PathKind::Mmap);
    let n = match map.map().check(segment.offset(), segment.len()) {
        Ok(0) => return segment.finish(Ok(0)),
        Ok(n) => n,
        Err(error) => return segment.finish(Err(changed(error))),
    };
    match map.is_current() {
        Ok(true) => {}
        Ok(false) => {
            let plain = map.map().clone();
            drop(map);
            return serve_map_by_slots(plain, segment, reader);
        }
        Err(error) => return segment.finish(Err(error.into())),
    }
    let device = segment.device().clone();
    match reader.lanes.get(&device) {
        Ok(lane) => {
            let (from, credit) = (map.address(segment.offset() as usize), map.credit(n));
            // SAFETY: the map has `n` bytes there, pinned for its device and mapped for as long as the handle lives. The
            // lane is checked to be the segment's device's, and only reads into the map's device come here.
            unsafe { segment.copy_in_pinned(lane, from, n, (credit, map)) }
        }
        Err(error) => segment.finish(Err(error)),
    }
}

/// Copies bytes out of a map.
///
/// # Safety
/// As for [`FileMap::copy_to`].
pub(super) unsafe fn copy_mapped(map: &FileMap, at: u64, dst: *mut u8, len: usize) -> Result<usize> {
    // SAFETY: the caller's promise.
    unsafe { map.copy_to(at, dst, len) }.map_err(changed)
}

/// How a segment is read where there is another engine for what is not cached.
#[derive(Clone, Copy)]
enum Plan {
    /// By a read that may wait.
    Read,
    /// By reads that take what is cached: so many bytes, if that is sure.
    Try { sure: Option<usize> },
    /// By the other engine.
    Forward,
}

impl Plan {
    fn of(file: &OpenFile, segment: &Segment) -> Self {
        let cache = file.cache();
        let cached = cache.cached_prefix(file.as_fd(), segment.offset(), segment.len());
        match cached {
            Some(0) => Self::Forward,
            sure if cache.answers_nowait() => Self::Try { sure },
            Some(n) if n < segment.len() => Self::Forward,
            _ => Self::Read,
        }
    }
}

/// Lets the pages of a range go that were read for this segment alone. A hint: what cannot be dropped stays.
pub(super) fn forget(fd: BorrowedFd<'_>, offset: u64, len: usize) {
    let range = offset..offset.saturating_add(len as u64);
    if let Err(error) = advise(fd, &range, Advice::DontNeed) {
        tracing::trace!(%error, "pages stay in the cache");
    }
}

fn forward(engine: Option<&Arc<dyn Engine>>, file: Arc<OpenFile>, segment: Segment) {
    match engine {
        Some(engine) => engine.submit(Batch::new(direct_target(file), vec![segment])),
        None => segment.skip(),
    }
}

/// Where a segment's bytes are read to.
enum Place {
    /// Its own memory.
    Host,
    /// A slot, from which they are copied on.
    Slot(Slot),
}

impl Place {
    fn ptr(&self, segment: &Segment) -> *mut u8 {
        match self {
            Self::Host => segment.device_memory().as_ptr(),
            Self::Slot(slot) => slot.as_ptr().as_ptr(),
        }
    }
}

/// A thread that reads segments, and what it has for that.
pub(super) struct Reader<'a> {
    pub(super) lanes: &'a mut Lanes,
    pub(super) copies: &'a mut Copies,
    pub(super) shared: &'a Shared,
    pub(super) worker: usize,
}

impl Reader<'_> {
    /// Where to read a segment to. Before one that is long, the thread waits for what it sent.
    fn place(&mut self, segment: &Segment) -> Result<Place> {
        if segment.host_memory().is_some() {
            return Ok(Place::Host);
        }
        let staging = segment.device().staging();
        if segment.len() > staging.small_slot_len() {
            self.copies.make_room();
        }
        staging.acquire_near(segment.len(), self.worker, self.shared.threads).map(Place::Slot)
    }

    fn deliver(&mut self, place: Place, segment: Segment, n: usize) {
        let Place::Slot(slot) = place else { return segment.finish(Ok(n)) };
        let device = segment.device().clone();
        match self.lanes.get(&device) {
            Ok(lane) if n <= device.staging().small_slot_len() => segment.copy_in(lane, slot, n),
            Ok(lane) => {
                let credit = self.shared.credits.take(n, COPIES_IN_FLIGHT);
                self.copies.add(segment.copy_in_followed(lane, slot, n, credit));
            }
            Err(error) => {
                drop(slot);
                segment.finish(Err(error));
            }
        }
    }
}
