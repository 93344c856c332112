use std::ffi::c_void;

use futures::channel::oneshot;
use warpio_core::{DeviceBytesMut, Error, ErrorKind, Failed, Result};
use warpio_cuda::CudaDeviceExt;

use crate::driver::Driver;
use crate::error::CuFileError;
use crate::janitor;

impl Driver {
    /// Registers a buffer's memory: transfers into it and from it then need no bounce buffer. It is the same memory
    /// that comes back, as a buffer that takes the registration back when its last piece is gone, before the memory is
    /// released. Registering pins GPU memory and takes milliseconds: it pays for buffers that are used again and again.
    ///
    /// # Errors
    /// [`OutOfMemory`](ErrorKind::OutOfMemory) when no more can be pinned; what the library answers. The buffer comes
    /// back as it was.
    pub async fn register(&self, buffer: DeviceBytesMut) -> Result<DeviceBytesMut, Failed<DeviceBytesMut>> {
        let (told, outcome) = oneshot::channel();
        let driver = self.clone();
        let job = move || {
            // A dropped future takes the registration back with the buffer.
            let _ = told.send(driver.register_now(buffer));
        };
        let gone = |error| Failed { error, buffer: None };
        std::thread::Builder::new()
            .name("warpio-cufile-register".into())
            .spawn(job)
            .map_err(|error| gone(Error::new(ErrorKind::ResourceLimit).with_cause(error)))?;
        outcome.await.map_err(|_| gone(Error::new(ErrorKind::Gone)))?
    }

    /// As [`register`](Self::register), blocking the calling thread.
    ///
    /// # Errors
    /// As for [`register`](Self::register).
    pub fn register_now(&self, mut buffer: DeviceBytesMut) -> Result<DeviceBytesMut, Failed<DeviceBytesMut>> {
        let (device, len, base) = (buffer.device().clone(), buffer.len(), buffer.as_mut_ptr() as usize);
        let Some(ptr) = std::ptr::NonNull::new(base as *mut u8).filter(|_| len > 0) else {
            return Ok(buffer);
        };
        let pinned = self
            .check_process()
            .map_err(Error::from)
            .and_then(|()| device.in_context(|| pin(self, base, len)))
            .and_then(|pinned| pinned.map_err(Error::from));
        if let Err(error) = pinned {
            let error = error.with_operation("register");
            return Err(Failed { error, buffer: Some(buffer) });
        }
        self.registry().insert(base, len);
        let owner = Registered { driver: self.clone(), base, buffer: Some(buffer) };
        // SAFETY: the owner holds the buffer that this memory belongs to, and nobody else has it.
        Ok(unsafe { DeviceBytesMut::from_raw_parts(&device, ptr, len, owner) })
    }
}

/// Registers memory. The context that it belongs to must be current.
pub(super) fn pin(driver: &Driver, base: usize, len: usize) -> Result<(), CuFileError> {
    // SAFETY: the library checks the range; it is not used after `unpin`, which comes before the memory is freed.
    let status = unsafe { (driver.library().cuFileBufRegister)(base as *const c_void, len, 0) };
    CuFileError::check(status, "cuFileBufRegister")
}

/// Takes a registration back. It may block.
pub(super) fn unpin(driver: &Driver, base: usize) {
    // SAFETY: registered by `pin`, and no operation uses it any more.
    let status = unsafe { (driver.library().cuFileBufDeregister)(base as *const c_void) };
    if let Err(error) = CuFileError::check(status, "cuFileBufDeregister") {
        tracing::warn!(%error, "memory stays registered with cuFile");
    }
}

/// Takes the registration back when it is dropped, and releases the memory behind that: freed first, it would wait for
/// the registration, and the registration for it.
struct Registered {
    driver: Driver,
    base: usize,
    buffer: Option<DeviceBytesMut>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let (driver, base, buffer) = (self.driver.clone(), self.base, self.buffer.take());
        driver.registry().remove(base);
        janitor::later(move || {
            let device = buffer.as_ref().map(|buffer| buffer.device().clone());
            match device.map(|device| device.in_context(|| unpin(&driver, base))) {
                // The registration went with the context.
                Some(Err(error)) => tracing::debug!(%error, "memory of a lost device stays registered"),
                _ => drop(buffer),
            }
        });
    }
}
