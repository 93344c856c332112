//! Calls that block, on threads of the engine.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use warpio_core::engine::Direction;
use warpio_core::{DeviceId, Error, PathKind};
use warpio_cuda::CudaDeviceExt;

use super::piece::Piece;
use super::queue::Take;
use super::shared::{Shared, count};
use super::verdict::{self, Verdict};
use super::watch::Call;
use crate::error::{CuFileError, Failure, decode};
use crate::handle::FileHandle;

/// How often a request may be interrupted by signals without getting on.
pub(super) const MAX_INTERRUPTIONS: u32 = 64;

/// The threads, as others see them.
#[derive(Debug)]
pub(super) struct Callers {
    calls: Vec<Call>,
    started: AtomicUsize,
}

impl Callers {
    pub(super) fn new(threads: usize) -> Self {
        Self { calls: (0..threads.max(1)).map(|_| Call::new()).collect(), started: AtomicUsize::new(0) }
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// What the system says when not a single one can be had.
    pub(super) fn start(shared: &Arc<Shared>) -> std::io::Result<()> {
        for n in 0..shared.callers.calls.len() {
            let theirs = shared.clone();
            let thread = std::thread::Builder::new()
                .name(format!("warpio-cufile-{n}"))
                .spawn(move || Caller { shared: theirs, number: n, context: None }.run());
            match thread {
                Ok(_) => drop(shared.callers.started.fetch_add(1, Ordering::AcqRel)),
                Err(error) if n == 0 => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, started = n, "fewer threads for cuFile than asked for");
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether every thread has been in one call for this long.
    pub(super) fn all_hang(&self, stall: Duration) -> bool {
        let started = self.started.load(Ordering::Acquire);
        started > 0 && self.calls[..started].iter().all(|call| call.is_longer_than(stall))
    }
}

/// One thread.
struct Caller {
    shared: Arc<Shared>,
    number: usize,
    context: Option<DeviceId>,
}

impl Caller {
    fn run(mut self) {
        let take = Take { pieces: usize::MAX, bytes: self.shared.options.call_size, contiguous: true };
        while let Some(pieces) = self.shared.calls.take(take) {
            self.serve(pieces);
        }
    }

    fn serve(&mut self, pieces: Vec<Piece>) {
        let shared = self.shared.clone();
        let Some(first) = pieces.first() else { return };
        let (direction, target) = (first.direction(), first.target.clone());
        if let Err(error) = adopt(&mut self.context, first) {
            return pieces.into_iter().for_each(|piece| piece.fail(error.clone()));
        }
        let call = &shared.callers.calls[self.number];
        let registered = match call.during(|| target.file().registered(&shared)) {
            Ok(registered) => registered,
            Err(error) => return pieces.into_iter().for_each(|piece| shared.not_served(piece, error.clone())),
        };
        let (address, len) = (first.address(), pieces.iter().map(Piece::left).sum::<usize>());
        let (base, pin) = call.during(|| shared.base_of(first.segment(), address, len));
        let request = Request {
            file: &registered.handle,
            direction,
            base,
            base_offset: address - base,
            offset: first.offset(),
            len,
        };
        let (done, failure) = carry_out(&shared, call, &request);
        drop(pin);
        settle(&shared, pieces, done, failure, registered.path);
    }
}

/// Makes the context of a piece's memory current, unless it is already.
pub(super) fn adopt(current: &mut Option<DeviceId>, piece: &Piece) -> Result<(), Error> {
    let device = piece.segment().device();
    if *current != Some(device.id()) {
        *current = None;
        device.adopt_thread()?;
        *current = Some(device.id());
    }
    Ok(())
}

struct Request<'a> {
    file: &'a FileHandle,
    direction: Direction,
    base: usize,
    base_offset: usize,
    offset: u64,
    len: usize,
}

/// Asks until everything was moved, the file has ended, or it fails; with the bytes that were moved.
fn carry_out(shared: &Shared, call: &Call, request: &Request<'_>) -> (usize, Option<CuFileError>) {
    let (mut done, mut interruptions) = (0, 0);
    loop {
        let wanted = request.len - done;
        let answer = call.during(|| ask(shared, request, done));
        count(&shared.counts.calls);
        match verdict::result(request.direction, wanted, answer) {
            Verdict::Done => return (request.len, None),
            Verdict::End if request.file.has_more(request.offset + done as u64) => {
                return (done, Some(verdict::false_end(verdict::call_of(request.direction))));
            }
            Verdict::End => return (done, None),
            Verdict::Short(n) => (done, interruptions) = (done + n, 0),
            Verdict::Interrupted if interruptions < MAX_INTERRUPTIONS => interruptions += 1,
            Verdict::Failed(error) => return (done, Some(error)),
            Verdict::Interrupted | Verdict::Pending => {
                let error = CuFileError::new(verdict::call_of(request.direction), Failure::Os(libc::EINTR));
                return (done, Some(error));
            }
        }
    }
}

fn ask(shared: &Shared, request: &Request<'_>, done: usize) -> Result<usize, CuFileError> {
    let (library, file) = (shared.driver.library(), request.file.raw());
    let (len, offset) = (request.len - done, (request.offset + done as u64) as libc::off_t);
    let at = (request.base_offset + done) as libc::off_t;
    // SAFETY: `errno` is this thread's own.
    unsafe { *libc::__errno_location() = 0 };
    // SAFETY: the file is registered, and the memory belongs to segments that are unfinished: `len` bytes from `at` on
    // lie within them. Both stay until the call returns.
    let result = unsafe {
        match request.direction {
            Direction::Read => (library.cuFileRead)(file, request.base as *mut c_void, len, offset, at),
            Direction::Write => (library.cuFileWrite)(file, request.base as *const c_void, len, offset, at),
        }
    };
    // SAFETY: as above; nothing was called in between.
    let errno = unsafe { *libc::__errno_location() };
    decode(verdict::call_of(request.direction), result, errno)
}

/// Ends pieces of which `done` bytes were moved, in order.
fn settle(shared: &Shared, pieces: Vec<Piece>, done: usize, failure: Option<CuFileError>, path: PathKind) {
    let mut left = done;
    let several = pieces.len() > 1;
    for mut piece in pieces {
        let moved = left.min(piece.left());
        left -= moved;
        match &failure {
            // What is wrong need not be wrong with all of them.
            Some(error) if moved < piece.left() && several => shared.retry(piece, error.clone()),
            Some(error) if moved < piece.left() => shared.refused(piece, error.clone()),
            _ => {
                piece.done += moved;
                piece.finish(path);
            }
        }
    }
}
