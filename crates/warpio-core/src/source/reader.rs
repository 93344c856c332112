use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, ReadBuf};

use super::bytes_stream::BytesStream;
use super::read::AsyncDeviceRead;

/// How much is read ahead at a time: large enough for full speed, small enough for the processor's caches.
const PIECE: usize = 1 << 20;

/// A source as a [`tokio::io::AsyncRead`], read ahead into host memory.
pub struct Reader<S> {
    stream: BytesStream<S>,
    current: Bytes,
}

impl<S: AsyncDeviceRead> Reader<S> {
    pub(super) fn new(source: S) -> Self {
        Self { stream: BytesStream::new(source, PIECE), current: Bytes::new() }
    }
}

impl<S: AsyncDeviceRead + Unpin> AsyncRead for Reader<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.current.is_empty() && buf.remaining() > 0 {
            match self.stream.poll_bytes(cx) {
                Poll::Ready(Some(Ok(bytes))) => self.current = bytes,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error.into())),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
        let n = buf.remaining().min(self.current.len());
        buf.put_slice(&self.current[..n]);
        self.current.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl<S> fmt::Debug for Reader<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("stream", &self.stream).finish_non_exhaustive()
    }
}
