//! Events: points in a stream's work that others wait for.

use std::{ffi::c_int, time::Instant};

use crate::{
    capture::{self, CapturedAt},
    codes::{Code, Result},
    ffi::Out,
    queue::Op,
    state::{Gpu, State, api},
    stream::{self, Ticket},
    table::Handle,
};

const BLOCKING_SYNC: u32 = 1;
const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

/// One event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: Handle,
    timed: bool,
    record: Option<Record>,
    /// Its last record is part of a capture.
    pub(crate) captured: Option<CapturedAt>,
    records: u64,
}

impl Event {
    /// What the last record stands behind.
    fn tickets(&self) -> Vec<Ticket> {
        self.record.as_ref().map(|record| record.tickets.clone()).unwrap_or_default()
    }
}

/// The last record of an event.
#[derive(Debug)]
struct Record {
    number: u64,
    /// One, or for the record of a whole context what each of its streams had left to do.
    tickets: Vec<Ticket>,
    reached: Option<Instant>,
}

impl State {
    /// An event that works.
    fn event(&mut self, handle: Handle) -> Result<&mut Event> {
        let context = self.events.get(handle)?.context;
        self.check_context(context)?;
        self.events.get_mut(handle)
    }

    /// Notes when a stream got to a record, unless the event was recorded again since.
    pub(crate) fn stamp_event(&mut self, handle: Handle, number: u64) {
        if let Ok(event) = self.events.get_mut(handle)
            && let Some(record) = &mut event.record
            && record.number == number
        {
            record.reached = Some(Instant::now());
        }
    }
}

/// Makes an event.
#[unsafe(no_mangle)]
extern "C" fn cuEventCreate(out: Out<Handle>, flags: u32) -> c_int {
    api("cuEventCreate", |gpu| {
        let context = gpu.current()?;
        let known = BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS;
        let shared_and_timed = flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0;
        if flags & !known != 0 || shared_and_timed {
            return Err(Code::INVALID_VALUE);
        }
        let event = Event { context, timed: flags & DISABLE_TIMING == 0, record: None, captured: None, records: 0 };
        out.set(gpu.events.insert(event))
    })
}

/// Destroys an event. Streams that wait for its last record still do.
#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(handle: Handle) -> c_int {
    api("cuEventDestroy_v2", |gpu| {
        gpu.event(handle)?;
        gpu.events.remove(handle).map(drop)
    })
}

fn record(gpu: &mut Gpu, handle: Handle, stream: Handle) -> Result {
    let stream = gpu.usable_stream(stream)?;
    let on = gpu.streams.get(stream)?;
    let (context, capture) = (on.context, on.capture);
    let event = gpu.event(handle)?;
    if event.context != context {
        return Err(Code::INVALID_HANDLE);
    }
    event.records += 1;
    let number = event.records;
    event.captured = capture.map(|capture| CapturedAt { capture, stream });
    event.record = None;
    if capture.is_some() {
        return Ok(());
    }
    let ticket = gpu.submit(stream, Op::Record(handle, number))?;
    gpu.event(handle)?.record = Some(Record { number, tickets: vec![ticket], reached: None });
    Ok(())
}

/// Records an event behind all work of a context. Refused while one of its streams captures.
#[unsafe(no_mangle)]
extern "C" fn cuCtxRecordEvent(context: Handle, event: Handle) -> c_int {
    api("cuCtxRecordEvent", |gpu| {
        gpu.check_context(context)?;
        if gpu.event(event)?.context != context {
            return Err(Code::INVALID_HANDLE);
        }
        // As on hardware, the refusal ends the captures.
        capture::refuse_context_wait(gpu, context)?;
        let tickets = stream::unfinished_in(gpu, context);
        let event = gpu.event(event)?;
        event.records += 1;
        event.captured = None;
        event.record = Some(Record { number: event.records, tickets, reached: None });
        Ok(())
    })
}

/// Records an event on a stream.
#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> c_int {
    api("cuEventRecord", |gpu| record(gpu, event, stream))
}

/// Records an event on a stream. The one flag is for graphs and changes nothing here.
#[unsafe(no_mangle)]
extern "C" fn cuEventRecordWithFlags(event: Handle, stream: Handle, flags: u32) -> c_int {
    api("cuEventRecordWithFlags", |gpu| {
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        record(gpu, event, stream)
    })
}

/// The last record of an event that may be asked about: not one within a capture.
fn last_record(gpu: &mut Gpu, handle: Handle) -> Result<(Handle, Vec<Ticket>)> {
    let event = gpu.event(handle)?;
    let (context, captured) = (event.context, event.captured);
    let tickets = event.tickets();
    if let Some(at) = captured {
        capture::spoil(gpu, at.capture);
        return Err(Code::CAPTURED_EVENT);
    }
    capture::refuse_unsafe(gpu)?;
    Ok((context, tickets))
}

/// Whether a stream has got to the last record of an event. One never recorded counts as reached.
#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(handle: Handle) -> c_int {
    api("cuEventQuery", |gpu| {
        let (_, tickets) = last_record(gpu, handle)?;
        if tickets.into_iter().all(|ticket| gpu.reached(ticket)) { Ok(()) } else { Err(Code::NOT_READY) }
    })
}

/// Waits until a stream has got to the last record of an event.
#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(handle: Handle) -> c_int {
    api("cuEventSynchronize", |gpu| {
        let (context, tickets) = last_record(gpu, handle)?;
        for ticket in tickets {
            stream::wait_for(gpu, context, ticket)?;
        }
        let device = gpu.device_of(context)?;
        gpu.settle_pools(device);
        Ok(())
    })
}

/// The milliseconds between the last records of two events.
#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime_v2(out: Out<f32>, start: Handle, end: Handle) -> c_int {
    api("cuEventElapsedTime_v2", |gpu| elapsed(gpu, &out, start, end))
}

/// The milliseconds between the last records of two events.
#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime(out: Out<f32>, start: Handle, end: Handle) -> c_int {
    api("cuEventElapsedTime", |gpu| elapsed(gpu, &out, start, end))
}

fn elapsed(gpu: &mut Gpu, out: &Out<f32>, start: Handle, end: Handle) -> Result {
    let mut when = |handle: Handle| {
        let event = gpu.event(handle)?;
        let timed = event.timed;
        let (context, record) = (event.context, event.record.as_ref());
        let record = record.filter(|_| timed).ok_or(Code::INVALID_HANDLE)?;
        Ok((context, record.reached))
    };
    let (start_context, start) = when(start)?;
    let (end_context, end) = when(end)?;
    if start_context != end_context {
        return Err(Code::INVALID_HANDLE);
    }
    let (Some(start), Some(end)) = (start, end) else {
        return Err(Code::NOT_READY);
    };
    let (early, late, sign) = if start <= end { (start, end, 1.0) } else { (end, start, -1.0) };
    out.set(sign * late.duration_since(early).as_secs_f32() * 1000.0)
}

/// Has a stream wait for the last record of an event, as it is at this call.
#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: Handle, handle: Handle, flags: u32) -> c_int {
    api("cuStreamWaitEvent", |gpu| {
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        let stream = gpu.usable_stream(stream)?;
        let event = gpu.event(handle)?;
        let (captured, tickets) = (event.captured, event.tickets());
        if let Some(at) = captured {
            return capture::join(gpu, stream, at);
        }
        if tickets.is_empty() {
            return Ok(());
        }
        if let Some(capture) = gpu.streams.get(stream)?.capture {
            capture::spoil(gpu, capture);
            return Err(Code::STREAM_CAPTURE_ISOLATION);
        }
        for ticket in tickets {
            gpu.submit(stream, Op::Wait(ticket))?;
        }
        Ok(())
    })
}
