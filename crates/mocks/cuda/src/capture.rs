//! Stream capture: streams that record instead of run, and what is forbidden meanwhile.

use std::{
    cell::Cell,
    collections::BTreeMap,
    ffi::{c_int, c_void},
    thread::{self, ThreadId},
};

use crate::{
    codes::{Code, Result},
    ffi::Out,
    graph::Graph,
    queue::Op,
    state::{Gpu, State, api},
    stream::Kind,
    table::Handle,
};

const GLOBAL: u32 = 0;
const THREAD_LOCAL: u32 = 1;
const RELAXED: u32 = 2;

const NONE: u32 = 0;
const ACTIVE: u32 = 1;
const INVALIDATED: u32 = 2;

thread_local! {
    /// How this thread minds the captures of others.
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

/// A capture under way.
#[derive(Debug)]
pub(crate) struct Capture {
    origin: Handle,
    mode: u32,
    thread: ThreadId,
    /// The streams in it, and whether the origin has waited for what they were given.
    streams: BTreeMap<Handle, bool>,
    /// In the order of the calls, which keeps every dependency.
    ops: Vec<Op>,
    spoilt: bool,
}

/// Where in a capture an event was recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CapturedAt {
    pub(crate) capture: Handle,
    pub(crate) stream: Handle,
}

impl Capture {
    pub(crate) fn record(&mut self, stream: Handle, op: Op) {
        if stream != self.origin {
            self.streams.insert(stream, false);
        }
        self.ops.push(op);
    }
}

/// Invalidates a capture: it can only be ended.
pub(crate) fn spoil(state: &mut State, capture: Handle) {
    if let Ok(capture) = state.captures.get_mut(capture) {
        capture.spoilt = true;
    }
}

fn spoil_all(state: &mut State, captures: &[Handle]) -> Result {
    for capture in captures {
        spoil(state, *capture);
    }
    if captures.is_empty() { Ok(()) } else { Err(Code::STREAM_CAPTURE_UNSUPPORTED) }
}

/// Refuses a call that may synchronise behind the caller's back, such as `cuMemAlloc` or `cuEventQuery`, while a
/// capture forbids it to this thread. The capture is lost with it.
pub(crate) fn refuse_unsafe(state: &mut State) -> Result {
    let here = thread::current().id();
    let mode = MODE.get();
    let forbids = |capture: &Capture| {
        let own = capture.thread == here && capture.mode != RELAXED;
        match mode {
            GLOBAL => own || capture.mode == GLOBAL,
            THREAD_LOCAL => own,
            _ => false,
        }
    };
    let found: Vec<Handle> =
        state.captures.iter().filter(|(_, capture)| forbids(capture)).map(|(handle, _)| handle).collect();
    spoil_all(state, &found)
}

/// Refuses what cannot be captured.
pub(crate) fn refuse_in(state: &State, stream: Handle) -> Result {
    match state.streams.get(stream)?.capture {
        Some(_) => Err(Code::STREAM_CAPTURE_UNSUPPORTED),
        None => Ok(()),
    }
}

fn captures_in(state: &State, context: Handle, only_blocking: bool) -> Vec<Handle> {
    state
        .streams
        .iter()
        .filter(|(_, stream)| stream.context == context)
        .filter(|(_, stream)| !only_blocking || stream.kind == Kind::Blocking)
        .filter_map(|(_, stream)| stream.capture)
        .collect()
}

/// Refuses to use the legacy stream while it would have to wait for a stream that captures.
pub(crate) fn refuse_legacy(state: &mut State, context: Handle) -> Result {
    let found = captures_in(state, context, true);
    spoil_all(state, &found).map_err(|_| Code::STREAM_CAPTURE_IMPLICIT)
}

/// Refuses to wait for a context in which a stream captures.
pub(crate) fn refuse_context_wait(state: &mut State, context: Handle) -> Result {
    let found = captures_in(state, context, false);
    spoil_all(state, &found)?;
    refuse_unsafe(state)
}

/// Refuses to wait for a stream that captures.
pub(crate) fn refuse_stream_wait(state: &mut State, stream: Handle) -> Result {
    let found: Vec<Handle> = state.streams.get(stream)?.capture.into_iter().collect();
    spoil_all(state, &found)?;
    refuse_unsafe(state)
}

/// A stream waits for an event recorded within a capture, and becomes part of it.
pub(crate) fn join(state: &mut State, stream: Handle, at: CapturedAt) -> Result {
    if state.captures.get(at.capture).is_err() {
        return Err(Code::CAPTURED_EVENT);
    }
    let waiting = state.streams.get_mut(stream)?;
    if waiting.kind == Kind::Legacy {
        spoil(state, at.capture);
        return Err(Code::STREAM_CAPTURE_IMPLICIT);
    }
    match waiting.capture {
        Some(other) if other != at.capture => {
            spoil(state, other);
            spoil(state, at.capture);
            return Err(Code::STREAM_CAPTURE_MERGE);
        }
        Some(_) => {}
        None => waiting.capture = Some(at.capture),
    }
    let capture = state.captures.get_mut(at.capture)?;
    if stream != capture.origin {
        capture.streams.entry(stream).or_insert(false);
    } else if at.stream != capture.origin {
        capture.streams.insert(at.stream, true);
    }
    Ok(())
}

/// Ends a capture and gives what it held.
fn end(state: &mut State, handle: Handle) -> Result<Capture> {
    let capture = state.captures.remove(handle)?;
    for stream in state.streams.values_mut() {
        if stream.capture == Some(handle) {
            stream.capture = None;
        }
    }
    Ok(capture)
}

/// Gives up the capture of a stream that is destroyed.
pub(crate) fn abandon(state: &mut State, stream: Handle) {
    let capture = state.streams.get(stream).ok().and_then(|stream| stream.capture);
    let Some(handle) = capture else {
        return;
    };
    match state.captures.get_mut(handle) {
        Ok(capture) if capture.origin != stream => {
            capture.streams.remove(&stream);
            capture.spoilt = true;
        }
        // It is in the table, so that ending it cannot fail.
        _ => drop(end(state, handle)),
    }
}

fn begin(gpu: &mut Gpu, stream: Handle, mode: u32) -> Result {
    if mode > RELAXED {
        return Err(Code::INVALID_VALUE);
    }
    let handle = gpu.named_stream(stream)?;
    let stream = gpu.streams.get(handle)?;
    if stream.kind == Kind::Legacy {
        return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
    }
    if stream.capture.is_some() {
        return Err(Code::ILLEGAL_STATE);
    }
    let capture = gpu.captures.insert(Capture {
        origin: handle,
        mode,
        thread: thread::current().id(),
        streams: BTreeMap::new(),
        ops: Vec::new(),
        spoilt: false,
    });
    gpu.streams.get_mut(handle)?.capture = Some(capture);
    Ok(())
}

/// Has a stream record what it is given from now on.
#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(stream: Handle, mode: u32) -> c_int {
    api("cuStreamBeginCapture_v2", |gpu| begin(gpu, stream, mode))
}

/// Ends a capture and gives what was recorded as a graph.
#[unsafe(no_mangle)]
extern "C" fn cuStreamEndCapture(stream: Handle, out: Out<Handle>) -> c_int {
    api("cuStreamEndCapture", |gpu| {
        out.set(0)?;
        let stream = gpu.named_stream(stream)?;
        let handle = gpu.streams.get(stream)?.capture.ok_or(Code::ILLEGAL_STATE)?;
        let capture = gpu.captures.get(handle)?;
        if capture.mode != RELAXED && capture.thread != thread::current().id() {
            return Err(Code::STREAM_CAPTURE_WRONG_THREAD);
        }
        if capture.origin != stream {
            spoil(gpu, handle);
            return Err(Code::STREAM_CAPTURE_UNMATCHED);
        }
        let capture = end(gpu, handle)?;
        if capture.spoilt {
            return Err(Code::STREAM_CAPTURE_INVALIDATED);
        }
        if capture.streams.values().any(|joined| !joined) {
            return Err(Code::STREAM_CAPTURE_UNJOINED);
        }
        out.set(gpu.graphs.insert(Graph::new(capture.ops)))
    })
}

/// The capture that a named stream is in, and how it does.
fn status(gpu: &mut Gpu, stream: Handle) -> Result<(u32, Handle)> {
    let stream = gpu.named_stream(stream)?;
    let stream = gpu.streams.get(stream)?;
    let (kind, context) = (stream.kind, stream.context);
    let Some(handle) = stream.capture else {
        // The legacy stream cannot be asked about while it would have to wait for a capture; that alone spoils none.
        let implied = kind == Kind::Legacy && !captures_in(gpu, context, true).is_empty();
        return if implied { Err(Code::STREAM_CAPTURE_IMPLICIT) } else { Ok((NONE, 0)) };
    };
    let spoilt = gpu.captures.get(handle)?.spoilt;
    Ok((if spoilt { INVALIDATED } else { ACTIVE }, handle))
}

/// Whether a stream captures.
#[unsafe(no_mangle)]
extern "C" fn cuStreamIsCapturing(stream: Handle, out: Out<u32>) -> c_int {
    api("cuStreamIsCapturing", |gpu| out.set(status(gpu, stream)?.0))
}

/// Whether a stream captures, and a number for the capture. The graph so far is not given.
#[unsafe(no_mangle)]
extern "C" fn cuStreamGetCaptureInfo_v2(
    stream: Handle,
    out: Out<u32>,
    id: Out<u64>,
    graph: Out<Handle>,
    nodes: Out<*const c_void>,
    count: Out<usize>,
) -> c_int {
    api("cuStreamGetCaptureInfo_v2", |gpu| {
        let (state, capture) = status(gpu, stream)?;
        out.set(state)?;
        id.set_if_wanted(capture);
        graph.set_if_wanted(0);
        nodes.set_if_wanted(std::ptr::null());
        count.set_if_wanted(0);
        Ok(())
    })
}

/// Whether a stream captures, and a number for the capture. The graph so far is not given.
#[unsafe(no_mangle)]
extern "C" fn cuStreamGetCaptureInfo_v3(
    stream: Handle,
    out: Out<u32>,
    id: Out<u64>,
    graph: Out<Handle>,
    nodes: Out<*const c_void>,
    edges: Out<*const c_void>,
    count: Out<usize>,
) -> c_int {
    api("cuStreamGetCaptureInfo_v3", |gpu| {
        let (state, capture) = status(gpu, stream)?;
        out.set(state)?;
        id.set_if_wanted(capture);
        graph.set_if_wanted(0);
        nodes.set_if_wanted(std::ptr::null());
        edges.set_if_wanted(std::ptr::null());
        count.set_if_wanted(0);
        Ok(())
    })
}

/// Sets how the calling thread minds the captures of others, and gives what it was.
#[unsafe(no_mangle)]
extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut u32) -> c_int {
    api("cuThreadExchangeStreamCaptureMode", |_| {
        let wanted = crate::ffi::In::from(mode.cast_const()).get()?;
        if wanted > RELAXED {
            return Err(Code::INVALID_VALUE);
        }
        Out::from(mode).set(MODE.replace(wanted))
    })
}
