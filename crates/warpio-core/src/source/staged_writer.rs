use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::runtime::Handle;

use super::describe::Description;
use super::puller::{Puller, Work};
use super::write::AsyncDeviceWrite;
use crate::Result;
use crate::buffer::DeviceBytes;
use crate::device::Device;
use crate::engine::{LanePool, Ledger, Segment, Starter, unfinished};
use crate::plan::Split;
use crate::transfer::{PathKind, Transfer};

/// A sink that only knows how to take host memory. [`StagedWriter`] makes an [`AsyncDeviceWrite`] of it.
///
/// # Contract
/// * `flush` has taken all of `src` when it returns `Ok`. Several may run at once, at different offsets and in any
///   order.
/// * Its future may be dropped at any await, and must not touch `src` afterwards: it is, when its transfer is
///   cancelled, expires, or fails elsewhere.
pub trait Flush: Send + Sync + 'static {
    /// Takes all of `src`, for `offset`.
    fn flush(&self, offset: u64, src: &[u8]) -> impl Future<Output = Result<()>> + Send;

    /// Makes what was taken durable.
    fn sync(&self) -> impl Future<Output = Result<()>> + Send;

    /// Ends the writing and publishes. Called when everything was taken that was written; not at all after a failure.
    fn finish(&self) -> impl Future<Output = Result<()>> + Send;

    /// What this sink is.
    fn describe(&self) -> Description;

    /// The way its bytes take.
    fn path(&self) -> PathKind {
        PathKind::Remote
    }
}

/// A [`Flush`] as a sink for every device: bytes of a GPU are copied into staging slots first, many parts at once.
pub struct StagedWriter<F> {
    flush: Arc<F>,
    starter: Starter,
    ledger: Ledger,
}

impl<F: Flush> StagedWriter<F> {
    /// `flush` as a sink for `device`, in parts of `part_len` bytes, `concurrency` of them at once, on `handle`'s
    /// runtime.
    pub fn new(flush: F, device: Device, handle: Handle, part_len: usize, concurrency: usize) -> Self {
        let flush = Arc::new(flush);
        let name = flush.describe().name;
        let engine = Puller::new(Arc::new(FlushWork(flush.clone())), handle, concurrency);
        let split = Split::new(part_len.max(1)).unwrap_or_else(|| unreachable!("at least one byte"));
        let ledger = Ledger::default();
        let starter = Starter::new(Arc::new(engine), split, &name, device).with_ledger(&ledger);
        Self { flush, starter, ledger }
    }

    /// The sink that is wrapped.
    pub fn get_ref(&self) -> &F {
        &self.flush
    }
}

impl<F: Flush> AsyncDeviceWrite for StagedWriter<F> {
    fn device(&self) -> &Device {
        self.starter.device()
    }

    fn describe(&self) -> Description {
        self.flush.describe()
    }

    fn write_at(&self, offset: u64, buf: DeviceBytes) -> Transfer<DeviceBytes> {
        self.starter.write(Arc::new(()), offset, buf)
    }

    fn sync(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.flush.sync().await.inspect_err(|error| self.ledger.note(error)) })
    }

    fn finish(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.ledger.close();
            self.ledger.settle().await.map_err(|first| unfinished(&self.flush.describe().name, first))?;
            self.flush.finish().await
        })
    }
}

impl<F: Flush> fmt::Debug for StagedWriter<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedWriter").field("sink", &self.flush.describe()).finish_non_exhaustive()
    }
}

struct FlushWork<F>(Arc<F>);

impl<F: Flush> Work for FlushWork<F> {
    async fn run(self: Arc<Self>, mut segment: Segment, lanes: Arc<LanePool>) {
        segment.set_path(self.0.path());
        let (offset, len) = (segment.offset(), segment.len());
        if let Some(memory) = segment.host_memory() {
            // SAFETY: the memory is valid and initialised for `len` bytes until the segment is finished or dropped,
            // and the segment outlives the slice; nothing writes it meanwhile.
            let src = unsafe { std::slice::from_raw_parts(memory.as_ptr(), len) };
            let result = self.0.flush(offset, src).await;
            return segment.finish(result.map(|()| len));
        }
        let (lane, slot) = match (lanes.get(segment.device()), segment.device().staging().acquire(len).await) {
            (Ok(lane), Ok(slot)) => (lane, slot),
            (Err(error), _) | (_, Err(error)) => return segment.finish(Err(error)),
        };
        let Some(outgoing) = segment.copy_out(&lane, slot) else { return };
        let (tx, rx) = tokio::sync::oneshot::channel();
        outgoing.then(move |segment, slot| drop(tx.send((segment, slot))));
        // An error means that the device failed, and the segment has ended with it.
        let Ok((segment, slot)) = rx.await else { return };
        let result = self.0.flush(offset, &slot.as_slice()[..len]).await;
        drop(slot);
        segment.finish(result.map(|()| len));
    }

    fn name(&self) -> &'static str {
        "staged"
    }
}
