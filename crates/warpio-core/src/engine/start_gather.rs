use std::ops::Range;
use std::sync::Arc;

use super::batch::Target;
use super::gather::{Gather, Results, by_segments};
use super::operation::{Finish, Lease, Operation, Parameters};
use super::segment::Direction;
use super::start::Starter;
use crate::buffer::{DeviceBytesMut, watch_all};
use crate::device::{Device, DeviceEvent};
use crate::source::check_room;
use crate::transfer::{Completer, Control, Failed, Outcome, Ranges, Scattered, Transfer};
use crate::{Error, ErrorKind, Result};

impl Starter {
    /// Starts a read of many ranges of `target`, packed into `buffer` one after another, as
    /// [`AsyncDeviceRead::read_ranges`](crate::AsyncDeviceRead::read_ranges) does. They are sorted, equal and overlapping
    /// ones are read once, and gaps of up to `gap` bytes between them are read with them.
    pub fn read_ranges(
        &self,
        target: Target,
        ranges: &[Range<u64>],
        mut buffer: DeviceBytesMut,
        gap: u64,
    ) -> Transfer<Ranges> {
        let (completer, transfer) = Transfer::channel();
        let device = buffer.device().clone();
        let checked = check_room(ranges, buffer.len()).and_then(|()| self.check(&device, 0, 0));
        if let Err(error) = checked {
            completer.complete(Err(Failed { error: self.in_gather(error), buffer: Some(buffer) }));
            return transfer;
        }
        let mut at = 0;
        let places = ranges
            .iter()
            .map(|range| {
                let place = buffer.ptr_at(at);
                at += (range.end - range.start) as usize;
                place.as_ptr() as usize
            })
            .collect();
        let fence = buffer.take_fence();
        let control = completer.control().clone();
        let results = Arc::new(Results::new(ranges, &self.source));
        let finish = finish(
            completer,
            &results,
            |results, lease| match lease {
                Lease::Read(buffer) => Ok(Ranges { results, buffer }),
                _ => Err(Failed { error: Error::new(ErrorKind::Gone), buffer: None }),
            },
            |lease| match lease {
                Lease::Read(buffer) => Some(buffer),
                _ => None,
            },
        );
        let work = Work { control, ranges: ranges.into(), places, results, lease: Lease::Read(buffer), finish, gap };
        self.launch_gather(target, &device, fence, work);
        transfer
    }

    /// Starts a read of many ranges of `target`, each from its offset into a buffer of its own. Where these are not all
    /// on one device, each is read by itself.
    pub fn read_scatter(&self, target: Target, requests: Vec<(u64, DeviceBytesMut)>, gap: u64) -> Transfer<Scattered> {
        if requests.windows(2).any(|pair| pair[0].1.device() != pair[1].1.device()) {
            return self.read_each_into(target, requests);
        }
        let (completer, transfer) = Transfer::channel();
        let range = |(at, buffer): &(u64, DeviceBytesMut)| {
            let len = buffer.len() as u64;
            // One that no number can name keeps its length; it is refused, as all that reach past what a file can hold.
            let start = (*at).min(u64::MAX - len);
            start..start + len
        };
        let ranges: Box<[Range<u64>]> = requests.iter().map(range).collect();
        let mut buffers: Vec<_> = requests.into_iter().map(|(_, buffer)| buffer).collect();
        let device = buffers.first().map_or_else(|| self.device().clone(), |buffer| buffer.device().clone());
        if let Err(error) = self.check(&device, 0, 0) {
            completer.complete(Err(Failed { error: self.in_gather(error), buffer: Some(buffers) }));
            return transfer;
        }
        let places = buffers.iter().map(|buffer| buffer.ptr_at(0).as_ptr() as usize).collect();
        let mut fence: Vec<_> = buffers.iter_mut().flat_map(DeviceBytesMut::take_fence).collect();
        // Parts of one buffer carry the same events.
        fence.sort_unstable_by_key(DeviceEvent::address);
        fence.dedup_by_key(|event| event.address());
        let control = completer.control().clone();
        let results = Arc::new(Results::new(&ranges, &self.source));
        let finish = finish(
            completer,
            &results,
            |results, lease| match lease {
                Lease::Scatter(buffers) => Ok(Scattered { results, buffers }),
                _ => Err(Failed { error: Error::new(ErrorKind::Gone), buffer: None }),
            },
            |lease| match lease {
                Lease::Scatter(buffers) => Some(buffers),
                _ => None,
            },
        );
        let work = Work { control, ranges, places, results, lease: Lease::Scatter(buffers), finish, gap };
        self.launch_gather(target, &device, fence, work);
        transfer
    }

    fn in_gather(&self, error: Error) -> Error {
        error.with_operation("read").with_source_name(&self.source)
    }

    fn launch_gather(&self, target: Target, device: &Device, fence: Vec<DeviceEvent>, work: Work) {
        let len = work.ranges.iter().map(|range| range.end - range.start).sum::<u64>() as usize;
        let one_buffer = matches!(work.lease, Lease::Read(_));
        let operation = Operation::new(Parameters {
            control: work.control,
            device: device.clone(),
            direction: Direction::Read,
            source: self.source.clone(),
            offset: work.ranges.first().map_or(0, |range| range.start),
            len,
            segments: 1,
            lease: work.lease,
            finish: work.finish,
            stats: self.stats.clone(),
        });
        let gather = Gather::new(operation, work.ranges, work.places, one_buffer, work.results, work.gap);
        let engine = self.engine.clone();
        watch_all(device, fence, move |result| match result {
            Ok(()) if engine.gathers() => engine.gather(target, gather),
            Ok(()) => by_segments(engine, target, gather),
            Err(error) => gather.fail(error),
        });
    }
}

struct Work {
    control: Arc<Control>,
    ranges: Box<[Range<u64>]>,
    places: Box<[usize]>,
    results: Arc<Results>,
    lease: Lease,
    finish: Finish,
    gap: u64,
}

fn finish<O: Outcome>(
    completer: Completer<O>,
    results: &Arc<Results>,
    wrap: impl FnOnce(Vec<Result<usize>>, Lease) -> Result<O, Failed<O::Buffer>> + Send + 'static,
    unwrap: impl FnOnce(Lease) -> Option<O::Buffer> + Send + 'static,
) -> Finish {
    let results = results.clone();
    Box::new(move |result, lease| {
        completer.complete(match (result, lease) {
            (Ok(_), Some(lease)) => wrap(results.take(), lease),
            (Ok(_), None) => Err(Failed { error: Error::new(ErrorKind::Gone), buffer: None }),
            (Err(error), lease) => Err(Failed { error, buffer: lease.and_then(unwrap) }),
        });
    })
}
