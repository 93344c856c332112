use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;

use super::read::AsyncDeviceRead;
use crate::Result;
use crate::buffer::DeviceBytesMut;
use crate::device::Device;
use crate::transfer::{Moved, Transfer};

/// A source as a stream of `Bytes`, read ahead into host memory. The bytes are not copied on the way.
pub struct BytesStream<S> {
    source: S,
    len: usize,
    depth: usize,
    next_offset: u64,
    reading: VecDeque<Transfer>,
    ended: bool,
}

impl<S: AsyncDeviceRead> BytesStream<S> {
    pub(super) fn new(source: S, len: usize) -> Self {
        let len = len.max(1);
        Self { source, len, depth: 2, next_offset: 0, reading: VecDeque::new(), ended: false }
    }

    fn read_ahead(&mut self) -> Result<()> {
        while self.reading.len() < self.depth {
            let buffer = Device::host().alloc(self.len)?;
            self.reading.push_back(self.source.read_at(self.next_offset, buffer));
            self.next_offset += self.len as u64;
        }
        Ok(())
    }

    fn piece(&mut self, n: usize, mut buffer: DeviceBytesMut) -> Option<Result<Bytes>> {
        if n < buffer.len() {
            self.end();
            drop(buffer.split_off(n));
        }
        (n > 0).then(|| Bytes::try_from(buffer.freeze()))
    }

    fn end(&mut self) {
        self.ended = true;
        self.reading.clear();
    }

    pub(super) fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Err(error) = self.read_ahead() {
            self.end();
            return Poll::Ready(Some(Err(error)));
        }
        let Some(transfer) = self.reading.front_mut() else { return Poll::Ready(None) };
        let Poll::Ready(result) = Pin::new(transfer).poll(cx) else { return Poll::Pending };
        self.reading.pop_front();
        Poll::Ready(match result {
            Ok(Moved { n, buffer }) => self.piece(n, buffer),
            Err(failed) => {
                self.end();
                Some(Err(failed.error))
            }
        })
    }
}

impl<S: AsyncDeviceRead + Unpin> Stream for BytesStream<S> {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_bytes(cx)
    }
}

impl<S> fmt::Debug for BytesStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BytesStream").field("next_offset", &self.next_offset).finish_non_exhaustive()
    }
}
