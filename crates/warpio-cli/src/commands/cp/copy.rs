//! The copy itself: a few pieces at once, in memory that is used again.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::try_join_all;
use warpio::{
    AsyncDeviceRead, AsyncDeviceReadExt, AsyncDeviceWrite, AsyncDeviceWriteExt, Device, ErrorKind, Moved, Sink, Source,
};

use crate::failure::Failure;
use crate::progress::Progress;

/// One segment, so that a piece is one call of the kernel each way.
const PIECE: usize = 4 << 20;

/// A piece of what is far away: each costs a round trip.
const FAR_PIECE: usize = 16 << 20;

/// Pieces in memory at once: some are read while others are written.
const PIECES: usize = 8;

/// Copies `source` to `sink` and returns how many bytes that were.
pub(super) async fn all(source: &Source, sink: &Sink, progress: impl Fn(u64) -> Progress) -> Result<u64, Failure> {
    let size = match source.size().await {
        Err(error) if error.kind() == ErrorKind::Unsupported => return to_the_end(source, sink).await,
        size => size?,
    };
    if size == 0 {
        // Files that the kernel makes as they are read know no size, and are small.
        let data = source.read_all().await?;
        let len = data.len() as u64;
        sink.write_all_at(0, data).await?;
        return Ok(len);
    }
    let (from, to) = (source.describe(), sink.describe());
    let piece = if from.engine == REMOTE || to.engine == REMOTE { FAR_PIECE } else { PIECE };
    let copy = Copy { source, sink, size, piece, next: AtomicU64::new(0), progress: progress(size) };
    if to.capabilities.write_at {
        let pieces = size.div_ceil(piece as u64).min(PIECES as u64);
        try_join_all((0..pieces).map(|_| copy.pieces())).await?;
    } else {
        copy.in_order().await?;
    }
    Ok(size)
}

/// The engine of what is on another machine.
const REMOTE: &str = "remote";

/// Copies a source that does not tell its size.
async fn to_the_end(source: &Source, sink: &Sink) -> Result<u64, Failure> {
    let mut chunks = source.chunks(FAR_PIECE).depth(2).on_device(&Device::host()).start();
    let mut end = 0;
    while let Some(chunk) = chunks.try_next().await? {
        let data = chunk.into_buffer();
        let len = data.len() as u64;
        sink.write_all_at(end, data).await?;
        end += len;
    }
    Ok(end)
}

struct Copy<'a> {
    source: &'a Source,
    sink: &'a Sink,
    size: u64,
    piece: usize,
    /// Where the next piece begins.
    next: AtomicU64,
    progress: Progress,
}

impl Copy<'_> {
    /// Copies one piece after the other, until none is left.
    async fn pieces(&self) -> Result<(), Failure> {
        let mut buffer = Device::host().alloc(self.piece)?;
        loop {
            let offset = self.next.fetch_add(self.piece as u64, Ordering::Relaxed);
            if offset >= self.size {
                return Ok(());
            }
            let wanted = self.wanted(offset);
            // Only the last piece is shorter, so that the rest of the memory is not needed again.
            drop(buffer.split_off(wanted));
            let Moved { n, buffer: filled } = self.source.read_at(offset, buffer).await?;
            if n < wanted {
                return Err(self.became_shorter(offset + n as u64));
            }
            let written = self.sink.write_all_at(offset, filled).await?;
            self.progress.add(wanted as u64);
            buffer = match written.try_into_mut() {
                Ok(buffer) => buffer,
                Err(_) => Device::host().alloc(self.piece)?,
            };
        }
    }

    /// Copies one piece after the other to where they must come in order. Some are read, and some written, at once.
    async fn in_order(&self) -> Result<(), Failure> {
        let (mut reads, mut writes, mut free) = (VecDeque::new(), VecDeque::new(), Vec::new());
        let mut next = 0;
        loop {
            while next < self.size && reads.len() + writes.len() < PIECES {
                let wanted = self.wanted(next);
                let mut buffer = match free.pop() {
                    Some(buffer) => buffer,
                    None => Device::host().alloc(self.piece)?,
                };
                // Only the last piece is shorter, so that the rest of the memory is not needed again.
                drop(buffer.split_off(wanted));
                reads.push_back((next, wanted, self.source.read_at(next, buffer)));
                next += wanted as u64;
            }
            if let Some((offset, wanted, read)) = reads.pop_front() {
                let Moved { n, buffer } = read.await?;
                if n < wanted {
                    return Err(self.became_shorter(offset + n as u64));
                }
                writes.push_back((wanted, self.sink.write_all_at(offset, buffer)));
            }
            if reads.is_empty() || writes.len() > PIECES / 2 {
                let Some((wanted, write)) = writes.pop_front() else { return Ok(()) };
                free.extend(write.await?.try_into_mut());
                self.progress.add(wanted as u64);
            }
        }
    }

    fn wanted(&self, offset: u64) -> usize {
        (self.size - offset).min(self.piece as u64) as usize
    }

    fn became_shorter(&self, end: u64) -> Failure {
        let (name, size) = (self.source.describe().name, self.size);
        Failure::new(format!(
            "{name} became shorter while it was copied: it had {size} bytes, and now ends at {end}; nothing was left at \
             the destination, copy it again when nothing writes to it"
        ))
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;
    use warpio::{Description, Fetch, Staged};

    use super::*;
    use crate::output::Output;
    use crate::runtime;

    /// A file that is cut while it is read.
    struct Cut {
        told: u64,
        left: u64,
    }

    impl Fetch for Cut {
        async fn size(&self) -> warpio::Result<u64> {
            Ok(self.told)
        }

        async fn fetch(&self, offset: u64, dst: &mut [u8]) -> warpio::Result<usize> {
            let n = self.left.saturating_sub(offset).min(dst.len() as u64) as usize;
            dst[..n].fill(1);
            Ok(n)
        }

        fn describe(&self) -> Description {
            Description::new("cut", "memory", "staged")
        }
    }

    #[tokio::test]
    async fn a_source_that_is_cut_meanwhile_is_an_error_and_leaves_nothing() {
        let rt = runtime::start_on_host().unwrap();
        let dir = tempfile::tempdir().unwrap();
        for (told, left) in [(100, 99), (100, 0), (20 << 20, (20 << 20) - 1), (40 << 20, 4 << 20)] {
            let source = Source::new(Staged::new(Cut { told, left }, Device::host(), Handle::current()));
            let sink = rt.create(dir.path().join("target")).await.unwrap();
            let progress = |size| Progress::new(&Output::new(true), "copying", size);
            let failure = all(&source, &sink, progress).await.unwrap_err().to_string();
            assert!(failure.contains("became shorter") && failure.contains("copy it again"), "{failure}");
        }
    }
}
