//! The thread that submits.

use std::sync::Arc;

use warpio_core::DeviceId;

use super::super::piece::Piece;
use super::super::queue::Take;
use super::super::shared::{Shared, count};
use super::super::sync::adopt;
use super::entry::Entry;
use super::handle::BatchHandle;
use crate::sys::IoParams;

pub(super) fn run(shared: &Arc<Shared>) {
    let mut context = None;
    loop {
        let free = wait_for_places(shared);
        let take = Take { pieces: free, bytes: usize::MAX, contiguous: false };
        let Some(pieces) = shared.entries.take(take) else { break };
        serve(shared, &mut context, pieces);
    }
    shared.batches.lock().closed = true;
    shared.batches.changed.notify_all();
}

/// Blocks until entries can be submitted. Returns how many.
fn wait_for_places(shared: &Shared) -> usize {
    let batches = &shared.batches;
    let mut state = batches.lock();
    while state.lost.is_some() || state.entries.free() == 0 {
        state = batches.wait(state);
    }
    state.entries.free()
}

fn serve(shared: &Arc<Shared>, context: &mut Option<DeviceId>, pieces: Vec<Piece>) {
    let handle = match handle(shared) {
        Some(handle) => handle,
        // A call does it, also if somebody insists on batches.
        None => return shared.route(pieces),
    };
    let entries: Vec<_> = pieces.into_iter().filter_map(|piece| prepare(shared, context, piece)).collect();
    let mut cookies = Vec::with_capacity(entries.len());
    let mut params = Vec::<IoParams>::with_capacity(entries.len());
    {
        let mut state = shared.batches.lock();
        // Meanwhile the batch may have been lost, and with it the handle.
        let current = state.handle.as_ref().is_some_and(|current| Arc::ptr_eq(current, &handle));
        if state.lost.is_some() || !current {
            drop(state);
            return shared.route(entries.into_iter().map(|entry| entry.piece).collect());
        }
        for entry in entries {
            // There is a place: this thread alone takes places.
            if let Ok(cookie) = state.entries.insert(entry) {
                cookies.push(cookie);
                params.extend(state.entries.get(cookie).map(|entry| entry.params(cookie)));
            }
        }
        state.in_submit = true;
    }
    let submitted = params.len();
    if submitted > 0 {
        count(&shared.counts.submissions);
        shared.counts.entries.fetch_add(submitted as u64, std::sync::atomic::Ordering::Relaxed);
    }
    // SAFETY: the entries in the slab hold files and memory until their events come, or the batch was destroyed.
    let outcome =
        (submitted > 0).then(|| shared.batches.submitting.during(|| unsafe { handle.submit(params) })).transpose();
    let mut state = shared.batches.lock();
    state.in_submit = false;
    match outcome {
        Ok(kept) => {
            for cookie in cookies {
                // Those that are done already need nothing any more.
                if let Some(entry) = state.entries.get(cookie) {
                    entry.params.clone_from(&kept);
                }
            }
        }
        // The library has forgotten everything that is in flight.
        Err(error) => state.lost = state.lost.take().or(Some(error)),
    }
    drop(state);
    shared.batches.changed.notify_all();
}

/// The batch, made at first use and after one was lost.
fn handle(shared: &Shared) -> Option<Arc<BatchHandle>> {
    if let Some(handle) = &shared.batches.lock().handle {
        return Some(handle.clone());
    }
    if !shared.batches.work() {
        return None;
    }
    let capacity = shared.batches.depth;
    match shared.batches.submitting.during(|| BatchHandle::set_up(&shared.driver, capacity)) {
        Ok(handle) => {
            let handle = Arc::new(handle);
            shared.batches.lock().handle = Some(handle.clone());
            Some(handle)
        }
        Err(error) => {
            tracing::warn!(%error, "cuFile has no batch; requests go by calls of their own");
            shared.batches.go_out();
            None
        }
    }
}

/// All that can be wrong with an entry is looked at here: in the library, one bad entry costs all the others.
fn prepare(shared: &Arc<Shared>, context: &mut Option<DeviceId>, piece: Piece) -> Option<Entry> {
    if let Err(error) = adopt(context, &piece) {
        piece.fail(error);
        return None;
    }
    let call = &shared.batches.submitting;
    let file = match call.during(|| piece.target.file().registered(shared)) {
        Ok(file) => file,
        Err(error) => {
            shared.not_served(piece, error);
            return None;
        }
    };
    if piece.left() == 0 || !piece.target.file().allows(piece.direction()) {
        // Neither can be: segments are never empty, and the file was asked before.
        piece.skip();
        return None;
    }
    let (base, pin) = call.during(|| shared.base_of(piece.segment(), piece.address(), piece.left()));
    Some(Entry::new(piece, file, base, pin))
}
