use std::sync::Arc;

use super::segment::Direction;
use super::stats::Stats;
use crate::buffer::{Allocation, DeviceBytes, DeviceBytesMut};
use crate::device::{Device, DeviceEvent};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};
use crate::transfer::{Control, Driver};
use crate::{Error, ErrorKind, Result};

/// The buffer of an operation, held until nothing touches it.
pub(super) enum Lease {
    Read(DeviceBytesMut),
    Write(DeviceBytes),
    Scatter(Vec<DeviceBytesMut>),
}

impl Lease {
    /// The allocation that the bytes lie in, if it is one.
    fn allocation(&self) -> Option<&Arc<Allocation>> {
        match self {
            Self::Read(buffer) => Some(buffer.allocation()),
            Self::Write(buffer) => Some(buffer.allocation()),
            Self::Scatter(_) => None,
        }
    }
}

/// Resolves the transfer, with the bytes moved and the buffer, or without the buffer if it may still be touched.
pub(super) type Finish = Box<dyn FnOnce(Result<usize>, Option<Lease>) + Send>;

/// One transfer under way: its buffer, and the count of its segments.
pub(super) struct Operation {
    pub(super) control: Arc<Control>,
    pub(super) device: Device,
    pub(super) direction: Direction,
    pub(super) source: Arc<str>,
    pub(super) offset: u64,
    pub(super) len: usize,
    /// Segments whose bytes are not yet on their way to their final place in stream order.
    unqueued: AtomicUsize,
    /// Segments of which something may still touch the lease.
    undone: AtomicUsize,
    /// The end of the bytes that arrived without a gap, as an offset in the buffer.
    short_at: AtomicU64,
    state: Mutex<State>,
    stats: Stats,
    span: tracing::Span,
}

struct State {
    lease: Option<Lease>,
    error: Option<Error>,
    /// The last copy of every lane.
    events: Vec<(u64, DeviceEvent)>,
    finish: Option<Finish>,
    /// Something may touch the lease for ever.
    tainted: bool,
}

pub(super) struct Parameters {
    pub(super) control: Arc<Control>,
    pub(super) device: Device,
    pub(super) direction: Direction,
    pub(super) source: Arc<str>,
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) segments: usize,
    pub(super) lease: Lease,
    pub(super) finish: Finish,
    pub(super) stats: Stats,
}

impl Operation {
    pub(super) fn new(p: Parameters) -> Arc<Self> {
        let span = tracing::debug_span!(
            "transfer",
            operation = p.direction.verb(),
            source = &*p.source,
            offset = p.offset,
            bytes = p.len,
            paths = tracing::field::Empty,
            moved = tracing::field::Empty,
        );
        let state =
            State { lease: Some(p.lease), error: None, events: Vec::new(), finish: Some(p.finish), tainted: false };
        p.stats.begin();
        let operation = Arc::new(Self {
            device: p.device,
            direction: p.direction,
            source: p.source,
            offset: p.offset,
            len: p.len,
            unqueued: AtomicUsize::new(p.segments),
            undone: AtomicUsize::new(p.segments),
            short_at: AtomicU64::new(p.len as u64),
            state: Mutex::new(state),
            stats: p.stats,
            control: p.control,
            span,
        });
        let driver: std::sync::Weak<dyn Driver> = Arc::downgrade(&operation) as _;
        operation.control.attach(driver, operation.device.id());
        operation
    }

    pub(super) fn cut_short_at(&self, buffer_offset: usize) {
        self.short_at.fetch_min(buffer_offset as u64, Ordering::AcqRel);
    }

    /// Remembers why the transfer fails; the first reason counts. What has not begun is skipped from now on.
    pub(super) fn fail(&self, error: Error) {
        let error = error.or_context(self.direction.verb(), &self.source, self.offset, self.len as u64);
        let superfluous = {
            let mut state = lock(&self.state);
            match state.error {
                Some(_) => Some(error),
                None => state.error.replace(error),
            }
        };
        // Errors hold foreign values: they are dropped outside the lock.
        drop(superfluous);
        self.control.give_up();
    }

    /// Whether the rest of the work can be skipped.
    pub(super) fn is_moot(&self) -> bool {
        self.control.is_cancelled() || self.has_failed()
    }

    fn has_failed(&self) -> bool {
        lock(&self.state).error.is_some()
    }

    /// The allocation that the lease lies in, as long as some segment is unfinished.
    pub(super) fn allocation(&self) -> Option<Arc<Allocation>> {
        lock(&self.state).lease.as_ref().and_then(Lease::allocation).cloned()
    }

    pub(super) fn taint(&self) {
        lock(&self.state).tainted = true;
    }

    pub(super) fn add_event(&self, lane: u64, event: DeviceEvent) {
        let mut state = lock(&self.state);
        match state.events.iter_mut().find(|(known, _)| *known == lane) {
            Some((_, last)) => *last = event,
            None => state.events.push((lane, event)),
        }
    }

    /// A segment was cut in two. It is not finished, so neither count can be zero.
    pub(super) fn one_more(&self) {
        self.unqueued.fetch_add(1, Ordering::AcqRel);
        self.undone.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn is_alone(&self) -> bool {
        self.stats.in_flight() == 1
    }

    pub(super) fn one_queued(&self) {
        if self.unqueued.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.ordered();
        }
    }

    pub(super) fn one_done(&self) {
        if self.undone.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.resolve();
        }
    }

    fn moved(&self) -> usize {
        self.short_at.load(Ordering::Acquire) as usize
    }

    /// Nothing touches the lease any more: hands it back.
    fn resolve(&self) {
        let (finish, lease, error) = {
            let mut state = lock(&self.state);
            let Some(finish) = state.finish.take() else { return };
            let mut lease = state.lease.take();
            if state.tainted {
                // Something may write this memory for ever, so it must never be used again.
                std::mem::forget(lease.take());
            }
            (finish, lease, state.error.take())
        };
        let result = error.map_or_else(|| Ok(self.moved()), Err);
        self.account(&result);
        finish(result, lease);
    }

    fn account(&self, result: &Result<usize>) {
        self.stats.end(self.direction, self.control.report(), result.is_ok());
        if self.span.is_disabled() {
            return;
        }
        let report = self.control.report();
        let paths: Vec<_> = crate::transfer::PathKind::ALL
            .into_iter()
            .filter(|&path| report.get(path) > 0)
            .map(|path| path.as_str())
            .collect();
        self.span.record("paths", paths.join(","));
        match result {
            Ok(n) => {
                self.span.record("moved", n);
            }
            Err(error) => self.span.in_scope(|| tracing::debug!(%error, "failed")),
        }
    }
}

impl Driver for Operation {
    /// Resolves in stream order, if that was asked for and every copy is enqueued.
    fn ordered(&self) {
        let Some(stream) = self.control.stream() else { return };
        if self.unqueued.load(Ordering::Acquire) > 0 {
            return;
        }
        let (finish, lease) = {
            let mut state = lock(&self.state);
            if state.error.is_some() || state.tainted || state.finish.is_none() {
                return;
            }
            for (_, event) in &state.events {
                if let Err(error) = stream.wait(event) {
                    // The copies end all the same, and the transfer with them.
                    state.error = Some(error);
                    return;
                }
            }
            let mut lease = state.lease.take();
            for (_, event) in state.events.drain(..) {
                match &mut lease {
                    Some(Lease::Read(buffer)) => buffer.add_fence(event),
                    Some(Lease::Write(buffer)) => buffer.add_fence(event),
                    Some(Lease::Scatter(buffers)) => {
                        buffers.iter_mut().for_each(|buffer| buffer.add_fence(event.clone()));
                    }
                    None => {}
                }
            }
            (state.finish.take(), lease)
        };
        if let Some(finish) = finish {
            let result = Ok(self.moved());
            self.account(&result);
            finish(result, lease);
        }
    }
}

impl Operation {
    /// Why a segment was dropped without a result.
    pub(super) fn gone(&self) -> Error {
        let kind = if self.control.is_cancelled() { ErrorKind::Cancelled } else { ErrorKind::Gone };
        Error::new(kind)
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.stats.released();
    }
}
