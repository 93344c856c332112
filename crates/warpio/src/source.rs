use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use warpio_core::{AsyncDeviceRead, Description, Device, DeviceBytesMut, Ranges, Result, Scattered, Transfer};

/// A source that was opened by [`Runtime::open`](crate::Runtime::open), whatever kind it is. Cheap to clone.
#[derive(Clone)]
pub struct Source(Arc<dyn AsyncDeviceRead>);

impl Source {
    /// Wraps a source.
    pub fn new(source: impl AsyncDeviceRead + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// The length in bytes, now.
    ///
    /// # Errors
    /// What the storage reports.
    pub async fn size(&self) -> Result<u64> {
        self.0.size().await
    }
}

impl AsyncDeviceRead for Source {
    fn device(&self) -> &Device {
        self.0.device()
    }

    fn describe(&self) -> Description {
        self.0.describe()
    }

    fn size(&self) -> std::pin::Pin<Box<dyn Future<Output = Result<u64>> + Send + '_>> {
        self.0.size()
    }

    fn read_at(&self, offset: u64, buf: DeviceBytesMut) -> Transfer {
        self.0.read_at(offset, buf)
    }

    fn read_ranges(&self, ranges: &[Range<u64>], buf: DeviceBytesMut) -> Transfer<Ranges> {
        self.0.read_ranges(ranges, buf)
    }

    fn read_scatter(&self, requests: Vec<(u64, DeviceBytesMut)>) -> Transfer<Scattered> {
        self.0.read_scatter(requests)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Source").field(&self.0).finish()
    }
}
