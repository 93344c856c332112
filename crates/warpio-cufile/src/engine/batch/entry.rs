use std::ffi::c_void;
use std::sync::Arc;

use warpio_core::engine::Direction;

use super::super::file::Registered;
use super::super::piece::Piece;
use super::handle::Entries;
use super::slab::to_pointer;
use crate::buffer::Pin;
use crate::sys::IoParams;

/// A request as an entry of a batch, with all that has to stay until its event has come.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) piece: Piece,
    pub(super) file: Arc<Registered>,
    base: usize,
    pub(super) pin: Option<Pin>,
    /// What the library was given.
    pub(super) params: Option<Arc<Entries>>,
}

impl Entry {
    pub(super) fn new(piece: Piece, file: Arc<Registered>, base: usize, pin: Option<Pin>) -> Self {
        Self { piece, file, base, pin, params: None }
    }

    /// The entry for the library. Its length is never zero: such an entry never gets an event.
    pub(super) fn params(&self, cookie: u64) -> IoParams {
        IoParams {
            mode: IoParams::BATCH,
            base: self.base as *mut c_void,
            file_offset: self.piece.offset() as i64,
            base_offset: (self.piece.address() - self.base) as i64,
            size: self.piece.left(),
            handle: self.file.handle.raw(),
            opcode: match self.piece.direction() {
                Direction::Read => IoParams::READ,
                Direction::Write => IoParams::WRITE,
            },
            cookie: to_pointer(cookie),
        }
    }
}
