//! Operations in flight, by the number of their job.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use io_uring_06::squeue::{Entry, Flags};
use io_uring_06::{cqueue, opcode, types};
use tokio_uring::{InFlightOneshot, OneshotOutputTransform, UnsubmittedOneshot};
use warpio_core::engine::Direction;

use super::bell::Finished;
use crate::engine::ring::Op;

/// The result of an operation as it stands; no data goes along with it.
struct ResultOnly;

impl OneshotOutputTransform for ResultOnly {
    type Output = i32;
    type StoredData = ();

    fn transform_oneshot_output(self, (): (), entry: cqueue::Entry) -> i32 {
        entry.result()
    }
}

/// Operations in flight, each with a waker that names it.
pub(super) struct Operations {
    finished: Arc<Finished>,
    entries: Vec<Slot>,
}

struct Slot {
    waker: Waker,
    operation: Option<InFlightOneshot<(), ResultOnly>>,
}

impl Operations {
    pub(super) fn new(finished: Arc<Finished>) -> Self {
        Self { finished, entries: Vec::new() }
    }

    /// Hands an operation to the ring of the runtime that this is called in. It goes to the kernel when the thread has
    /// nothing else to do.
    pub(super) fn submit(&mut self, op: Op) -> Option<i32> {
        let index = op.token as usize;
        while self.entries.len() <= index {
            let token = self.entries.len() as u32;
            self.entries.push(Slot { waker: self.finished.waker(token), operation: None });
        }
        self.entries[index].operation = Some(UnsubmittedOneshot::new((), ResultOnly, entry(op)).submit());
        self.result(op.token)
    }

    /// The result of an operation, if it is in.
    pub(super) fn result(&mut self, token: u32) -> Option<i32> {
        let Slot { waker, operation } = self.entries.get_mut(token as usize)?;
        match Pin::new(operation.as_mut()?).poll(&mut Context::from_waker(waker)) {
            Poll::Ready(result) => {
                *operation = None;
                Some(result)
            }
            Poll::Pending => None,
        }
    }
}

fn entry(op: Op) -> Entry {
    let fd = types::Fd(op.fd);
    let entry = match (op.direction, op.fixed) {
        (Direction::Read, None) => opcode::Read::new(fd, op.ptr, op.len).offset(op.offset).build(),
        (Direction::Read, Some(index)) => opcode::ReadFixed::new(fd, op.ptr, op.len, index).offset(op.offset).build(),
        (Direction::Write, None) => opcode::Write::new(fd, op.ptr, op.len).offset(op.offset).build(),
        (Direction::Write, Some(index)) => opcode::WriteFixed::new(fd, op.ptr, op.len, index).offset(op.offset).build(),
    };
    if op.patient { entry.flags(Flags::ASYNC) } else { entry }
}
