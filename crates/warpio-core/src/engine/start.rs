use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use super::Engine;
use super::batch::{Batch, Target};
use super::ledger::Ledger;
use super::operation::{Finish, Lease, Operation, Parameters};
use super::segment::{Direction, Segment};
use super::stats::Stats;
use crate::buffer::{DeviceBytes, DeviceBytesMut, watch_all};
use crate::device::{Device, DeviceEvent};
use crate::plan::Split;
use crate::source::check_room;
use crate::transfer::{Completer, Control, Failed, Moved, Outcome, Ranges, Scattered, Transfer, join, join_scattered};
use crate::{Error, Result};

/// Starts transfers of one source on one engine.
#[derive(Clone, Debug)]
pub struct Starter {
    pub(super) engine: Arc<dyn Engine>,
    split: Split,
    pub(super) source: Arc<str>,
    device: Device,
    pub(super) stats: Stats,
    ledger: Option<Ledger>,
    staged: bool,
}

impl Starter {
    /// `source` is the name used in errors and traces; buffers of other devices than `device` are refused, unless the
    /// device is [host memory](Device::is_host_visible) that every source can fill.
    pub fn new(engine: Arc<dyn Engine>, split: Split, source: &str, device: Device) -> Self {
        let source = crate::redact(source).into();
        Self { engine, split, source, device, stats: Stats::default(), ledger: None, staged: true }
    }

    /// Counts the transfers in `stats`.
    #[must_use]
    pub fn with_stats(self, stats: &Stats) -> Self {
        Self { stats: stats.clone(), ..self }
    }

    /// Cuts transfers by `split` alone, for what devices copy by themselves. Otherwise no segment of a device's memory is
    /// longer than a staging slot.
    #[must_use]
    pub fn without_staging(self, split: Split) -> Self {
        Self { split, staged: false, ..self }
    }

    /// Enters its writes in `ledger`.
    #[must_use]
    pub fn with_ledger(self, ledger: &Ledger) -> Self {
        Self { ledger: Some(ledger.clone()), ..self }
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// The device that the source reads into by default.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Starts a read of `target` into `buffer`, behind the device work that the buffer carries.
    pub fn read(&self, target: Target, offset: u64, buffer: DeviceBytesMut) -> Transfer {
        let (transfer, work) = self.begin_read(offset, buffer);
        if let Some((work, fence)) = work {
            self.launch(target, fence, work);
        }
        transfer
    }

    /// Starts a read for each of several ranges, packed into `buf` one after another. The engine gets them in one
    /// batch: for ranges so long that each is worth being cut into segments of its own.
    pub fn read_each(&self, target: Target, ranges: &[Range<u64>], buf: DeviceBytesMut) -> Transfer<Ranges> {
        if let Err(error) = check_room(ranges, buf.len()) {
            return Transfer::failed(error, Some(buf));
        }
        let mut rest = buf;
        let requests = ranges.iter().map(|range| (range.start, rest.split_to((range.end - range.start) as usize)));
        let transfers = self.read_batch(target, requests.collect());
        join(transfers, rest)
    }

    /// As [`read_each`](Self::read_each), each into a buffer of its own.
    pub fn read_each_into(&self, target: Target, requests: Vec<(u64, DeviceBytesMut)>) -> Transfer<Scattered> {
        join_scattered(self.read_batch(target, requests))
    }

    fn read_batch(&self, target: Target, requests: Vec<(u64, DeviceBytesMut)>) -> Vec<Transfer> {
        let (mut segments, mut transfers) = (Vec::with_capacity(requests.len()), Vec::with_capacity(requests.len()));
        for (offset, buffer) in requests {
            let (transfer, work) = self.begin_read(offset, buffer);
            transfers.push(transfer);
            match work {
                Some((work, fence)) if fence.is_empty() => segments.extend(self.segments(work)),
                Some((work, fence)) => self.launch(target.clone(), fence, work),
                None => {}
            }
        }
        if !segments.is_empty() {
            self.engine.submit(Batch::new(target, segments));
        }
        transfers
    }

    /// A read that waits for its segments to be submitted, behind a fence. `None` if it has resolved already.
    fn begin_read(&self, offset: u64, mut buffer: DeviceBytesMut) -> (Transfer, Option<(Work, Vec<DeviceEvent>)>) {
        let (completer, transfer) = Transfer::channel();
        let (device, len) = (buffer.device().clone(), buffer.len());
        if let Err(error) = self.check(&device, offset, len) {
            let error = error.or_context("read", &self.source, offset, len as u64);
            completer.complete(Err(Failed { error, buffer: Some(buffer) }));
            return (transfer, None);
        }
        if len == 0 {
            completer.complete(Ok(Moved { n: 0, buffer }));
            return (transfer, None);
        }
        let (ptr, fence) = (buffer.ptr_at(0), buffer.take_fence());
        let control = completer.control().clone();
        let finish = finish(
            completer,
            |lease| match lease {
                Lease::Read(buffer) => Some(buffer),
                _ => None,
            },
            |n, buffer| Moved { n, buffer },
        );
        let (direction, lease) = (Direction::Read, Lease::Read(buffer));
        (transfer, Some((Work { control, device, direction, offset, len, ptr, lease, finish }, fence)))
    }

    /// Starts a write of `buffer` to `target`, behind the device work that the buffer carries or, if there is none,
    /// behind the context's earlier work.
    pub fn write(&self, target: Target, offset: u64, buffer: DeviceBytes) -> Transfer<DeviceBytes> {
        self.write_holding(target, offset, buffer, ())
    }

    /// As [`write`](Self::write), with `hold` dropped when the write has ended, before its transfer says so.
    pub fn write_holding(
        &self,
        target: Target,
        offset: u64,
        buffer: DeviceBytes,
        hold: impl Send + 'static,
    ) -> Transfer<DeviceBytes> {
        let (device, len) = (buffer.device().clone(), buffer.len());
        let refused = |error: Error, buffer| {
            let error = error.or_context("write", &self.source, offset, len as u64);
            Transfer::failed(error, Some(buffer))
        };
        let entry = match self.ledger.as_ref().map(Ledger::begin).transpose() {
            Ok(entry) => entry,
            Err(error) => return refused(error, buffer),
        };
        let fence = match self.check(&device, offset, len).and_then(|()| buffer.work_before_read()) {
            Ok(fence) => fence,
            Err(error) => {
                entry.iter().for_each(|entry| entry.fail(&error));
                return refused(error, buffer);
            }
        };
        let (completer, transfer) = Transfer::channel();
        if len == 0 {
            completer.complete(Ok(buffer));
            return transfer;
        }
        let ptr = buffer.ptr_at(0);
        let control = completer.control().clone();
        let finish = finish(
            completer,
            |lease| match lease {
                Lease::Write(buffer) => Some(buffer),
                _ => None,
            },
            |_, buffer| buffer,
        );
        let finish: Finish = Box::new(move |result, lease| {
            if let (Some(entry), Err(error)) = (&entry, &result) {
                entry.fail(error);
            }
            drop((entry, hold));
            finish(result, lease);
        });
        let (direction, lease) = (Direction::Write, Lease::Write(buffer));
        self.launch(target, fence, Work { control, device, direction, offset, len, ptr, lease, finish });
        transfer
    }

    pub(super) fn check(&self, device: &Device, offset: u64, len: usize) -> Result<()> {
        if self.stats.is_closed() {
            return Err(Error::new(crate::ErrorKind::Gone).with_message("the runtime of this source was shut down"));
        }
        if *device != self.device && !device.is_host_visible() {
            return Err(Error::invalid_input(format!(
                "the buffer is on {device}, but this source was opened for {}",
                self.device
            )));
        }
        match offset.checked_add(len as u64) {
            _ if len == 0 => Ok(()),
            Some(end) if end <= i64::MAX as u64 => Ok(()),
            _ => Err(Error::invalid_input("offset + length exceeds what a file can hold")),
        }
    }

    /// Cuts the work into segments.
    fn segments(&self, work: Work) -> impl Iterator<Item = Segment> + use<> {
        let Work { control, device, direction, offset, len, ptr, lease, finish } = work;
        let task = Split::new(device.staging().slot_len()).filter(|_| self.staged && !device.is_host_visible());
        // A segment of a GPU's memory passes through one slot, so it cannot be larger.
        let split = task.map_or(self.split, |slot| self.split.min(slot));
        let operation = Operation::new(Parameters {
            control,
            device,
            direction,
            source: self.source.clone(),
            offset,
            len,
            segments: split.count(offset, len),
            lease,
            finish,
            stats: self.stats.clone(),
        });
        split.segments(offset, len).map(move |s| {
            // SAFETY: the segment lies within the lease.
            let at = unsafe { ptr.add(s.buffer_offset) };
            Segment::new(operation.clone(), s.offset, s.buffer_offset, at, s.len)
        })
    }

    fn launch(&self, target: Target, fence: Vec<DeviceEvent>, work: Work) {
        let device = work.device.clone();
        let batch = Batch::new(target, self.segments(work).collect());
        if fence.is_empty() {
            return self.engine.submit(batch);
        }
        let engine = self.engine.clone();
        watch_all(&device, fence, move |result| match result {
            Ok(()) => engine.submit(batch),
            Err(error) => batch.fail(&error),
        });
    }
}

struct Work {
    control: Arc<Control>,
    device: Device,
    direction: Direction,
    offset: u64,
    len: usize,
    ptr: NonNull<u8>,
    lease: Lease,
    finish: Finish,
}

fn finish<O: Outcome>(
    completer: Completer<O>,
    unwrap: impl FnOnce(Lease) -> Option<O::Buffer> + Send + 'static,
    wrap: impl FnOnce(usize, O::Buffer) -> O + Send + 'static,
) -> Finish {
    Box::new(move |result, lease| {
        let buffer = lease.and_then(unwrap);
        completer.complete(match (result, buffer) {
            (Ok(n), Some(buffer)) => Ok(wrap(n, buffer)),
            (Ok(_), None) => Err(Failed { error: Error::new(crate::ErrorKind::Gone), buffer: None }),
            (Err(error), buffer) => Err(Failed { error, buffer }),
        });
    })
}
