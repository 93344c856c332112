use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::runtime::Handle;

use super::describe::Description;
use super::puller::{Puller, Work};
use super::read::AsyncDeviceRead;
use crate::buffer::DeviceBytesMut;
use crate::device::Device;
use crate::engine::{LanePool, Segment, Starter};
use crate::plan::Split;
use crate::transfer::{PathKind, Ranges, Scattered, Transfer};
use crate::{Error, Result};

/// A source that only knows how to fill host memory. [`Staged`] makes an [`AsyncDeviceRead`] of it.
///
/// # Contract
/// * `fetch` fills `dst` from `offset` on and returns how many bytes it wrote: fewer than `dst` has only at the end of
///   the source, none at or behind it.
/// * Its future may be dropped at any await, and must not touch `dst` afterwards: it is, when its transfer is
///   cancelled, expires, or fails elsewhere.
/// * It runs on the tokio runtime that was given to [`Staged::new`].
pub trait Fetch: Send + Sync + 'static {
    /// The length in bytes, now.
    fn size(&self) -> impl Future<Output = Result<u64>> + Send;

    /// Fills `dst` from `offset` on; see the contract.
    fn fetch(&self, offset: u64, dst: &mut [u8]) -> impl Future<Output = Result<usize>> + Send;

    /// What this source is.
    fn describe(&self) -> Description;

    /// The way its bytes take.
    fn path(&self) -> PathKind {
        PathKind::Remote
    }
}

/// A [`Fetch`] as a source for every device: its bytes are fetched into staging slots, many parts at once, and copied
/// on from there; into host memory they are fetched directly.
///
/// ```
/// use warpio_core::{AsyncDeviceReadExt, Description, Device, Fetch, Result, Staged};
///
/// /// As many zeros as anybody wants.
/// struct Zeros(u64);
///
/// impl Fetch for Zeros {
///     async fn size(&self) -> Result<u64> {
///         Ok(self.0)
///     }
///     async fn fetch(&self, offset: u64, dst: &mut [u8]) -> Result<usize> {
///         let n = (self.0.saturating_sub(offset) as usize).min(dst.len());
///         dst[..n].fill(0);
///         Ok(n)
///     }
///     fn describe(&self) -> Description {
///         Description::new("zeros", "zeros", "staged")
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let source = Staged::new(Zeros(100_000), Device::host(), tokio::runtime::Handle::current());
/// assert_eq!(source.read_all().await?.len(), 100_000);
/// # Ok(()) }
/// ```
pub struct Staged<F> {
    fetch: Arc<F>,
    starter: Starter,
    gap: u64,
}

/// How many parts are fetched at once by default: enough for one connection each to hide a store's latency.
const CONCURRENCY: usize = 8;

/// What a store sends in less time than it takes to answer a request of its own.
const GAP: u64 = 64 << 10;

impl<F: Fetch> Staged<F> {
    /// `fetch` as a source that reads into `device` by default. Its futures run on `handle`'s runtime; once that has
    /// ended, transfers fail as [`Gone`](crate::ErrorKind::Gone).
    pub fn new(fetch: F, device: Device, handle: Handle) -> Self {
        let part = device.staging().slot_len();
        Self::with_parts(fetch, device, handle, part, CONCURRENCY)
    }

    /// As [`new`](Self::new), with parts of `part_len` bytes, `concurrency` of them at once. Parts for a GPU are no
    /// longer than a staging slot.
    pub fn with_parts(fetch: F, device: Device, handle: Handle, part_len: usize, concurrency: usize) -> Self {
        let fetch = Arc::new(fetch);
        let name = fetch.describe().name;
        let engine = Puller::new(Arc::new(FetchWork(fetch.clone())), handle, concurrency);
        let split = Split::new(part_len.max(1)).unwrap_or_else(|| unreachable!("at least one byte"));
        Self { fetch, starter: Starter::new(Arc::new(engine), split, &name, device), gap: GAP }
    }

    /// Fetches up to `bytes` bytes between two ranges of one [read](AsyncDeviceRead::read_ranges) with them, rather than
    /// in two parts. 64 KiB by default.
    #[must_use]
    pub fn with_gap(self, bytes: u64) -> Self {
        Self { gap: bytes, ..self }
    }

    /// The source that is wrapped.
    pub fn get_ref(&self) -> &F {
        &self.fetch
    }
}

impl<F: Fetch> AsyncDeviceRead for Staged<F> {
    fn device(&self) -> &Device {
        self.starter.device()
    }

    fn describe(&self) -> Description {
        self.fetch.describe()
    }

    fn size(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(self.fetch.size())
    }

    fn read_at(&self, offset: u64, buf: DeviceBytesMut) -> Transfer {
        self.starter.read(Arc::new(()), offset, buf)
    }

    fn read_ranges(&self, ranges: &[Range<u64>], buf: DeviceBytesMut) -> Transfer<Ranges> {
        self.starter.read_ranges(Arc::new(()), ranges, buf, self.gap)
    }

    fn read_scatter(&self, requests: Vec<(u64, DeviceBytesMut)>) -> Transfer<Scattered> {
        self.starter.read_scatter(Arc::new(()), requests, self.gap)
    }
}

impl<F: Fetch> fmt::Debug for Staged<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staged").field("source", &self.fetch.describe()).finish_non_exhaustive()
    }
}

struct FetchWork<F>(Arc<F>);

impl<F: Fetch> Work for FetchWork<F> {
    async fn run(self: Arc<Self>, mut segment: Segment, lanes: Arc<LanePool>) {
        segment.set_path(self.0.path());
        let (offset, len) = (segment.offset(), segment.len());
        if let Some(memory) = segment.host_memory() {
            // SAFETY: the memory is valid and initialised for `len` bytes until the segment is finished or dropped,
            // and the segment outlives the slice; nothing else reaches it meanwhile.
            let dst = unsafe { std::slice::from_raw_parts_mut(memory.as_ptr(), len) };
            let result = self.0.fetch(offset, dst).await;
            return segment.finish(check(result, len));
        }
        let (lane, slot) = match (lanes.get(segment.device()), segment.device().staging().acquire(len).await) {
            (Ok(lane), Ok(slot)) => (lane, slot),
            (Err(error), _) | (_, Err(error)) => return segment.finish(Err(error)),
        };
        let mut slot = slot;
        match check(self.0.fetch(offset, &mut slot.as_mut_slice()[..len]).await, len) {
            Ok(n) => segment.copy_in(&lane, slot, n),
            Err(error) => segment.finish(Err(error)),
        }
    }

    fn name(&self) -> &'static str {
        "staged"
    }
}

/// A source that claims more bytes than there was room for has written somewhere else, or lies.
fn check(result: Result<usize>, len: usize) -> Result<usize> {
    match result {
        Ok(n) if n > len => Err(Error::new(crate::ErrorKind::Integrity)
            .with_message(format!("the source says that it wrote {n} bytes into {len}"))),
        result => result,
    }
}
