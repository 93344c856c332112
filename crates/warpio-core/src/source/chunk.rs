use std::fmt;
use std::ops::{Deref, DerefMut};

use super::ring::Ring;
use crate::Result;
use crate::buffer::DeviceBytesMut;
use crate::device::DeviceStream;
use crate::sync::Arc;

/// One piece of a source. Dropping it lets its memory be read into again: behind the work of the stream that was given
/// to [`on_stream`](super::ChunksBuilder::on_stream), as it is at that moment, on the error path too.
///
/// It derefs to its buffer. Where a part of that is split off and kept, new memory is allocated in its place.
pub struct Chunk {
    buffer: Option<DeviceBytesMut>,
    /// The end of the memory, where the chunk is shorter.
    unused: Option<DeviceBytesMut>,
    offset: u64,
    stream: Option<DeviceStream>,
    ring: Arc<Ring>,
}

impl Chunk {
    pub(super) fn new(
        buffer: DeviceBytesMut,
        unused: Option<DeviceBytesMut>,
        offset: u64,
        stream: Option<DeviceStream>,
        ring: Arc<Ring>,
    ) -> Self {
        Self { buffer: Some(buffer), unused, offset, stream, ring }
    }

    /// Where the chunk lies in the source, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Records that `stream`'s work so far uses the chunk too.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn used_on(&mut self, stream: &impl AsRef<DeviceStream>) -> Result<()> {
        self.after(stream)
    }

    /// Keeps the memory; new memory is allocated in its place.
    pub fn into_buffer(mut self) -> DeviceBytesMut {
        match self.buffer.take() {
            Some(buffer) => {
                self.ring.keep();
                buffer
            }
            None => unreachable!("a chunk has its buffer until it is dropped"),
        }
    }
}

impl Deref for Chunk {
    type Target = DeviceBytesMut;

    fn deref(&self) -> &DeviceBytesMut {
        match &self.buffer {
            Some(buffer) => buffer,
            None => unreachable!("a chunk has its buffer until it is dropped"),
        }
    }
}

impl DerefMut for Chunk {
    fn deref_mut(&mut self) -> &mut DeviceBytesMut {
        match &mut self.buffer {
            Some(buffer) => buffer,
            None => unreachable!("a chunk has its buffer until it is dropped"),
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let Some(mut buffer) = self.buffer.take() else { return };
        if let Some(stream) = &self.stream
            && let Err(error) = buffer.after(stream)
        {
            tracing::warn!(%error, bytes = buffer.len(), "a chunk is leaked: its last use cannot be told");
            std::mem::forget(buffer);
            return self.ring.fail(error);
        }
        if let Some(unused) = self.unused.take() {
            buffer = match buffer.unsplit(unused) {
                Ok(whole) => whole,
                Err((buffer, _)) => buffer,
            };
        }
        self.ring.give_back(buffer);
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunk").field("offset", &self.offset).field("buffer", &self.buffer).finish_non_exhaustive()
    }
}
