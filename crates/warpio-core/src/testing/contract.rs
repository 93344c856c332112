use std::ops::Range;
use std::time::Instant;

use crate::ErrorKind;
use crate::buffer::DeviceBytesMut;
use crate::device::Device;
use crate::source::{AsyncDeviceRead, AsyncDeviceReadExt};
use crate::transfer::{Moved, Transfer};

/// `len` bytes that depend on their offset, so that a byte in the wrong place is seen.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(pattern_byte).collect()
}

/// The byte of [`pattern`] at `offset`.
fn pattern_byte(offset: u64) -> u8 {
    // The high half of a multiplication by an odd constant: no period that alignment or task size could hide.
    (offset.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// Runs the contract of [`AsyncDeviceRead`] over a source that holds [`pattern`]`(len)`, reading into its device and
/// into host memory. `len` should be some multiple of the source's segment size and a bit.
///
/// # Panics
/// Where the source breaks its contract.
pub async fn read_contract(source: &dyn AsyncDeviceRead, len: usize) {
    assert_eq!(source.size().await.expect("size"), len as u64, "size");
    let mut devices = vec![source.device().clone()];
    if !source.device().is_host_visible() {
        devices.push(Device::host());
    }
    let want = pattern(len);
    for device in devices {
        let case = Case { source, device, len, want: &want };
        case.ranges_of_all_kinds().await;
        case.around_the_end().await;
        case.overflow().await;
        case.nothing_anywhere().await;
        case.in_stream_order().await;
        case.late().await;
        case.many_at_once().await;
        case.dropped_and_cancelled().await;
        case.packed_ranges().await;
        case.short_ranges().await;
        case.refused_ranges().await;
        case.scattered_ranges().await;
        case.far_ranges().await;
    }
    whole(source, &want).await;
}

struct Case<'a> {
    source: &'a dyn AsyncDeviceRead,
    device: Device,
    len: usize,
    want: &'a [u8],
}

impl Case<'_> {
    fn buffer(&self, len: usize) -> DeviceBytesMut {
        self.device.alloc(len).expect("memory")
    }

    fn read(&self, offset: usize, len: usize) -> Transfer {
        self.source.read_at(offset as u64, self.buffer(len))
    }

    async fn check(&self, offset: usize, len: usize) {
        let Moved { n, buffer } = self.read(offset, len).await.expect("read");
        let want = len.min(self.len.saturating_sub(offset));
        assert_eq!((n, buffer.len()), (want, len), "read of {len} bytes at {offset}");
        same(buffer, offset, want, self.want).await;
    }

    async fn ranges_of_all_kinds(&self) {
        let len = self.len;
        for (offset, n) in [(0, len), (0, 1), (1, 1), (len / 2, len / 3), (len / 3 + 1, 4096), (4095, 2), (7, len / 2)]
        {
            self.check(offset, n).await;
        }
    }

    async fn around_the_end(&self) {
        let len = self.len;
        for (offset, n) in
            [(len, 1), (len, 8192), (len + 1, 5), (len - 1, 1), (len - 1, 2), (len - 5, 100_000), (0, 0), (len, 0)]
        {
            self.check(offset, n).await;
        }
        self.check(len + (1 << 30), 4096).await;
        self.check(0, len + 70_000).await;
    }

    async fn overflow(&self) {
        for offset in [u64::MAX, u64::MAX - 3, i64::MAX as u64 - 2] {
            let failed = self.source.read_at(offset, self.buffer(8)).await.expect_err("an offset that overflows");
            assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
            assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(8), "the buffer comes back");
        }
    }

    async fn nothing_anywhere(&self) {
        for offset in [0, self.len as u64, i64::MAX as u64, u64::MAX] {
            let Moved { n, buffer } = self.source.read_at(offset, self.buffer(0)).await.expect("an empty buffer");
            assert_eq!((n, buffer.len()), (0, 0), "an empty buffer at {offset}");
        }
    }

    async fn in_stream_order(&self) {
        let stream = self.device.new_stream().expect("stream");
        for (offset, len) in [(0, self.len), (self.len / 2, self.len)] {
            let Moved { n, buffer } = self.read(offset, len).on_stream(&stream).await.expect("read in stream order");
            assert_eq!(n, self.len - offset);
            // The memory goes from one transfer to the next, behind what was enqueued for the first.
            let Moved { n, buffer } = self.source.read_at(0, buffer).await.expect("read again");
            same(buffer, 0, n, self.want).await;
        }
    }

    async fn late(&self) {
        match self.read(0, self.len).deadline(Instant::now()).await {
            Ok(Moved { n, buffer }) => same(buffer, 0, n, self.want).await,
            Err(failed) => assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded),
        }
        self.check(1, self.len / 2).await;
    }

    async fn many_at_once(&self) {
        let step = (self.len / 37).max(1);
        let transfers: Vec<_> = (0..37).map(|i| (i * step, self.read(i * step, step))).collect();
        for (offset, transfer) in transfers.into_iter().rev() {
            let Moved { n, buffer } = transfer.await.expect("read");
            same(buffer, offset, n, self.want).await;
        }
    }

    async fn dropped_and_cancelled(&self) {
        for _ in 0..8 {
            drop(self.read(0, self.len));
        }
        let transfer = self.read(0, self.len);
        transfer.cancel();
        match transfer.await {
            Ok(Moved { n, buffer }) => same(buffer, 0, n, self.want).await,
            Err(failed) => {
                assert_eq!(failed.error.kind(), ErrorKind::Cancelled);
                assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(self.len), "the buffer comes back");
            }
        }
        self.check(3, self.len / 2).await;
    }

    async fn packed_ranges(&self) {
        let len = self.len as u64;
        let ranges: Vec<Range<u64>> = vec![len / 2..len / 2 + 100, 0..1, 5..5, 10..5000, 10..5000, len - 3..len];
        let total = ranges.iter().map(|r| r.end - r.start).sum::<u64>() as usize;
        let read = self.source.read_ranges(&ranges, self.buffer(total + 9)).await.expect("ranges");
        assert_eq!(read.buffer.len(), total + 9);
        let bytes = read.buffer.freeze().to_host().await.expect("read back");
        let mut at = 0;
        for (range, result) in ranges.iter().zip(&read.results) {
            let n = (range.end - range.start) as usize;
            assert_eq!(*result.as_ref().expect("range"), n, "{range:?}");
            let want = &self.want[range.start as usize..range.end as usize];
            assert!(&bytes[at..at + n] == want, "range {range:?} holds wrong bytes");
            at += n;
        }
        let none = self.source.read_ranges(&[], self.buffer(4)).await.expect("no ranges");
        assert_eq!((none.results.len(), none.buffer.len()), (0, 4));
    }

    async fn short_ranges(&self) {
        let len = self.len as u64;
        let ranges = [0..10, len - 4..len + 6, len + 100..len + 110, 10..20];
        let read = self.source.read_ranges(&ranges, self.buffer(40)).await.expect("ranges");
        let counts: Vec<usize> = read.results.iter().map(|r| *r.as_ref().expect("range")).collect();
        assert_eq!(counts, [10, 4, 0, 10]);
        let failed = self.source.read_ranges_exact(&ranges, read.buffer).await.expect_err("short ranges");
        assert_eq!(failed.error.kind(), ErrorKind::UnexpectedEof);
        assert_eq!(failed.error.offset(), Some(len - 4));
        assert!(failed.buffer.is_some());
    }

    /// Into host memory and the device's, some of it empty, in one read.
    async fn scattered_ranges(&self) {
        let len = self.len;
        let requests = [(len / 2, 5000), (0, 1), (len - 3, 10), (len + 5, 4), (7, 0), (len / 2 + 100, 5000), (1, 1)];
        let mut places = Vec::new();
        for (n, &(offset, room)) in requests.iter().enumerate() {
            let host = Device::host().alloc(room).expect("memory");
            places.push((offset as u64, if n % 2 == 0 { self.buffer(room) } else { host }));
        }
        let read = self.source.read_scatter(places).await.expect("scattered ranges");
        for ((&(offset, room), result), buffer) in requests.iter().zip(read.results).zip(read.buffers) {
            let want = room.min(len.saturating_sub(offset));
            assert_eq!((result.expect("range"), buffer.len()), (want, room), "{room} bytes at {offset}, scattered");
            same(buffer, offset, want, self.want).await;
        }
        let none = self.source.read_scatter(Vec::new()).await.expect("no ranges");
        assert!(none.results.is_empty() && none.buffers.is_empty());
    }

    /// Ranges that no file can hold fail, and no others.
    async fn far_ranges(&self) {
        for offset in [u64::MAX, u64::MAX - 3, i64::MAX as u64 - 2] {
            let requests = vec![(5, self.buffer(9)), (offset, self.buffer(8)), (u64::MAX, self.buffer(0))];
            let read = self.source.read_scatter(requests).await.expect("scattered ranges");
            Self::only_the_second_is_too_far(&read.results, [9, 0]);
            assert_eq!(read.buffers.iter().map(DeviceBytesMut::len).collect::<Vec<_>>(), [9, 8, 0]);
        }
        for start in [u64::MAX - 8, i64::MAX as u64 - 2] {
            let ranges = [5..14, start..start + 8, u64::MAX..u64::MAX];
            let read = self.source.read_ranges(&ranges, self.buffer(17)).await.expect("packed ranges");
            Self::only_the_second_is_too_far(&read.results, [9, 0]);
            let bytes = read.buffer.freeze().to_host().await.expect("read back");
            assert!(bytes[..9] == self.want[5..14], "the range before it holds wrong bytes");
        }
    }

    fn only_the_second_is_too_far(results: &[crate::Result<usize>], others: [usize; 2]) {
        let [first, error, last] = results else { panic!("{} results for three ranges", results.len()) };
        let error = error.as_ref().expect_err("a range that no file can hold");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert_eq!([first, last].map(|n| *n.as_ref().expect("range")), others);
    }

    async fn refused_ranges(&self) {
        for (range, room) in [(Range { start: 10, end: 5 }, 100), (0..10, 9)] {
            let failed =
                self.source.read_ranges(std::slice::from_ref(&range), self.buffer(room)).await.expect_err("refused");
            assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
            assert!(failed.buffer.is_some_and(|buffer| buffer.len() == room));
        }
    }
}

async fn whole(source: &dyn AsyncDeviceRead, want: &[u8]) {
    let len = want.len();
    let all = (&source).read_all().await.expect("read_all");
    assert_eq!(all.len(), len);
    assert!(all.to_host().await.expect("read back") == want, "read_all returned wrong bytes");

    let failed = source.read_exact_at(1, source.device().alloc(len).expect("memory")).await.expect_err("one too many");
    assert_eq!(failed.error.kind(), ErrorKind::UnexpectedEof);
    assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(len));

    for (chunk_len, depth, keep) in
        [(len / 7 + 1, 2, false), (len, 1, false), (len + 1, 3, false), (len / 4, 4, true), (len / 5, 1, true)]
    {
        let mut at = 0;
        let mut chunks = (&source).into_chunks(chunk_len).depth(depth).start();
        while let Some(chunk) = chunks.try_next().await.expect("chunk") {
            assert_eq!(chunk.offset(), at, "chunks come in order");
            at += chunk.len() as u64;
            if keep {
                let bytes = chunk.into_buffer().freeze().to_host().await.expect("read back");
                assert!(want[..at as usize].ends_with(&bytes), "wrong bytes before {at}");
            }
        }
        assert_eq!(at, len as u64, "chunks of {chunk_len} cover the source");
        assert!(chunks.try_next().await.expect("behind the end").is_none());
    }
}

/// Checks the first `n` bytes of `buffer`, which were read at `offset`.
async fn same(buffer: DeviceBytesMut, offset: usize, n: usize, want: &[u8]) {
    if n == 0 {
        return;
    }
    let bytes = buffer.freeze().to_host().await.expect("read back");
    let (bytes, want) = (&bytes[..n], &want[offset..offset + n]);
    if bytes != want {
        let at = bytes.iter().zip(want).take_while(|(byte, want)| byte == want).count();
        panic!("wrong byte at {}: {} instead of {}", offset + at, bytes[at], want[at]);
    }
}
