//! What streams are given to do.

use std::{ffi::c_void, sync::Arc};

use crate::{
    codes::Result,
    copy::Copy,
    fill::Fill,
    launch::Launch,
    memory::{Address, MemoryRef},
    state::State,
    stream::{Kind, Ticket},
    table::Handle,
    value::{Await, Write},
};

/// A host function as `cuLaunchHostFunc` takes it.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// One operation.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// One copy, or a batch of them in any order.
    Copies(Arc<[Copy]>),
    Fill(Fill),
    Kernel(Launch),
    /// The function's data travels as an address.
    Host(HostFunction, u64),
    /// Work of another stream comes first.
    Wait(Ticket),
    Write(Write),
    Await(Await),
    /// An event, and which of its records this is.
    Record(Handle, u64),
    /// A stream-ordered allocation can be used from here on.
    Ready(u64),
    /// A stream-ordered allocation ends here.
    Free(u64),
}

/// An operation on its way.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) number: u64,
    pub(crate) op: Op,
    /// Whether it was already held up as the plan asks.
    pub(crate) delayed: bool,
    /// Its context was broken, and may be whole again: it never runs.
    pub(crate) doomed: bool,
}

impl Op {
    /// The memory that must stay while the operation is on its way.
    pub(crate) fn memory(&self) -> Vec<MemoryRef> {
        let of = |address: &Address| address.memory;
        match self {
            Self::Copies(copies) => copies.iter().flat_map(Copy::memory).collect(),
            Self::Fill(fill) => of(&fill.target).into_iter().collect(),
            Self::Kernel(launch) => launch.uses.iter().filter_map(of).collect(),
            Self::Write(write) => of(&write.target).into_iter().collect(),
            Self::Await(wait) => of(&wait.target).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Copies and their bytes.
    pub(crate) fn copies(&self) -> (u64, u64) {
        match self {
            Self::Copies(copies) => (copies.len() as u64, copies.iter().map(|copy| copy.len).sum()),
            _ => (0, 0),
        }
    }

    /// Whether it stands for work on the device or the host, rather than for bookkeeping.
    pub(crate) fn is_work(&self) -> bool {
        matches!(self, Self::Copies(_) | Self::Fill(_) | Self::Kernel(_) | Self::Host(..))
    }
}

impl State {
    /// Gives a stream something to do, or adds it to the capture that the stream is in.
    pub(crate) fn submit(&mut self, handle: Handle, op: Op) -> Result<Ticket> {
        if let Some(capture) = self.streams.get(handle)?.capture {
            self.captures.get_mut(capture)?.record(handle, op);
            return Ok(Ticket::REACHED);
        }
        for ticket in self.implied_waits(handle)? {
            self.push(handle, Op::Wait(ticket))?;
        }
        self.push(handle, op)
    }

    fn push(&mut self, handle: Handle, op: Op) -> Result<Ticket> {
        for memory in op.memory() {
            self.hold(memory);
        }
        let (copies, bytes) = op.copies();
        self.counters.submitted(copies, bytes);
        let stream = self.streams.get_mut(handle)?;
        stream.submitted += 1;
        let number = stream.submitted;
        stream.queue.push_back(Queued { number, op, delayed: false, doomed: false });
        stream.work.notify_one();
        Ok(Ticket { stream: handle, number })
    }

    /// What the legacy default stream implies: it waits for all blocking streams of its context, and they for it.
    fn implied_waits(&mut self, handle: Handle) -> Result<Vec<Ticket>> {
        let stream = self.streams.get(handle)?;
        let context = stream.context;
        match stream.kind {
            Kind::NonBlocking => Ok(Vec::new()),
            Kind::Legacy => Ok(self
                .streams
                .iter()
                .filter(|(_, other)| other.context == context && other.kind == Kind::Blocking)
                .filter_map(|(other, stream)| stream.unfinished(other))
                .collect()),
            Kind::Blocking => {
                let legacy = self.contexts.get(context)?.legacy_stream;
                let Some(legacy) = legacy else {
                    return Ok(Vec::new());
                };
                let unfinished = self.streams.get(legacy)?.unfinished(legacy);
                let stream = self.streams.get_mut(handle)?;
                // One wait for each state of the legacy stream is enough.
                Ok(unfinished
                    .filter(|ticket| std::mem::replace(&mut stream.legacy_seen, ticket.number) < ticket.number)
                    .into_iter()
                    .collect())
            }
        }
    }
}
