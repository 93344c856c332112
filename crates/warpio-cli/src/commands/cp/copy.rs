//! The copy itself: a few pieces at once, in memory that is used again.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::try_join_all;
use warpio::{AsyncDeviceRead, AsyncDeviceReadExt, AsyncDeviceWriteExt, Device, Moved, Sink, Source};

use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;

/// One segment, so that a piece is one call of the kernel each way.
const PIECE: usize = 4 << 20;

/// Pieces in memory at once: some are read while others are written.
const PIECES: u64 = 8;

/// Copies `source` to `sink` and returns how many bytes that were.
pub(super) async fn all(source: &Source, sink: &Sink, output: &Output) -> Result<u64, Failure> {
    let size = source.size().await?;
    if size == 0 {
        // Files that the kernel makes as they are read know no size, and are small.
        let data = source.read_all().await?;
        let len = data.len() as u64;
        sink.write_all_at(0, data).await?;
        return Ok(len);
    }
    let copy = Copy { source, sink, size, next: AtomicU64::new(0), progress: Progress::new(output, "copying", size) };
    let pieces = size.div_ceil(PIECE as u64).min(PIECES);
    try_join_all((0..pieces).map(|_| copy.pieces())).await?;
    Ok(size)
}

struct Copy<'a> {
    source: &'a Source,
    sink: &'a Sink,
    size: u64,
    /// Where the next piece begins.
    next: AtomicU64,
    progress: Progress,
}

impl Copy<'_> {
    /// Copies one piece after the other, until none is left.
    async fn pieces(&self) -> Result<(), Failure> {
        let mut buffer = Device::host().alloc(PIECE)?;
        loop {
            let offset = self.next.fetch_add(PIECE as u64, Ordering::Relaxed);
            if offset >= self.size {
                return Ok(());
            }
            let wanted = (self.size - offset).min(PIECE as u64) as usize;
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
                Err(_) => Device::host().alloc(PIECE)?,
            };
        }
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
            let failure = all(&source, &sink, &Output::new(true)).await.unwrap_err().to_string();
            assert!(failure.contains("became shorter") && failure.contains("copy it again"), "{failure}");
        }
    }
}
