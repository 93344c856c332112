//! What a device holds, read back.

use warpio::DeviceBytes;

use crate::failure::Failure;

/// How much is in host memory at once.
const PIECE: usize = 16 << 20;

/// Passes all of `data` to `look`, as it is read back from its device: in order, in bounded pieces, each with its offset.
pub(crate) async fn each_piece(
    data: &DeviceBytes,
    mut look: impl FnMut(usize, &[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for start in (0..data.len()).step_by(PIECE) {
        let piece = data.slice(start..data.len().min(start + PIECE)).to_host().await?;
        look(start, &piece)?;
        // Host memory comes at once; the user may want to stop all the same.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// The CRC-32C of all of `data`, as it is read back from its device.
pub(crate) async fn crc32c(data: &DeviceBytes) -> Result<u32, Failure> {
    let mut crc = 0;
    each_piece(data, |_, piece| {
        crc = crc32c::crc32c_append(crc, piece);
        Ok(())
    })
    .await?;
    Ok(crc)
}
