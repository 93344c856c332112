use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::Arc;

use warpio_core::engine::Direction;

use super::super::file::Registered;
use super::super::piece::Piece;
use super::Lane;
use crate::buffer::Pin;
use crate::error::CuFileError;
use crate::sys::Status;
use warpio_core::{Error, ErrorKind};

/// No result: the library has not written one.
const NONE: isize = isize::MIN;

/// What the library reads when the stream gets to an operation, and where it leaves the result.
#[derive(Debug)]
#[repr(C)]
struct Params {
    size: usize,
    file_offset: libc::off_t,
    base_offset: libc::off_t,
    moved: isize,
}

/// A request on a stream, with all that has to stay until the stream has passed it: also where the call that enqueued
/// it failed.
pub(super) struct Op {
    pub(super) piece: Piece,
    pub(super) file: Arc<Registered>,
    pub(super) lane: Arc<Lane>,
    pub(super) pin: Option<Pin>,
    base: usize,
    params: Box<UnsafeCell<Params>>,
    /// The call's own error.
    pub(super) refused: Option<CuFileError>,
}

// SAFETY: the parameters are written by the library alone until the stream has passed the request, and read behind that.
unsafe impl Send for Op {}
// SAFETY: a shared reference reads one word of them, as a volatile.
unsafe impl Sync for Op {}

impl Op {
    pub(super) fn new(piece: Piece, file: Arc<Registered>, lane: Arc<Lane>, base: usize, pin: Option<Pin>) -> Self {
        let params = Params {
            size: piece.left(),
            file_offset: piece.offset() as libc::off_t,
            base_offset: (piece.address() - base) as libc::off_t,
            moved: NONE,
        };
        Self { piece, file, lane, pin, base, params: Box::new(UnsafeCell::new(params)), refused: None }
    }

    /// Enqueues the request. This may block for a long time.
    pub(super) fn enqueue(&mut self) {
        let library = self.lane.driver().library();
        let (handle, stream) = (self.file.handle.raw(), self.lane.raw());
        let params = self.params.get();
        // SAFETY: the parameters lie on the heap, and whatever happens, they and all that they name stay until the
        // stream has passed the request, or for ever.
        let (status, call): (Status, _) = unsafe {
            let (size, moved) = (&raw mut (*params).size, &raw mut (*params).moved);
            let (offset, at) = (&raw mut (*params).file_offset, &raw mut (*params).base_offset);
            let base = self.base as *mut c_void;
            match self.piece.direction() {
                Direction::Read => {
                    ((library.cuFileReadAsync)(handle, base, size, offset, at, moved, stream), "cuFileReadAsync")
                }
                Direction::Write => {
                    ((library.cuFileWriteAsync)(handle, base, size, offset, at, moved, stream), "cuFileWriteAsync")
                }
            }
        };
        self.refused = CuFileError::check(status, call).err();
    }

    /// The result, if the library has left one.
    pub(super) fn result(&self) -> Option<isize> {
        // SAFETY: a word that lives as long as this. The library may be writing it, which on every supported processor
        // leaves the old or the new number.
        let moved = unsafe { (&raw const (*self.params.get()).moved).read_volatile() };
        (moved != NONE).then_some(moved)
    }
}

/// A request that the library may still touch. Dropped, it leaks all that the library may use, and the transfer ends
/// without its buffer.
pub(super) struct InFlight(Option<Box<Op>>);

impl InFlight {
    pub(super) fn new(op: Op) -> Self {
        Self(Some(Box::new(op)))
    }

    pub(super) fn op(&mut self) -> Option<&mut Op> {
        self.0.as_deref_mut()
    }

    /// The stream has passed it.
    pub(super) fn passed(mut self) -> Option<Box<Op>> {
        self.0.take()
    }

    /// Nobody will say when it is over.
    pub(super) fn lose(mut self, error: Error) {
        self.leak(error);
    }

    fn leak(&mut self, error: Error) {
        let Some(op) = self.0.take() else { return };
        let Op { piece, file, lane, pin, params, .. } = *op;
        lane.give_back();
        Box::leak(params);
        std::mem::forget((file, pin));
        piece.abandon(error);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.leak(Error::new(ErrorKind::Gone));
    }
}
