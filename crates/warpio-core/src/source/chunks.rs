use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::chunk::Chunk;
use super::read::AsyncDeviceRead;
use super::ring::{Ring, Vacancy};
use crate::buffer::DeviceBytesMut;
use crate::device::{Device, DeviceStream};
use crate::sync::Arc;
use crate::transfer::{Moved, Transfer};
use crate::{Error, ErrorKind, Result};

/// How a source is read piece by piece; made by [`chunks`](super::AsyncDeviceReadExt::chunks).
#[derive(Debug)]
#[must_use = "nothing is read before start()"]
pub struct ChunksBuilder<S> {
    source: S,
    len: usize,
    depth: usize,
    range: Option<Range<u64>>,
    stream: Option<DeviceStream>,
    device: Option<Device>,
}

impl<S: AsyncDeviceRead> ChunksBuilder<S> {
    pub(super) fn new(source: S, len: usize) -> Self {
        Self { source, len, depth: 2, range: None, stream: None, device: None }
    }

    /// How many chunks are in memory at once, used and read ahead together; two by default.
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }

    /// Reads only this range; its end must not lie behind the end of the source.
    pub fn range(mut self, range: Range<u64>) -> Self {
        self.range = Some(range);
        self
    }

    /// Works in the order of `stream`: a chunk may be used on it as soon as it is returned, and its memory is read into
    /// again behind what the stream holds when the chunk is dropped.
    pub fn on_stream(mut self, stream: &impl AsRef<DeviceStream>) -> Self {
        self.stream = Some(stream.as_ref().clone());
        self
    }

    /// Reads into memory of another device than the source's own, such as [`Device::host`].
    pub fn on_device(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }

    /// Allocates the memory and starts reading. What fails here comes out of the first `try_next`.
    pub fn start(self) -> Chunks<S> {
        let range = self.range.clone().unwrap_or(0..u64::MAX);
        let device = self.device.unwrap_or_else(|| self.source.device().clone());
        let (buffers, state) = match allocate(&device, self.len, self.depth, &range) {
            Ok(buffers) => (buffers, State::Running),
            Err(error) => (Vec::new(), State::Failed(error)),
        };
        let mut chunks = Chunks {
            ring: Ring::new(device.id(), self.len, buffers),
            next_offset: range.start,
            end: range.end,
            exact: self.range.is_some(),
            len: self.len,
            stream: self.stream,
            device,
            reading: VecDeque::new(),
            state,
            source: self.source,
        };
        chunks.read_ahead();
        chunks
    }
}

fn allocate(device: &Device, len: usize, depth: usize, range: &Range<u64>) -> Result<Vec<DeviceBytesMut>> {
    if len == 0 || depth == 0 {
        return Err(Error::invalid_input("the chunk length and the depth must not be zero"));
    }
    if range.start > range.end {
        return Err(Error::invalid_input(format!("the range {}..{} ends before it starts", range.start, range.end)));
    }
    (0..depth).map(|_| device.alloc(len)).collect()
}

/// A source, piece by piece and in order; the next pieces are read while one is used. It is also a
/// [`Stream`](futures::Stream).
///
/// A consumer that holds all `depth` chunks and asks for another waits on itself.
///
/// ```
/// use warpio_core::{AsyncDeviceReadExt, DeviceBytes, testing::MemorySource};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), warpio_core::Error> {
/// let source = MemorySource::new(vec![7; 10_000]);
/// let mut chunks = source.chunks(4096).depth(2).start();
/// let mut total = 0;
/// while let Some(chunk) = chunks.try_next().await? {
///     total += chunk.len();
/// }
/// assert_eq!(total, 10_000);
/// # Ok(()) }
/// ```
pub struct Chunks<S> {
    source: S,
    ring: Arc<Ring>,
    next_offset: u64,
    end: u64,
    /// The end was given, so the source must not end before it.
    exact: bool,
    len: usize,
    stream: Option<DeviceStream>,
    device: Device,
    reading: VecDeque<(u64, usize, Transfer)>,
    state: State,
}

enum State {
    Running,
    Failed(Error),
    Ended,
}

impl<S: AsyncDeviceRead> Chunks<S> {
    /// The next chunk; `None` behind the last. After an error there are no more.
    ///
    /// # Errors
    /// Those of [`read_at`](AsyncDeviceRead::read_at) and of the allocation;
    /// [`UnexpectedEof`](ErrorKind::UnexpectedEof) where a [range](ChunksBuilder::range) reaches past the end.
    pub async fn try_next(&mut self) -> Result<Option<Chunk>> {
        std::future::poll_fn(|cx| self.poll_chunk(cx)).await.transpose()
    }

    fn read_ahead(&mut self) {
        while self.next_offset < self.end && matches!(self.state, State::Running) {
            let buffer = match self.free_buffer() {
                Ok(buffer) => buffer,
                Err(error) => return self.state = State::Failed(error),
            };
            let Some(mut buffer) = buffer else { return };
            let want = (self.end - self.next_offset).min(self.len as u64) as usize;
            if want < buffer.len() {
                // Only the last chunk of a given range, so the rest of the memory is not needed again.
                drop(buffer.split_off(want));
            }
            let mut transfer = self.source.read_at(self.next_offset, buffer);
            if let Some(stream) = &self.stream {
                transfer = transfer.on_stream(stream);
            }
            self.reading.push_back((self.next_offset, want, transfer));
            self.next_offset = self.next_offset.saturating_add(want as u64);
        }
    }

    /// Memory that is not in use, or new memory in the place of a chunk that was kept.
    fn free_buffer(&self) -> Result<Option<DeviceBytesMut>> {
        match self.ring.take()? {
            Vacancy::Free(buffer) => Ok(Some(buffer)),
            Vacancy::Kept => self.device.alloc(self.len).map(Some),
            Vacancy::None => Ok(None),
        }
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk>>> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Running => self.state = State::Running,
            State::Failed(error) => {
                self.reading.clear();
                return Poll::Ready(Some(Err(error)));
            }
            State::Ended => return Poll::Ready(None),
        }
        self.read_ahead();
        let Some((offset, want, transfer)) = self.reading.front_mut() else {
            if let State::Failed(_) = self.state {
                return self.poll_chunk(cx);
            }
            if self.next_offset >= self.end {
                self.state = State::Ended;
                return Poll::Ready(None);
            }
            // Every chunk is in use. One may have come back since `read_ahead` looked.
            self.ring.set_waker(cx.waker());
            self.read_ahead();
            let idle = self.reading.is_empty() && matches!(self.state, State::Running);
            return if idle { Poll::Pending } else { self.poll_chunk(cx) };
        };
        let (offset, want) = (*offset, *want);
        let Poll::Ready(result) = Pin::new(transfer).poll(cx) else { return Poll::Pending };
        self.reading.pop_front();
        match result {
            Ok(Moved { n, buffer }) => Poll::Ready(self.arrived(offset, want, n, buffer)),
            Err(failed) => {
                self.stop();
                Poll::Ready(Some(Err(failed.error)))
            }
        }
    }

    fn arrived(&mut self, offset: u64, want: usize, n: usize, mut buffer: DeviceBytesMut) -> Option<Result<Chunk>> {
        if n < want {
            self.stop();
            if self.exact {
                let error = Error::new(ErrorKind::UnexpectedEof)
                    .with_message(format!("only {n} bytes are left of the source"))
                    .or_context("read", &self.source.describe().name, offset, want as u64);
                return Some(Err(error));
            }
            if n == 0 {
                return None;
            }
        }
        let unused = (n < buffer.len()).then(|| buffer.split_off(n));
        Some(Ok(Chunk::new(buffer, unused, offset, self.stream.clone(), self.ring.clone())))
    }

    fn stop(&mut self) {
        self.state = State::Ended;
        self.reading.clear();
    }
}

impl<S> Drop for Chunks<S> {
    fn drop(&mut self) {
        self.ring.close();
    }
}

impl<S: AsyncDeviceRead + Unpin> futures::Stream for Chunks<S> {
    type Item = Result<Chunk>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_chunk(cx)
    }
}

impl<S> fmt::Debug for Chunks<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks")
            .field("next_offset", &self.next_offset)
            .field("reading", &self.reading.len())
            .finish_non_exhaustive()
    }
}
