//! A transfer that is under way: a future that observes it, and the other end that completes it.

mod channel;
mod combine;
mod control;
mod outcome;
mod report;
mod timeout;
mod timer;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

pub use channel::Completer;
pub(crate) use combine::{join, join_scattered, map};
pub(crate) use control::{Control, Driver};
pub use outcome::{Failed, Moved, Outcome, Ranges, Scattered};
pub use report::{PathBytes, PathKind, TransferReport};
pub use timeout::within;
#[cfg(all(test, feature = "loom"))]
pub(crate) use timer::Expire;

use crate::buffer::DeviceBytesMut;
use crate::device::DeviceStream;

/// A transfer that was started when it was made. Awaiting it only observes it.
///
/// **Dropping it cancels**: what has not begun is skipped, what is in flight runs out, and the memory is released when
/// nothing can touch it any more. **Leaking it** leaks its buffer and nothing else.
///
/// It resolves when the bytes are visible to the host and to every stream; after [`on_stream`](Self::on_stream),
/// as soon as they are on their way in that stream's order. On failure the buffer comes back in [`Failed`], except
/// where memory may still be written.
///
/// `tokio::try_join!` drops the other transfers when one fails, and their buffers with them: use `join!` to keep
/// them.
///
/// ```
/// use warpio_core::{Device, DeviceBytesMut, Moved, Transfer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Anyone can write a source: keep one end, return the other.
/// let (completer, transfer) = Transfer::<Moved<DeviceBytesMut>>::channel();
/// let mut buffer = Device::host().alloc(3)?;
/// buffer.as_mut_slice().expect("host memory").copy_from_slice(b"abc");
/// completer.complete(Ok(Moved { n: 3, buffer }));
/// assert_eq!(transfer.await?.n, 3);
/// # Ok(()) }
/// ```
#[must_use = "dropping a transfer cancels it"]
pub struct Transfer<O: Outcome = Moved<DeviceBytesMut>> {
    source: Box<dyn Source<O>>,
}

/// What a [`Transfer`] observes.
pub(crate) trait Source<O: Outcome>: Send + Sync {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<O, Failed<O::Buffer>>>;

    /// Calls `f` with the control of every transfer that this one consists of.
    fn each_control(&self, f: &mut dyn FnMut(&Arc<Control>));
}

impl<O: Outcome> Transfer<O> {
    pub(crate) fn from_source(source: impl Source<O> + 'static) -> Self {
        Self { source: Box::new(source) }
    }

    /// Both ends of a transfer, for whoever writes a source.
    pub fn channel() -> (Completer<O>, Self) {
        channel::channel()
    }

    /// A transfer that failed before it began.
    pub fn failed(error: crate::Error, buffer: Option<O::Buffer>) -> Self {
        let (completer, transfer) = Self::channel();
        completer.complete(Err(Failed { error, buffer }));
        transfer
    }

    /// Asks the transfer to end early. It resolves once nothing touches its memory any more: as
    /// [`Cancelled`](crate::ErrorKind::Cancelled), or with its result if that came first.
    pub fn cancel(&self) {
        self.source.each_control(&mut |control| control.cancel());
    }

    /// Gives the transfer until `deadline`. It then resolves at once as
    /// [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded) and is cancelled; the buffer comes back only if
    /// nothing can touch it any more. Works outside tokio too.
    pub fn deadline(self, deadline: Instant) -> Self {
        self.source.each_control(&mut |control| timer::expire_at(deadline, control));
        self
    }

    /// Resolves in the order of `stream`, without waiting for the device: work enqueued on it from then on sees the
    /// bytes. The host and other streams must wait for the stream first.
    ///
    /// A stream of another device, or one that is being captured into a graph, makes the transfer fail as
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput).
    pub fn on_stream(self, stream: &impl AsRef<DeviceStream>) -> Self {
        self.source.each_control(&mut |control| control.order(stream.as_ref()));
        self
    }

    /// A view of how many bytes took which path, which outlives the transfer.
    pub fn report(&self) -> TransferReport {
        let mut parts = Vec::new();
        self.source.each_control(&mut |control| parts.push(control.report().clone()));
        TransferReport::joined(parts)
    }
}

impl<O: Outcome> Future for Transfer<O> {
    type Output = Result<O, Failed<O::Buffer>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.source.poll(cx)
    }
}

impl<O: Outcome> Drop for Transfer<O> {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl<O: Outcome> fmt::Debug for Transfer<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer").field("report", &self.report()).finish_non_exhaustive()
    }
}

const _: fn() = || {
    fn promises<T: Send + Sync + Unpin + 'static>() {}
    promises::<Transfer>();
    promises::<Transfer<DeviceBytesMut>>();
};
