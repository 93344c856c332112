use std::fmt;
use std::pin::Pin;

use warpio_core::{AsyncDeviceWrite, Description, Device, DeviceBytes, Result, Transfer};

/// A sink that was made by [`Runtime::create`](crate::Runtime::create), whatever kind it is. What was written shows
/// when it is [finished](AsyncDeviceWrite::finish), and not at all when it is dropped before.
pub struct Sink(Box<dyn AsyncDeviceWrite>);

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl Sink {
    /// Wraps a sink.
    pub fn new(sink: impl AsyncDeviceWrite + 'static) -> Self {
        Self(Box::new(sink))
    }

    /// Publishes what was written, whole and durable.
    ///
    /// # Errors
    /// What the store reports; nothing shows then.
    pub async fn finish(self) -> Result<()> {
        self.0.finish().await
    }
}

impl AsyncDeviceWrite for Sink {
    fn device(&self) -> &Device {
        self.0.device()
    }

    fn describe(&self) -> Description {
        self.0.describe()
    }

    fn write_at(&self, offset: u64, buf: DeviceBytes) -> Transfer<DeviceBytes> {
        self.0.write_at(offset, buf)
    }

    fn append(&self, buf: DeviceBytes) -> Transfer<DeviceBytes> {
        self.0.append(buf)
    }

    fn set_len(&self, len: u64) -> BoxFuture<'_, Result<()>> {
        self.0.set_len(len)
    }

    fn sync(&self) -> BoxFuture<'_, Result<()>> {
        self.0.sync()
    }

    fn finish(&self) -> BoxFuture<'_, Result<()>> {
        self.0.finish()
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sink").field(&self.0).finish()
    }
}
