use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use warpio_core::engine::{Direction, Segment};
use warpio_core::{Error, ErrorKind, PathKind, Result};

use super::batch::Batches;
use super::file::{CuFile, Opened, Registered};
use super::options::{EngineOptions, EngineStats, Route};
use super::piece::Piece;
use super::proof::{self, Proof};
use super::queue::Queue;
use super::stream::Streams;
use super::sync::Callers;
use super::target::CuFileTarget;
use super::watch::Load;
use crate::buffer::{Cache, Pin};
use crate::driver::{Driver, GdsPath, lock};
use crate::error::{CuFileError, Failure};
use crate::handle::FileHandle;
use crate::sys::OpError;

/// What the threads of one engine share.
pub(super) struct Shared {
    pub(super) driver: Driver,
    pub(super) options: EngineOptions,
    /// The way that the driver says bytes take.
    expected: Option<GdsPath>,
    /// What was seen of each storage.
    proofs: Mutex<HashMap<u64, Proof>>,
    pub(super) calls: Queue,
    pub(super) entries: Queue,
    pub(super) streams: Queue,
    pub(super) load: Arc<Load>,
    cache: Arc<Cache>,
    pub(super) callers: Callers,
    pub(super) batches: Batches,
    pub(super) on_streams: Streams,
    pub(super) counts: Counts,
    /// No thread takes anything any more: all of them hang.
    stuck: AtomicBool,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) calls: AtomicU64,
    pub(super) entries: AtomicU64,
    pub(super) submissions: AtomicU64,
    pub(super) lost_batches: AtomicU64,
    pub(super) stream_calls: AtomicU64,
    retries: AtomicU64,
    refused: AtomicU64,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Shared {
    pub(super) fn new(driver: Driver, options: EngineOptions, expected: Option<GdsPath>) -> Self {
        Self {
            cache: Cache::new(driver.clone(), options.registered),
            callers: Callers::new(options.threads),
            batches: Batches::new(options.batch_depth),
            on_streams: Streams::new(options.stream_depth),
            driver,
            options,
            expected,
            proofs: Mutex::default(),
            calls: Queue::default(),
            entries: Queue::default(),
            streams: Queue::default(),
            load: Arc::default(),
            counts: Counts::default(),
            stuck: AtomicBool::new(false),
        }
    }

    pub(super) fn stats(&self) -> EngineStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EngineStats {
            calls: get(&self.counts.calls),
            entries: get(&self.counts.entries),
            submissions: get(&self.counts.submissions),
            lost_batches: get(&self.counts.lost_batches),
            stream_calls: get(&self.counts.stream_calls),
            retries: get(&self.counts.retries),
            refused: get(&self.counts.refused),
            registered: self.cache.registered(),
            in_flight: self.load.pieces(),
        }
    }

    /// Puts pieces where they are waited for.
    pub(super) fn route(&self, pieces: Vec<Piece>) {
        if self.stuck.load(Ordering::Acquire) {
            return pieces.into_iter().for_each(|piece| self.pass_by(piece));
        }
        let (mut calls, mut entries, mut streams) = (Vec::new(), Vec::new(), Vec::new());
        for piece in pieces {
            match self.options.route {
                _ if piece.alone => calls.push(piece),
                Route::Sync => calls.push(piece),
                Route::Stream if self.on_streams.work() => streams.push(piece),
                Route::Batch if self.batches.work() => entries.push(piece),
                Route::Auto if piece.left() <= self.options.entry_size && self.batches.work() => entries.push(piece),
                Route::Auto | Route::Stream | Route::Batch => calls.push(piece),
            }
        }
        self.calls.push(calls);
        self.entries.push(entries);
        self.streams.push(streams);
    }

    /// Registers a file, and finds out which way its bytes take. This blocks.
    pub(super) fn register(&self, file: &CuFile, opened: Opened) -> Result<Registered> {
        let Opened { fd, storage, is_direct } = opened;
        if let Some(Proof::Refused(error)) = lock(&self.proofs).get(&storage) {
            return Err(error.clone());
        }
        let refuse = |error: Error| {
            self.refuse_storage(storage, &error);
            error
        };
        let handle = FileHandle::register(&self.driver, fd).map_err(|(error, _)| match is_of_this_file(&error) {
            true => error.into(),
            false => refuse(error.into()),
        })?;
        let proof = self.proof_of(file, &handle, storage);
        let path = self.path_of(proof, is_direct).map_err(refuse)?;
        Ok(Registered { handle, path })
    }

    /// What was seen of a storage: that a file is registered says nothing, what counts is which way a read of it takes.
    fn proof_of(&self, file: &CuFile, handle: &FileHandle, storage: u64) -> Proof {
        let known = lock(&self.proofs).get(&storage).cloned();
        if let Some(known) = known {
            return known;
        }
        if !file.allows(Direction::Read) {
            return Proof::Nothing;
        }
        let proof = proof::try_read(&self.driver, handle);
        if proof != Proof::Nothing {
            lock(&self.proofs).insert(storage, proof.clone());
        }
        proof
    }

    fn path_of(&self, proof: Proof, is_direct: bool) -> Result<PathKind> {
        let compat = if is_direct { PathKind::Direct } else { PathKind::PageCache };
        match (proof, self.expected) {
            (Proof::Refused(error), _) => Err(error),
            (Proof::Takes(path), _) | (Proof::Nothing, Some(path)) => Ok(kind(path)),
            (Proof::Compat | Proof::Nothing, _) if self.options.allow_compat => Ok(compat),
            (Proof::Compat, _) => Err(Error::new(ErrorKind::Unsupported).with_message(
                "cuFile serves this storage through host memory (compatibility mode), GPUDirect Storage does not",
            )),
            (Proof::Nothing, None) => Err(Error::new(ErrorKind::Unsupported)
                .with_message("GPUDirect Storage is not available to the cuFile driver")),
        }
    }

    /// Remembers that files of a storage are not served, and says so once.
    fn refuse_storage(&self, storage: u64, error: &Error) {
        let old = lock(&self.proofs).insert(storage, Proof::Refused(error.clone()));
        if !matches!(old, Some(Proof::Refused(_))) {
            let (major, minor) = (rustix::fs::major(storage), rustix::fs::minor(storage));
            tracing::warn!(%error, device = format!("{major}:{minor}"), "cuFile does not serve this storage");
        }
    }

    /// From where to count the `len` bytes at `address` that begin in a segment: the base of the registered memory that
    /// they lie in, held as long as the pin is, or themselves. This may block.
    pub(super) fn base_of(&self, segment: &Segment, address: usize, len: usize) -> (usize, Option<Pin>) {
        // An explicit registration lives as long as the buffer does.
        if let Some(base) = self.driver.registry().base_of(address, len) {
            return (base, None);
        }
        // Pieces that continue each other may lie in two allocations.
        match self.cache.pin(segment, len).filter(|pin| pin.covers(address, len)) {
            Some(pin) => (pin.base(), Some(pin)),
            None => (address, None),
        }
    }

    /// A request failed as an entry of a batch, on a stream, or in a call with others: a call of its own tells what is
    /// wrong with it, or does it.
    pub(super) fn retry(&self, mut piece: Piece, error: CuFileError) {
        if error.is_final() || piece.alone {
            return self.refused(piece, error);
        }
        tracing::debug!(%error, "a request goes by a call instead");
        count(&self.counts.retries);
        piece.alone = true;
        self.route(vec![piece]);
    }

    /// cuFile does not do a request: another engine does, or it fails.
    pub(super) fn refused(&self, piece: Piece, error: CuFileError) {
        if error.is_final() || piece.target.is_strict() {
            return piece.fail(error.into());
        }
        let file = piece.target.file().clone();
        let refusal: Error = error.clone().into();
        match error.failure() {
            // The file or its storage is not for cuFile.
            Failure::Code(code) if !is_of_this_memory(code) => {
                if file.refuse(refusal.clone()) {
                    tracing::warn!(error = %refusal, "cuFile refuses a file; another engine serves it from now on");
                }
            }
            _ => tracing::warn!(error = %refusal, "cuFile failed; another engine does it"),
        }
        self.hand_over(piece, refusal);
    }

    /// cuFile does not serve the file of a piece.
    pub(super) fn not_served(&self, piece: Piece, error: Error) {
        match piece.target.is_strict() {
            true => piece.fail(error),
            false => self.hand_over(piece, error),
        }
    }

    fn hand_over(&self, piece: Piece, error: Error) {
        count(&self.counts.refused);
        if let Err(piece) = piece.hand_over() {
            piece.fail(error);
        }
    }

    /// Passes a piece by threads that hang.
    pub(super) fn pass_by(&self, piece: Piece) {
        let message = format!("a call to cuFile has not returned for {:?}", self.options.stall);
        self.not_served(piece, Error::new(ErrorKind::Unavailable).with_message(message));
    }

    /// Looks for threads that hang, and lets what waits behind them go another way.
    pub(super) fn look(&self) {
        let stall = self.options.stall;
        if self.batches.look(stall) {
            self.route(self.entries.drain());
        }
        if self.on_streams.look(stall) {
            self.route(self.streams.drain());
        }
        let stuck = self.callers.all_hang(stall);
        if self.stuck.swap(stuck, Ordering::AcqRel) != stuck && stuck {
            tracing::warn!(?stall, "every thread hangs in a call to cuFile; other engines do its work");
        }
        if stuck {
            self.calls.drain().into_iter().for_each(|piece| self.pass_by(piece));
        }
    }

    /// The segments of one transfer: what cuFile does, and what the other engine does.
    pub(super) fn submit(&self, target: &Arc<CuFileTarget>, segments: Vec<Segment>) {
        let (mut pieces, mut others) = (Vec::new(), Vec::new());
        let piece = |segment| Piece::new(segment, target.clone(), self.load.work());
        let refusal = target.file().known_refusal().filter(|_| !target.is_strict());
        for segment in segments {
            let served =
                refusal.is_none() && segment.device().id().kind == "cuda" && target.file().allows(segment.direction());
            match (served, target.has_other()) {
                (true, true) => self.cut(target, segment, &mut pieces, &mut others),
                (true, false) => pieces.push(segment),
                (false, true) => others.push(segment),
                (false, false) => segment.finish(Err(Error::unsupported("cuFile reads into GPU memory only"))),
            }
        }
        let pieces = pieces.into_iter().flat_map(|segment| self.slices(segment)).map(piece).collect();
        // Bodies first: writes of whole pages throw cached ones out, among them those of the edges' neighbours.
        self.route(pieces);
        if let Err(segments) = target.hand_over(others) {
            drop(segments);
        }
    }

    fn cut(&self, target: &CuFileTarget, segment: Segment, pieces: &mut Vec<Segment>, others: &mut Vec<Segment>) {
        let (offset, address, len) = (segment.offset(), segment.device_memory().as_ptr() as usize, segment.len());
        let Some(cut) = super::align::cut(offset, address, len, !target.is_strict()) else {
            return others.push(segment);
        };
        let mut rest = segment;
        if cut.head > 0 {
            let body = rest.split_off(cut.head);
            others.push(std::mem::replace(&mut rest, body));
        }
        if cut.body < rest.len() {
            others.push(rest.split_off(cut.body));
        }
        pieces.push(rest);
    }

    /// Entries of batches are small.
    fn slices(&self, segment: Segment) -> Vec<Segment> {
        let mut slices = Vec::new();
        let mut rest = segment;
        while self.options.route == Route::Batch && rest.len() > self.options.entry_size {
            let next = rest.split_off(self.options.entry_size);
            slices.push(std::mem::replace(&mut rest, next));
        }
        slices.push(rest);
        slices
    }

    /// Lets the threads end: nothing is left to do, and nothing more comes.
    pub(super) fn end(&self) {
        self.calls.close();
        self.entries.close();
        self.streams.close();
    }
}

fn kind(path: GdsPath) -> PathKind {
    match path {
        GdsPath::NvidiaFs => PathKind::Gds,
        GdsPath::PeerToPeer => PathKind::P2p,
    }
}

/// Whether a refusal is about the memory of a request, and says nothing about its file.
fn is_of_this_memory(code: OpError) -> bool {
    let of_memory = [OpError::INVALID_MAPPING_SIZE, OpError::INVALID_MAPPING_RANGE, OpError::GPU_MEMORY_PINNING_FAILED];
    of_memory.contains(&code)
}

/// Whether a refusal to register is about one file, and says nothing about its neighbours.
fn is_of_this_file(error: &CuFileError) -> bool {
    // Its kind, its mode, its descriptor; and what the process ran out of for now.
    matches!(error.code(), None | Some(5018..=5020 | 5022 | 5025 | 5028 | 5031))
}
