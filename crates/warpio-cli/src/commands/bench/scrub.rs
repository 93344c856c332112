//! Device memory is used for every round, so that what a round left behind must not count as what the next one read.

use tokio::runtime::Handle;
use warpio::{AsyncDeviceReadExt, Description, DeviceBytesMut, Failed, Fetch, Result, Staged};

/// Neither zero nor a byte that the pattern repeats.
const BLANK: u8 = 0xA5;

/// Bytes that are all the same, as many as anybody wants.
struct Blank;

impl Fetch for Blank {
    async fn size(&self) -> Result<u64> {
        Ok(u64::MAX)
    }

    async fn fetch(&self, _: u64, dst: &mut [u8]) -> Result<usize> {
        dst.fill(BLANK);
        // Let an interruption be heard between the parts.
        tokio::task::yield_now().await;
        Ok(dst.len())
    }

    fn describe(&self) -> Description {
        Description::new("blank", "memory", "staged")
    }
}

/// Overwrites all of `buffer`, on whichever device it is.
pub(super) async fn scrub(buffer: DeviceBytesMut) -> Result<DeviceBytesMut, Failed<DeviceBytesMut>> {
    let device = buffer.device().clone();
    Staged::new(Blank, device, Handle::current()).read_exact_at(0, buffer).await
}

#[cfg(test)]
mod tests {
    use warpio::Device;

    use super::*;

    #[tokio::test]
    async fn nothing_is_left() {
        let mut buffer = Device::host().alloc(9_000_001).unwrap();
        buffer.as_mut_slice().unwrap().fill(7);
        let buffer = scrub(buffer).await.unwrap();
        assert_eq!(buffer.len(), 9_000_001);
        assert!(buffer.as_slice().unwrap().iter().all(|&byte| byte == BLANK));
    }
}
