use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::Result;
use crate::buffer::DeviceBytesMut;
use crate::device::Device;
use crate::engine::{Batch, Engine, Lanes, Segment, Starter};
use crate::plan::Split;
use crate::source::{AsyncDeviceRead, Description};
use crate::sync::{Mutex, lock};
use crate::transfer::{PathKind, Ranges, Scattered, Transfer};

/// Bytes in memory as a source, read by an engine that fills host memory where it is submitted, and that of a GPU from
/// a thread of its own.
#[derive(Clone)]
pub struct MemorySource {
    bytes: Bytes,
    starter: Starter,
    gap: u64,
}

impl MemorySource {
    /// `bytes` as a source of host memory.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self::on_device(bytes, Device::host())
    }

    /// `bytes` as a source that reads into `device`.
    pub fn on_device(bytes: impl Into<Bytes>, device: Device) -> Self {
        let split = Split::new(64 << 10).unwrap_or_else(|| unreachable!("not zero"));
        let starter = Starter::new(Arc::new(MemoryEngine::default()), split, "memory", device);
        Self { bytes: bytes.into(), starter, gap: 0 }
    }

    /// Reads up to `bytes` bytes between two ranges of one read with them.
    #[must_use]
    pub fn with_gap(self, bytes: u64) -> Self {
        Self { gap: bytes, ..self }
    }
}

impl AsyncDeviceRead for MemorySource {
    fn device(&self) -> &Device {
        self.starter.device()
    }

    fn describe(&self) -> Description {
        Description::new("memory", "memory", "memory").with_capabilities(|c| c.read = true)
    }

    fn size(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(std::future::ready(Ok(self.bytes.len() as u64)))
    }

    fn read_at(&self, offset: u64, buf: DeviceBytesMut) -> Transfer {
        self.starter.read(Arc::new(self.bytes.clone()), offset, buf)
    }

    fn read_ranges(&self, ranges: &[Range<u64>], buf: DeviceBytesMut) -> Transfer<Ranges> {
        self.starter.read_ranges(Arc::new(self.bytes.clone()), ranges, buf, self.gap)
    }

    fn read_scatter(&self, requests: Vec<(u64, DeviceBytesMut)>) -> Transfer<Scattered> {
        self.starter.read_scatter(Arc::new(self.bytes.clone()), requests, self.gap)
    }
}

impl fmt::Debug for MemorySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySource").field("len", &self.bytes.len()).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct MemoryEngine {
    lanes: Arc<Mutex<Lanes>>,
}

impl Engine for MemoryEngine {
    fn submit(&self, batch: Batch) {
        let Some(bytes) = batch.target::<Bytes>() else { return };
        let lanes = self.lanes.clone();
        let (host, device): (Vec<_>, Vec<_>) =
            batch.into_parts().1.into_iter().partition(|segment| segment.host_memory().is_some());
        host.into_iter().for_each(|segment| fill(segment, &bytes, &lanes));
        if !device.is_empty() {
            // Waiting for a slot blocks, and the caller may be the very thread that gives slots back.
            std::thread::spawn(move || device.into_iter().for_each(|segment| fill(segment, &bytes, &lanes)));
        }
    }

    fn name(&self) -> &'static str {
        "memory"
    }
}

fn fill(mut segment: Segment, bytes: &Bytes, lanes: &Mutex<Lanes>) {
    if segment.is_moot() {
        return segment.skip();
    }
    segment.set_path(PathKind::Memory);
    let start = bytes.len().min(segment.offset() as usize);
    let part = &bytes[start..bytes.len().min(start.saturating_add(segment.len()))];
    if let Some(memory) = segment.host_memory() {
        // SAFETY: the segment's memory is valid for its length, and `part` is no longer.
        unsafe { memory.as_ptr().copy_from_nonoverlapping(part.as_ptr(), part.len()) };
        return segment.finish(Ok(part.len()));
    }
    let device = segment.device().clone();
    let lane = lock(lanes).get(&device).cloned();
    match (lane, device.staging().acquire_blocking(part.len().max(1))) {
        (Ok(lane), Ok(mut slot)) => {
            slot.as_mut_slice()[..part.len()].copy_from_slice(part);
            segment.copy_in(&lane, slot, part.len());
        }
        (Err(error), _) | (_, Err(error)) => segment.finish(Err(error)),
    }
}
