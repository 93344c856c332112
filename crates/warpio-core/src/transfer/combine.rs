//! Transfers made of other transfers. Nothing is started by polling: the parts run already.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::control::Control;
use super::outcome::{Failed, Moved, Outcome, Ranges};
use super::{Source, Transfer};
use crate::buffer::DeviceBytesMut;

type Result<O> = std::result::Result<O, Failed<<O as Outcome>::Buffer>>;

/// `transfer`, with its result changed by `f`.
pub(crate) fn map<A: Outcome, B: Outcome>(
    transfer: Transfer<A>,
    f: impl FnOnce(Result<A>) -> Result<B> + Send + Sync + 'static,
) -> Transfer<B> {
    Transfer::from_source(Map { transfer, f: Some(f) })
}

struct Map<A: Outcome, F> {
    transfer: Transfer<A>,
    f: Option<F>,
}

impl<A, B, F> Source<B> for Map<A, F>
where
    A: Outcome,
    B: Outcome,
    F: FnOnce(Result<A>) -> Result<B> + Send + Sync,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<B>> {
        let Some(result) = ready(Pin::new(&mut self.transfer).poll(cx)) else { return Poll::Pending };
        match self.f.take() {
            Some(f) => Poll::Ready(f(result)),
            None => panic!("a transfer was polled after it had resolved"),
        }
    }

    fn each_control(&self, f: &mut dyn FnMut(&Arc<Control>)) {
        self.transfer.source.each_control(f);
    }
}

fn ready<T>(poll: Poll<T>) -> Option<T> {
    match poll {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// The transfers into neighbouring parts of one buffer as one transfer into the whole. `rest` is what lies behind the
/// last part.
pub(crate) fn join(transfers: Vec<Transfer>, rest: DeviceBytesMut) -> Transfer<Ranges> {
    let parts = transfers.into_iter().map(Part::Running).collect();
    Transfer::from_source(Join { parts, first_running: 0, rest: Some(rest) })
}

enum Part {
    Running(Transfer),
    Done(Result<Moved<DeviceBytesMut>>),
}

struct Join {
    parts: Vec<Part>,
    /// All parts before this one are done.
    first_running: usize,
    rest: Option<DeviceBytesMut>,
}

impl Source<Ranges> for Join {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Ranges>> {
        // In order: a part behind the first one that still runs is looked at once that one is done.
        while let Some(part) = self.parts.get_mut(self.first_running) {
            if let Part::Running(transfer) = part {
                let Some(result) = ready(Pin::new(transfer).poll(cx)) else { return Poll::Pending };
                *part = Part::Done(result);
            }
            self.first_running += 1;
        }
        let Some(rest) = self.rest.take() else { panic!("a transfer was polled after it had resolved") };
        Poll::Ready(collect(std::mem::take(&mut self.parts), rest))
    }

    fn each_control(&self, f: &mut dyn FnMut(&Arc<Control>)) {
        for part in &self.parts {
            if let Part::Running(transfer) = part {
                transfer.source.each_control(f);
            }
        }
    }
}

fn collect(parts: Vec<Part>, rest: DeviceBytesMut) -> Result<Ranges> {
    let mut results = Vec::with_capacity(parts.len());
    let mut whole: Option<DeviceBytesMut> = None;
    for part in parts {
        let Part::Done(result) = part else { unreachable!("every part was polled to its end") };
        let (result, buffer) = match result {
            Ok(Moved { n, buffer }) => (Ok(n), buffer),
            Err(Failed { error, buffer: Some(buffer) }) => (Err(error), buffer),
            // A part of the memory may still be written, so the whole cannot come back.
            Err(Failed { error, buffer: None }) => return Err(Failed { error, buffer: None }),
        };
        results.push(result);
        whole = match append(whole, buffer) {
            Ok(whole) => Some(whole),
            Err(error) => return Err(Failed { error, buffer: None }),
        };
    }
    match append(whole, rest) {
        Ok(buffer) => Ok(Ranges { results, buffer }),
        Err(error) => Err(Failed { error, buffer: None }),
    }
}

fn append(whole: Option<DeviceBytesMut>, part: DeviceBytesMut) -> crate::Result<DeviceBytesMut> {
    match whole {
        None => Ok(part),
        Some(whole) => whole
            .unsplit(part)
            .map_err(|_| crate::Error::invalid_input("a source returned another buffer than the one it was given")),
    }
}
