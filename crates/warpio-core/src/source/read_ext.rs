use std::future::Future;
use std::ops::Range;

use super::bytes_stream::BytesStream;
use super::chunks::ChunksBuilder;
use super::read::AsyncDeviceRead;
use super::reader::Reader;
use crate::buffer::{DeviceBytes, DeviceBytesMut};
use crate::transfer::{Failed, Moved, Transfer, map};
use crate::{Error, ErrorKind, Result};

/// How far to look for bytes in a source that says it has none (files of `/proc` do).
const PROBE: usize = 64 << 10;

/// What every [`AsyncDeviceRead`] can do besides.
pub trait AsyncDeviceReadExt: AsyncDeviceRead {
    /// Reads exactly `buf.len()` bytes at `offset`, or fails as
    /// [`UnexpectedEof`](ErrorKind::UnexpectedEof).
    fn read_exact_at(&self, offset: u64, buf: DeviceBytesMut) -> Transfer<DeviceBytesMut> {
        let name = self.describe().name;
        map(self.read_at(offset, buf), move |result| {
            let Moved { n, buffer } = result?;
            if n == buffer.len() {
                return Ok(buffer);
            }
            let error = Error::new(ErrorKind::UnexpectedEof)
                .with_message(format!("only {n} bytes are left of the source"))
                .or_context("read", &name, offset, buffer.len() as u64);
            Err(Failed { error, buffer: Some(buffer) })
        })
    }

    /// Reads many ranges, packed into `buf` one after another, or fails with the first error;
    /// [`UnexpectedEof`](ErrorKind::UnexpectedEof) where a range reaches past the end.
    fn read_ranges_exact(&self, ranges: &[Range<u64>], buf: DeviceBytesMut) -> Transfer<DeviceBytesMut> {
        let name = self.describe().name;
        let wanted: Vec<Range<u64>> = ranges.to_vec();
        map(self.read_ranges(ranges, buf), move |result| {
            let ranges = result?;
            for (result, range) in ranges.results.into_iter().zip(wanted) {
                let error = match result {
                    Ok(n) if n as u64 == range.end - range.start => continue,
                    Ok(n) => Error::new(ErrorKind::UnexpectedEof)
                        .with_message(format!("only {n} bytes of this range are left of the source")),
                    Err(error) => error,
                };
                let error = error.or_context("read", &name, range.start, range.end - range.start);
                return Err(Failed { error, buffer: Some(ranges.buffer) });
            }
            Ok(ranges.buffer)
        })
    }

    /// Reads the whole source into new memory of its [`device`](AsyncDeviceRead::device).
    ///
    /// Errors: [`Changed`](ErrorKind::Changed) if the source became shorter meanwhile, and those of
    /// [`read_at`](AsyncDeviceRead::read_at).
    fn read_all(&self) -> impl Future<Output = Result<DeviceBytes>> + Send
    where
        Self: Sized,
    {
        async move {
            let size = self.size().await?;
            if size == 0 {
                return read_to_end(self).await;
            }
            let len = usize::try_from(size).map_err(|_| {
                Error::new(ErrorKind::OutOfMemory).with_message(format!("{size} bytes fit in no memory"))
            })?;
            let buffer = self.device().alloc(len)?;
            let Moved { n, buffer } = self.read_at(0, buffer).await?;
            if n < len {
                return Err(Error::new(ErrorKind::Changed)
                    .with_message(format!("the source had {len} bytes, but ended after {n} while it was read"))
                    .or_context("read", &self.describe().name, 0, size));
            }
            Ok(buffer.freeze())
        }
    }

    /// Reads the source piece by piece, `len` bytes at a time, the next pieces while one is used.
    fn chunks(&self, len: usize) -> ChunksBuilder<&Self>
    where
        Self: Sized,
    {
        ChunksBuilder::new(self, len)
    }

    /// As [`chunks`](Self::chunks), but owns the source.
    fn into_chunks(self, len: usize) -> ChunksBuilder<Self>
    where
        Self: Sized,
    {
        ChunksBuilder::new(self, len)
    }

    /// The source as a [`tokio::io::AsyncRead`], read ahead into host memory.
    fn into_reader(self) -> Reader<Self>
    where
        Self: Sized,
    {
        Reader::new(self)
    }

    /// The source as a stream of `Bytes` of up to `len` bytes each, read ahead into host memory.
    fn into_bytes_stream(self, len: usize) -> BytesStream<Self>
    where
        Self: Sized,
    {
        BytesStream::new(self, len)
    }
}

impl<S: AsyncDeviceRead + ?Sized> AsyncDeviceReadExt for S {}

/// Reads a source that does not know its size.
async fn read_to_end<S: AsyncDeviceRead>(source: &S) -> Result<DeviceBytes> {
    let mut pieces = Vec::new();
    let mut len = 0;
    loop {
        let piece = source.device().alloc(PROBE.max(len))?;
        let Moved { n, mut buffer } = source.read_at(len as u64, piece).await?;
        len += n;
        let end = n < buffer.len();
        drop(buffer.split_off(n));
        pieces.push(buffer.freeze());
        if end {
            break;
        }
    }
    if pieces.len() == 1 {
        return pieces.pop().ok_or_else(|| Error::new(ErrorKind::Gone));
    }
    // Seldom and small: such sources are made by the kernel.
    let mut whole = Vec::with_capacity(len);
    for piece in pieces {
        whole.extend_from_slice(&piece.to_host().await?);
    }
    Ok(source.device().upload(&whole).await?.freeze())
}
