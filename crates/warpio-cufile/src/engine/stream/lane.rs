use std::sync::Arc;

use warpio_core::{Device, DeviceStream, Error, Result};
use warpio_cuda::raw_stream;

use super::Places;
use crate::driver::Driver;
use crate::error::CuFileError;
use crate::janitor;
use crate::sys::{Stream, StreamFlags};

/// A stream of one device that is registered with cuFile.
#[derive(Debug)]
pub(super) struct Lane {
    driver: Driver,
    device: Device,
    stream: Option<DeviceStream>,
    raw: Stream,
    registered: bool,
    places: Arc<Places>,
}

// SAFETY: the driver's handle may be used from any thread.
unsafe impl Send for Lane {}
// SAFETY: as above.
unsafe impl Sync for Lane {}

impl Lane {
    pub(super) fn new(driver: &Driver, device: &Device, places: Arc<Places>) -> Result<Self> {
        let stream = device.new_stream()?;
        let raw = raw_stream(&stream).ok_or_else(|| Error::unsupported("cuFile knows streams of CUDA only"))?;
        let raw = raw.cast();
        // Nothing changes between call and operation. Remainders of short reads are unaligned, so alignment is not
        // promised.
        let flags = StreamFlags::FIXED_BUFFER_OFFSET | StreamFlags::FIXED_FILE_OFFSET | StreamFlags::FIXED_FILE_SIZE;
        // SAFETY: the stream is alive, and deregistered before it ends.
        let status = unsafe { (driver.library().cuFileStreamRegister)(raw, flags) };
        let registered = CuFileError::check(status, "cuFileStreamRegister");
        if let Err(error) = &registered {
            // The library then registers it by itself, for parameters that may change.
            tracing::debug!(%error, "a stream is used without being registered");
        }
        Ok(Self {
            driver: driver.clone(),
            device: device.clone(),
            stream: Some(stream),
            raw,
            registered: registered.is_ok(),
            places,
        })
    }

    pub(super) fn driver(&self) -> &Driver {
        &self.driver
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn stream(&self) -> &DeviceStream {
        match &self.stream {
            Some(stream) => stream,
            None => unreachable!("taken only when it is dropped"),
        }
    }

    pub(super) fn raw(&self) -> Stream {
        self.raw
    }

    /// A request is over.
    pub(super) fn give_back(&self) {
        self.places.give_back();
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let (driver, raw, registered) = (self.driver.clone(), self.raw as usize, self.registered);
        let stream = self.stream.take();
        janitor::later(move || {
            if registered {
                // SAFETY: registered above, and idle: every request on it holds this.
                let status = unsafe { (driver.library().cuFileStreamDeregister)(raw as Stream) };
                if let Err(error) = CuFileError::check(status, "cuFileStreamDeregister") {
                    tracing::debug!(%error, "a stream stays registered with cuFile");
                }
            }
            drop(stream);
        });
    }
}
