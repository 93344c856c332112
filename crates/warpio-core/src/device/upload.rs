//! Bytes of the host into device memory, through the staging pool.

use std::ptr::NonNull;

use super::Device;
use crate::Result;
use crate::buffer::DeviceBytesMut;

impl Device {
    /// Copies `bytes` into new memory of this device, through the staging pool and in bounded pieces.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), warpio_core::Error> {
    /// let device = warpio_core::Device::host();
    /// let data = device.upload(b"weights").await?.freeze();
    /// assert_eq!(&data.to_host().await?[..], b"weights");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory), and what the device reports for the copies.
    pub async fn upload(&self, bytes: &[u8]) -> Result<DeviceBytesMut> {
        let mut buffer = self.alloc(bytes.len())?;
        if let Some(host) = buffer.as_mut_slice() {
            host.copy_from_slice(bytes);
            return Ok(buffer);
        }
        let stream = self.new_stream()?;
        let mut at = 0;
        while at < bytes.len() {
            let piece = &bytes[at..bytes.len().min(at + self.staging().slot_len())];
            let mut slot = self.staging().acquire(piece.len()).await?;
            slot.as_mut_slice()[..piece.len()].copy_from_slice(piece);
            let (dst, src) = (buffer.ptr_at(at), NonNull::from(slot.as_mut_slice()).cast());
            // SAFETY: the slot and the buffer outlive the copy: the watch keeps the slot, and the buffer waits for its
            // fence before it is freed; without an event, both are leaked.
            unsafe { stream.backend().copy_to_device(dst, src, piece.len())? };
            let event = match stream.record() {
                Ok(event) => event,
                Err(error) => {
                    slot.leak();
                    std::mem::forget(buffer);
                    return Err(error);
                }
            };
            buffer.add_fence(event.clone());
            self.backend().watch(event, Box::new(move |_| drop(slot)));
            at += piece.len();
        }
        buffer.ready().await?;
        Ok(buffer)
    }
}
