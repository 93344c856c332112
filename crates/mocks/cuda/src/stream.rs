//! Streams: made, waited for, destroyed.

use std::{
    collections::VecDeque,
    ffi::{c_int, c_void},
    sync::Arc,
    thread,
};

use parking_lot::Condvar;

use crate::{
    capture,
    codes::{Code, Result},
    ffi::Out,
    queue::{HostFunction, Op, Queued},
    state::{Gpu, State, api},
    table::Handle,
    worker,
};

/// The greatest priority; the least is 0.
const GREATEST_PRIORITY: c_int = -5;
const NON_BLOCKING: u32 = 1;
/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`.
const LEGACY: Handle = 1;
const PER_THREAD: Handle = 2;

/// How a stream relates to the legacy default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Legacy,
    Blocking,
    NonBlocking,
}

/// One stream. Its thread runs `queue` in order.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) context: Handle,
    pub(crate) device: usize,
    pub(crate) kind: Kind,
    /// Made by the program; else a default stream.
    pub(crate) made: bool,
    priority: c_int,
    pub(crate) queue: VecDeque<Queued>,
    /// Whether an operation was taken out of `queue` that has not ended.
    pub(crate) busy: bool,
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    /// Wakes the stream's thread.
    pub(crate) work: Arc<Condvar>,
    /// Wakes those who wait for the stream on the host.
    pub(crate) done: Arc<Condvar>,
    /// Streams that wait for this one.
    pub(crate) waiters: Vec<Handle>,
    pub(crate) destroyed: bool,
    /// Whether a copy stands at the gate.
    pub(crate) held: bool,
    pub(crate) capture: Option<Handle>,
    /// Up to where the legacy stream was waited for.
    pub(crate) legacy_seen: u64,
}

impl Stream {
    /// What is left to wait for.
    pub(crate) fn unfinished(&self, handle: Handle) -> Option<Ticket> {
        (self.completed < self.submitted).then_some(Ticket { stream: handle, number: self.submitted })
    }
}

/// A point in a stream's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) stream: Handle,
    pub(crate) number: u64,
}

impl Ticket {
    /// A point that lies behind everyone.
    pub(crate) const REACHED: Self = Self { stream: 0, number: 0 };
}

impl State {
    /// Whether a stream has got to a point. A stream that is gone has.
    pub(crate) fn reached(&self, ticket: Ticket) -> bool {
        self.streams.get(ticket.stream).map_or(true, |stream| stream.completed >= ticket.number)
    }

    fn add_stream(&mut self, context: Handle, kind: Kind, made: bool, priority: c_int) -> Result<Handle> {
        let device = self.device_of(context)?;
        let handle = self.streams.insert(Stream {
            context,
            device,
            kind,
            made,
            priority: priority.clamp(GREATEST_PRIORITY, 0),
            queue: VecDeque::new(),
            busy: false,
            submitted: 0,
            completed: 0,
            work: Arc::new(Condvar::new()),
            done: Arc::new(Condvar::new()),
            waiters: Vec::new(),
            destroyed: false,
            held: false,
            capture: None,
            legacy_seen: 0,
        });
        let thread = thread::Builder::new().name(format!("mock-stream-{:x}", handle & 0xffff_ffff));
        if thread.spawn(move || worker::run(handle)).is_err() {
            self.streams.remove(handle)?;
            return Err(Code::OUT_OF_MEMORY);
        }
        Ok(handle)
    }

    /// The stream that a caller names, once it is known to be usable. Default streams are those of the current context,
    /// and there must be one in any case.
    pub(crate) fn usable_stream(&mut self, named: Handle) -> Result<Handle> {
        let handle = self.named_stream(named)?;
        let stream = self.streams.get(handle)?;
        if stream.kind == Kind::Legacy {
            capture::refuse_legacy(self, stream.context)?;
        }
        Ok(handle)
    }

    /// Like [`usable_stream`](Self::usable_stream), also while the stream may not be used because of a capture.
    pub(crate) fn named_stream(&mut self, named: Handle) -> Result<Handle> {
        let current = self.current()?;
        match named {
            0 | LEGACY => self.legacy_stream(current),
            PER_THREAD => self.thread_stream(current),
            made => {
                let stream = self.streams.get(made)?;
                if stream.destroyed {
                    return Err(Code::INVALID_HANDLE);
                }
                let context = stream.context;
                self.check_context(context)?;
                Ok(made)
            }
        }
    }

    fn legacy_stream(&mut self, context: Handle) -> Result<Handle> {
        if let Some(handle) = self.contexts.get(context)?.legacy_stream {
            return Ok(handle);
        }
        let handle = self.add_stream(context, Kind::Legacy, false, 0)?;
        self.contexts.get_mut(context)?.legacy_stream = Some(handle);
        Ok(handle)
    }

    fn thread_stream(&mut self, context: Handle) -> Result<Handle> {
        let thread = thread::current().id();
        if let Some(handle) = self.contexts.get(context)?.thread_streams.get(&thread) {
            return Ok(*handle);
        }
        let handle = self.add_stream(context, Kind::Blocking, false, 0)?;
        let streams = &mut self.contexts.get_mut(context)?.thread_streams;
        streams.insert(thread, handle);
        Ok(handle)
    }

    /// Lets a stream end once its work is done.
    pub(crate) fn retire_stream(&mut self, handle: Handle) {
        if let Ok(stream) = self.streams.get_mut(handle) {
            stream.destroyed = true;
            stream.work.notify_one();
        }
    }

    /// Has every stream, and everyone who waits for one, look again.
    pub(crate) fn wake_streams(&self) {
        for (_, stream) in self.streams.iter() {
            stream.work.notify_one();
            stream.done.notify_all();
        }
    }

    /// The points up to which a stream must get to count as synchronised.
    fn goals(&self, handle: Handle) -> Result<Vec<Ticket>> {
        let stream = self.streams.get(handle)?;
        let legacy = stream.kind == Kind::Legacy;
        let context = stream.context;
        let counts = |other: &Stream| legacy && other.context == context && other.kind == Kind::Blocking;
        Ok(self
            .streams
            .iter()
            .filter(|(other, stream)| *other == handle || counts(stream))
            .filter_map(|(other, stream)| stream.unfinished(other))
            .collect())
    }
}

/// Waits on the host until a stream gets to a point. The error is that of `context`, if it breaks.
pub(crate) fn wait_for(gpu: &mut Gpu, context: Handle, ticket: Ticket) -> Result {
    loop {
        gpu.check_context(context)?;
        if gpu.reached(ticket) {
            return Ok(());
        }
        let done = Arc::clone(&gpu.streams.get(ticket.stream)?.done);
        done.wait(gpu);
    }
}

/// Waits for all that a stream was given so far.
pub(crate) fn synchronize(gpu: &mut Gpu, handle: Handle) -> Result {
    let stream = gpu.streams.get(handle)?;
    let (context, device) = (stream.context, stream.device);
    for ticket in gpu.goals(handle)? {
        wait_for(gpu, context, ticket)?;
    }
    gpu.settle_pools(device);
    Ok(())
}

/// What the streams of a context have left to do.
pub(crate) fn unfinished_in(gpu: &Gpu, context: Handle) -> Vec<Ticket> {
    gpu.streams
        .iter()
        .filter(|(_, stream)| stream.context == context)
        .filter_map(|(handle, stream)| stream.unfinished(handle))
        .collect()
}

/// Waits until the streams of a context are idle, also if it is broken and drops its work.
pub(crate) fn drain(gpu: &mut Gpu, context: Handle) {
    while let Some(ticket) = unfinished_in(gpu, context).pop() {
        if let Ok(stream) = gpu.streams.get(ticket.stream) {
            let done = Arc::clone(&stream.done);
            done.wait(gpu);
        }
    }
}

/// Waits for all that the streams of a context were given so far.
pub(crate) fn synchronize_context(gpu: &mut Gpu, context: Handle) -> Result {
    let device = gpu.device_of(context)?;
    for ticket in unfinished_in(gpu, context) {
        wait_for(gpu, context, ticket)?;
    }
    gpu.settle_pools(device);
    gpu.check_context(context)
}

fn create(gpu: &mut Gpu, out: &Out<Handle>, flags: u32, priority: c_int) -> Result {
    let kind = match flags {
        0 => Kind::Blocking,
        NON_BLOCKING => Kind::NonBlocking,
        _ => return Err(Code::INVALID_VALUE),
    };
    let context = gpu.current()?;
    let handle = gpu.add_stream(context, kind, true, priority)?;
    out.set(handle)
}

/// Makes a stream.
#[unsafe(no_mangle)]
extern "C" fn cuStreamCreate(out: Out<Handle>, flags: u32) -> c_int {
    api("cuStreamCreate", |gpu| create(gpu, &out, flags, 0))
}

/// Makes a stream with a priority, which is kept and changes nothing.
#[unsafe(no_mangle)]
extern "C" fn cuStreamCreateWithPriority(out: Out<Handle>, flags: u32, priority: c_int) -> c_int {
    api("cuStreamCreateWithPriority", |gpu| create(gpu, &out, flags, priority))
}

/// Destroys a stream. It returns at once; what was queued still runs.
#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(handle: Handle) -> c_int {
    api("cuStreamDestroy_v2", |gpu| {
        let stream = gpu.streams.get(handle)?;
        if stream.destroyed || !stream.made {
            return Err(Code::INVALID_HANDLE);
        }
        gpu.check_context(stream.context)?;
        capture::abandon(gpu, handle);
        gpu.retire_stream(handle);
        Ok(())
    })
}

/// Waits for the work of a stream.
#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(handle: Handle) -> c_int {
    api("cuStreamSynchronize", |gpu| {
        let handle = gpu.usable_stream(handle)?;
        capture::refuse_stream_wait(gpu, handle)?;
        synchronize(gpu, handle)
    })
}

/// Whether the work of a stream is done.
#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(handle: Handle) -> c_int {
    api("cuStreamQuery", |gpu| {
        let handle = gpu.usable_stream(handle)?;
        capture::refuse_stream_wait(gpu, handle)?;
        if gpu.goals(handle)?.is_empty() { Ok(()) } else { Err(Code::NOT_READY) }
    })
}

/// Has a stream call a function on the host.
#[unsafe(no_mangle)]
extern "C" fn cuLaunchHostFunc(stream: Handle, function: Option<HostFunction>, data: *mut c_void) -> c_int {
    api("cuLaunchHostFunc", |gpu| {
        let function = function.ok_or(Code::INVALID_VALUE)?;
        let stream = gpu.usable_stream(stream)?;
        gpu.submit(stream, Op::Host(function, data as u64))?;
        Ok(())
    })
}

/// The priorities that streams may have.
#[unsafe(no_mangle)]
extern "C" fn cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) -> c_int {
    api("cuCtxGetStreamPriorityRange", |gpu| {
        gpu.current()?;
        least.set_if_wanted(0);
        greatest.set_if_wanted(GREATEST_PRIORITY);
        Ok(())
    })
}

/// The priority of a stream.
#[unsafe(no_mangle)]
extern "C" fn cuStreamGetPriority(handle: Handle, out: Out<c_int>) -> c_int {
    api("cuStreamGetPriority", |gpu| {
        let handle = gpu.named_stream(handle)?;
        out.set(gpu.streams.get(handle)?.priority)
    })
}

/// The flags of a stream.
#[unsafe(no_mangle)]
extern "C" fn cuStreamGetFlags(handle: Handle, out: Out<u32>) -> c_int {
    api("cuStreamGetFlags", |gpu| {
        let handle = gpu.named_stream(handle)?;
        let non_blocking = gpu.streams.get(handle)?.kind == Kind::NonBlocking;
        out.set(u32::from(non_blocking))
    })
}

/// A number that only this stream carries.
#[unsafe(no_mangle)]
extern "C" fn cuStreamGetId(handle: Handle, out: Out<u64>) -> c_int {
    api("cuStreamGetId", |gpu| out.set(gpu.named_stream(handle)? & 0xffff_ffff))
}

/// The context of a stream.
#[unsafe(no_mangle)]
extern "C" fn cuStreamGetCtx(handle: Handle, out: Out<Handle>) -> c_int {
    api("cuStreamGetCtx", |gpu| {
        let handle = gpu.named_stream(handle)?;
        out.set(gpu.streams.get(handle)?.context)
    })
}

/// The device of a stream.
#[unsafe(no_mangle)]
extern "C" fn cuStreamGetDevice(handle: Handle, out: Out<c_int>) -> c_int {
    api("cuStreamGetDevice", |gpu| {
        let handle = gpu.named_stream(handle)?;
        out.set(gpu.streams.get(handle)?.device as c_int)
    })
}
