use super::contract::pattern;
use crate::buffer::DeviceBytes;
use crate::device::Device;
use crate::source::AsyncDeviceWrite;
use crate::{ErrorKind, Result};

/// Runs the contract of [`AsyncDeviceWrite`] over an empty sink that can write anywhere, with memory of its device and
/// of the host. `content` returns what the sink holds.
///
/// # Panics
/// Where the sink breaks its contract.
pub async fn write_contract<F>(sink: &dyn AsyncDeviceWrite, content: impl Fn() -> F)
where
    F: Future<Output = Vec<u8>>,
{
    let len = 300_007;
    let want = pattern(len);
    let mut devices = vec![sink.device().clone()];
    if !sink.device().is_host_visible() {
        devices.push(Device::host());
    }
    for device in devices {
        whole(sink, &device, &want).await;
        assert!(content().await == want, "the sink holds wrong bytes");
        pieces(sink, &device, &want).await;
        assert!(content().await == want, "pieces in any order: the sink holds wrong bytes");
        refused(sink, &device).await;
        dropped(sink, &device, &want).await;
        assert!(content().await == want, "the same bytes again: the sink holds wrong bytes");
    }
    sink.finish().await.expect("finish");
    assert!(content().await == want, "after finish: the sink holds wrong bytes");
}

async fn upload(device: &Device, bytes: &[u8]) -> DeviceBytes {
    device.upload(bytes).await.expect("upload").freeze()
}

async fn whole(sink: &dyn AsyncDeviceWrite, device: &Device, want: &[u8]) {
    let back = sink.write_at(0, upload(device, want).await).await.expect("write");
    assert_eq!(back.len(), want.len(), "the buffer comes back");
    sink.sync().await.expect("sync");
}

async fn pieces(sink: &dyn AsyncDeviceWrite, device: &Device, want: &[u8]) {
    let step = want.len() / 13 + 1;
    let mut transfers = Vec::new();
    for (i, piece) in want.chunks(step).enumerate().collect::<Vec<_>>().into_iter().rev() {
        transfers.push(sink.write_at((i * step) as u64, upload(device, piece).await));
    }
    transfers.push(sink.write_at(5, upload(device, &[]).await));
    for transfer in transfers {
        transfer.await.expect("write");
    }
}

async fn refused(sink: &dyn AsyncDeviceWrite, device: &Device) {
    for offset in [u64::MAX, i64::MAX as u64 - 2] {
        let failed = sink.write_at(offset, upload(device, b"12345678").await).await.expect_err("overflow");
        assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(8), "the buffer comes back");
    }
}

async fn dropped(sink: &dyn AsyncDeviceWrite, device: &Device, want: &[u8]) {
    for _ in 0..4 {
        drop(sink.write_at(0, upload(device, want).await));
    }
    let result: Result<()> = match sink.write_at(0, upload(device, want).await).await {
        Ok(_) => Ok(()),
        Err(failed) => Err(failed.error),
    };
    result.expect("a write after dropped ones");
}
