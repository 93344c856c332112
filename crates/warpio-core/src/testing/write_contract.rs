use super::contract::pattern;
use crate::buffer::DeviceBytes;
use crate::device::Device;
use crate::source::AsyncDeviceWrite;
use crate::{ErrorKind, Result};

/// Runs the contract of [`AsyncDeviceWrite`] over an empty sink that can write anywhere, with memory of its device and
/// of the host, and finishes it. `content` returns what the sink holds. What it has to do in failure is
/// [`failed_write_contract`]'s.
///
/// # Panics
/// Where the sink breaks its contract.
pub async fn write_contract<F>(sink: &dyn AsyncDeviceWrite, content: impl Fn() -> F)
where
    F: Future<Output = Vec<u8>>,
{
    let want = pattern(LEN);
    for device in devices(sink) {
        whole(sink, &device, &want).await;
        assert!(content().await == want, "the sink holds wrong bytes");
        pieces(sink, &device, &want).await;
        assert!(content().await == want, "pieces in any order: the sink holds wrong bytes");
    }
    // Two halves that nobody has waited for are part of what is finished.
    let device = sink.device().clone();
    let (head, tail) = want.split_at(LEN / 2);
    let under_way =
        [sink.write_at(0, upload(&device, head).await), sink.write_at(head.len() as u64, upload(&device, tail).await)];
    sink.finish().await.expect("finish");
    for write in under_way {
        write.await.expect("a write under way when the sink was finished");
    }
    assert!(content().await == want, "after finish: the sink holds wrong bytes");
}

/// Runs what the contract of [`AsyncDeviceWrite`] says of writes that do not succeed, over an empty sink that can write
/// anywhere. The sink is not finished afterwards, and cannot be.
///
/// # Panics
/// Where the sink breaks its contract.
pub async fn failed_write_contract(sink: &dyn AsyncDeviceWrite) {
    let want = pattern(LEN);
    for device in devices(sink) {
        refused(sink, &device).await;
        dropped(sink, &device, &want).await;
    }
    let error = sink.finish().await.expect_err("finish after a write that was refused");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "the first error counts: {error}");
}

const LEN: usize = 300_007;

fn devices(sink: &dyn AsyncDeviceWrite) -> Vec<Device> {
    let mut devices = vec![sink.device().clone()];
    if !sink.device().is_host_visible() {
        devices.push(Device::host());
    }
    devices
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
