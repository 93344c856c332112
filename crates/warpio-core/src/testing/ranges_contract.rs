use std::ops::Range;

use crate::Result;
use crate::buffer::DeviceBytesMut;
use crate::device::Device;
use crate::source::AsyncDeviceRead;
use crate::transfer::Moved;

/// Checks that reading many ranges at once, packed into one buffer and each into its own, gives what the source holds
/// there, as reading each by itself does; in memory of `device`. `content` is all that the source holds; ranges may be
/// empty, overlap, and reach past its end or lie behind it.
///
/// # Panics
/// Where a range does not.
pub async fn ranges_contract(source: &dyn AsyncDeviceRead, device: &Device, ranges: &[Range<u64>], content: &[u8]) {
    packed(source, device, ranges, content).await;
    scattered(source, device, ranges, content).await;
    each(source, device, ranges, content).await;
}

async fn packed(source: &dyn AsyncDeviceRead, device: &Device, ranges: &[Range<u64>], content: &[u8]) {
    let total: usize = ranges.iter().map(len).sum();
    // More room than they need, which comes back as well.
    let buffer = device.alloc(total + 10).expect("memory");
    let read = source.read_ranges(ranges, buffer).await.expect("packed ranges");
    assert_eq!((read.results.len(), read.buffer.len()), (ranges.len(), total + 10));
    let bytes = read.buffer.freeze().to_host().await.expect("read back");
    let mut at = 0;
    for (range, result) in ranges.iter().zip(read.results) {
        let want = held(content, range);
        assert_eq!(result.expect("a packed range"), want.len(), "{range:?}, packed");
        assert!(bytes[at..].starts_with(want), "{range:?} holds other bytes, packed");
        at += len(range);
    }
}

async fn each(source: &dyn AsyncDeviceRead, device: &Device, ranges: &[Range<u64>], content: &[u8]) {
    let read = |range: &Range<u64>| source.read_at(range.start, device.alloc(len(range)).expect("memory"));
    let transfers: Vec<_> = ranges.iter().map(read).collect();
    for (range, transfer) in ranges.iter().zip(transfers) {
        let Moved { n, buffer } = transfer.await.expect("a range by itself");
        check(range, Ok(n), buffer, content, "by itself").await;
    }
}

async fn scattered(source: &dyn AsyncDeviceRead, device: &Device, ranges: &[Range<u64>], content: &[u8]) {
    let request = |range: &Range<u64>| (range.start, device.alloc(len(range)).expect("memory"));
    let read = source.read_scatter(ranges.iter().map(request).collect()).await.expect("scattered ranges");
    assert_eq!((read.results.len(), read.buffers.len()), (ranges.len(), ranges.len()));
    for ((range, result), buffer) in ranges.iter().zip(read.results).zip(read.buffers) {
        check(range, result, buffer, content, "scattered").await;
    }
}

async fn check(range: &Range<u64>, result: Result<usize>, buffer: DeviceBytesMut, content: &[u8], how: &str) {
    let want = held(content, range);
    assert_eq!((result.expect(how), buffer.len()), (want.len(), len(range)), "{range:?}, {how}");
    let bytes = buffer.freeze().to_host().await.expect("read back");
    assert!(bytes.starts_with(want), "{range:?} holds other bytes, {how}");
}

fn len(range: &Range<u64>) -> usize {
    (range.end - range.start) as usize
}

/// What the source has of a range.
fn held<'a>(content: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
    &content[at(range.start)..at(range.end)]
}
