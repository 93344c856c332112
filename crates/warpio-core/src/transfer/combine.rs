//! Transfers made of other transfers. Nothing is started by polling: the parts run already.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::control::Control;
use super::outcome::{Failed, Moved, Outcome, Ranges, Scattered};
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
    Transfer::from_source(Join::new(transfers, move |parts| collect(parts, rest)))
}

/// Transfers into buffers of their own as one transfer.
pub(crate) fn join_scattered(transfers: Vec<Transfer>) -> Transfer<Scattered> {
    Transfer::from_source(Join::new(transfers, collect_scattered))
}

type Part = Result<Moved<DeviceBytesMut>>;

struct Join<F> {
    /// Those that are done stay, for their reports.
    transfers: Vec<Transfer>,
    /// The results of the transfers that are done, the last transfer's first.
    results: Vec<Part>,
    collect: Option<F>,
}

impl<F> Join<F> {
    fn new(transfers: Vec<Transfer>, collect: F) -> Self {
        Self { results: Vec::with_capacity(transfers.len()), transfers, collect: Some(collect) }
    }
}

impl<O: Outcome, F: FnOnce(Vec<Part>) -> Result<O> + Send + Sync> Source<O> for Join<F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<O>> {
        // From the last one on: engines begin at the front, so that most are done when the last one is, and whoever
        // waits is woken once rather than for each of them.
        let count = self.transfers.len();
        while let Some(at) = (count - self.results.len()).checked_sub(1) {
            let Some(result) = ready(Pin::new(&mut self.transfers[at]).poll(cx)) else { return Poll::Pending };
            self.results.push(result);
        }
        let Some(collect) = self.collect.take() else { panic!("a transfer was polled after it had resolved") };
        let mut results = std::mem::take(&mut self.results);
        results.reverse();
        Poll::Ready(collect(results))
    }

    fn each_control(&self, f: &mut dyn FnMut(&Arc<Control>)) {
        self.transfers.iter().for_each(|transfer| transfer.source.each_control(f));
    }
}

fn collect_scattered(parts: Vec<Part>) -> Result<Scattered> {
    let mut whole = Scattered { results: Vec::with_capacity(parts.len()), buffers: Vec::with_capacity(parts.len()) };
    for part in parts {
        let (result, buffer) = match part {
            Ok(Moved { n, buffer }) => (Ok(n), buffer),
            Err(Failed { error, buffer: Some(buffer) }) => (Err(error), buffer),
            // The place of each buffer in the list is how it is told from the others, so the list cannot come back.
            Err(Failed { error, buffer: None }) => return Err(Failed { error, buffer: None }),
        };
        whole.results.push(result);
        whole.buffers.push(buffer);
    }
    Ok(whole)
}

fn collect(parts: Vec<Result<Moved<DeviceBytesMut>>>, rest: DeviceBytesMut) -> Result<Ranges> {
    let mut results = Vec::with_capacity(parts.len());
    let mut whole: Option<DeviceBytesMut> = None;
    for part in parts {
        let (result, buffer) = match part {
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
