use std::fmt::Debug;
use std::ops::Range;

use futures::future::BoxFuture;

use super::describe::Description;
use crate::buffer::DeviceBytesMut;
use crate::device::Device;
use crate::transfer::{Ranges, Scattered, Transfer, join, join_scattered};
use crate::{Error, Result};

/// Bytes that can be read into device memory.
///
/// # Contract
/// * **A read is under way when the method returns.** Polling observes it; dropping it cancels it; many may be under
///   way at once, in any order.
/// * **Owned buffers.** The buffer comes back with the outcome, in failure too, except where memory may still be
///   written. While a transfer runs, nothing else can reach its memory.
/// * **Short means the end.** Fewer bytes than the buffer has arrive only where the source ends within the range; at or
///   behind the end it is `Ok` with `n == 0`. An empty buffer resolves at once with `n == 0`, wherever the offset is.
/// * **Any range.** Offsets and lengths need no alignment. A range whose end overflows is
///   [`InvalidInput`](crate::ErrorKind::InvalidInput).
/// * **Any caller.** No method blocks; all may be called outside tokio.
/// * **Buffers** may be on [`device`](Self::device) or in host memory; others are refused.
///
/// `warpio_core::testing` holds the suite that every implementation passes.
pub trait AsyncDeviceRead: Debug + Send + Sync {
    /// The device that [`read_all`](super::AsyncDeviceReadExt::read_all) and chunks read into.
    fn device(&self) -> &Device;

    /// What this source is.
    fn describe(&self) -> Description;

    /// The length in bytes, now.
    ///
    /// # Errors
    /// What the storage reports.
    fn size(&self) -> BoxFuture<'_, Result<u64>>;

    /// Reads `buf.len()` bytes at `offset`.
    fn read_at(&self, offset: u64, buf: DeviceBytesMut) -> Transfer;

    /// Reads many ranges, packed into `buf` one after another, each at its full length. A range that fails or is short
    /// leaves the others as they are. Fails as a whole, as [`InvalidInput`](crate::ErrorKind::InvalidInput), when a
    /// range ends before it starts or `buf` is too short for all of them.
    fn read_ranges(&self, ranges: &[Range<u64>], buf: DeviceBytesMut) -> Transfer<Ranges> {
        ranges_one_by_one(self, ranges, buf)
    }

    /// Reads many ranges, each from its offset into a buffer of its own, some of which may be in host memory and some on
    /// the device. They cannot overlap, as each owns its memory. A range that fails or is short leaves the others as
    /// they are. The buffers come back in the order given.
    fn read_scatter(&self, requests: Vec<(u64, DeviceBytesMut)>) -> Transfer<Scattered> {
        scatter_one_by_one(self, requests)
    }
}

const _: Option<&dyn AsyncDeviceRead> = None;

/// [`AsyncDeviceRead::read_ranges`] by a read for each range.
fn ranges_one_by_one<S: AsyncDeviceRead + ?Sized>(
    source: &S,
    ranges: &[Range<u64>],
    buf: DeviceBytesMut,
) -> Transfer<Ranges> {
    if let Err(error) = check_room(ranges, buf.len()) {
        return Transfer::failed(error, Some(buf));
    }
    let mut rest = buf;
    let transfers = ranges
        .iter()
        .map(|range| source.read_at(range.start, rest.split_to((range.end - range.start) as usize)))
        .collect();
    join(transfers, rest)
}

/// [`AsyncDeviceRead::read_scatter`] by a read for each range.
fn scatter_one_by_one<S: AsyncDeviceRead + ?Sized>(
    source: &S,
    requests: Vec<(u64, DeviceBytesMut)>,
) -> Transfer<Scattered> {
    join_scattered(requests.into_iter().map(|(offset, buf)| source.read_at(offset, buf)).collect())
}

/// Refuses ranges that a buffer of `len` bytes has no room for.
pub(crate) fn check_room(ranges: &[Range<u64>], len: usize) -> Result<()> {
    let total = packed_len(ranges)?;
    if total <= len as u64 {
        return Ok(());
    }
    Err(Error::invalid_input(format!("the ranges have {total} bytes, but the buffer only {len}")))
}

/// The length of all ranges together, in bytes.
fn packed_len(ranges: &[Range<u64>]) -> Result<u64> {
    ranges.iter().try_fold(0u64, |total, range| {
        range
            .end
            .checked_sub(range.start)
            .ok_or_else(|| {
                Error::invalid_input(format!("the range {}..{} ends before it starts", range.start, range.end))
            })
            .and_then(|len| {
                total.checked_add(len).ok_or_else(|| Error::invalid_input("the ranges together exceed 2^64 bytes"))
            })
    })
}
