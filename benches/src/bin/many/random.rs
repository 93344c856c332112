//! Ranges drawn at run time, and whether memory holds their bytes.

use std::ops::Range;
use std::time::SystemTime;

use warpio::DeviceBytesMut;
use warpio_benches::file;

use super::Result;

/// A generator with a seed of its own at every run.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
        Self(nanos ^ (u64::from(std::process::id()) << 40) | 1)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    /// `count` ranges of `len` bytes in a file of `size`, at multiples of their length.
    pub(crate) fn ranges(&mut self, size: u64, count: usize, len: u64) -> Vec<Range<u64>> {
        (0..count).map(|_| self.below(size / len) * len).map(|at| at..at + len).collect()
    }
}

/// Checks that `buffer` holds the bytes of `ranges`, one after another.
pub(crate) async fn holds(buffer: DeviceBytesMut, ranges: &[Range<u64>]) -> Result<DeviceBytesMut> {
    let bytes = buffer.freeze();
    let host = bytes.to_host().await?;
    let mut at = 0;
    for range in ranges {
        let len = (range.end - range.start) as usize;
        if !file::holds(range.start, &host[at..at + len]) {
            return Err(format!("the device holds wrong bytes for {range:?}").into());
        }
        at += len;
    }
    // Of host memory this was a view.
    drop(host);
    Ok(bytes.try_into_mut().map_err(|_| "the buffer is shared")?)
}
