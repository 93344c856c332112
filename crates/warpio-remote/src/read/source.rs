use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use futures::future::BoxFuture;
use warpio_core::engine::Starter;
use warpio_core::{AsyncDeviceRead, Description, Device, DeviceBytesMut, Ranges, Result, Scattered, Transfer};

use super::object::Object;
use crate::server::Server;

/// Up to so many bytes between two ranges are asked for with them: a request costs as much as they do.
const GAP: u64 = 64 << 10;

/// One remote object, open for reading.
///
/// It stays with the state of the object that it saw first: when the object is replaced meanwhile, reads fail as
/// [`Changed`](warpio_core::ErrorKind::Changed). Cheap to clone.
#[derive(Clone)]
pub struct Remote {
    object: Arc<Object>,
    server: Arc<Server>,
    starter: Starter,
}

impl Remote {
    pub(crate) fn new(object: Arc<Object>, server: Arc<Server>, starter: Starter) -> Self {
        Self { object, server, starter }
    }

    /// The device that the object is read into by default.
    pub fn device(&self) -> &Device {
        self.starter.device()
    }

    /// What this source is.
    pub fn describe(&self) -> Description {
        let origin = &self.object.origin;
        Description::new(origin.name(), origin.kind(), "remote").with_capabilities(|c| c.read = true)
    }

    /// The ETag of the object, once a reply has told it.
    pub fn etag(&self) -> Option<String> {
        self.object.known().etag
    }

    /// Whether the server serves whole objects only, so that reads are fast in ascending order alone. Known after the
    /// first reply.
    pub fn is_stream(&self) -> bool {
        self.object.is_stream()
    }

    /// Makes sure that the object is there, and learns its length and state where the server tells them.
    pub(crate) async fn look_up(&self) -> Result<()> {
        let (object, server) = (self.object.clone(), self.server.clone());
        let looked = self.server.net.run(async move { object.look_up(&server).await }).await;
        looked.map_err(|error| error.with_operation("open").with_source_name(self.object.origin.name()))
    }
}

impl AsyncDeviceRead for Remote {
    fn device(&self) -> &Device {
        self.starter.device()
    }

    fn describe(&self) -> Description {
        self.describe()
    }

    fn size(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            if let Some(total) = self.object.total() {
                return Ok(total);
            }
            let (object, server) = (self.object.clone(), self.server.clone());
            let size = self.server.net.run(async move { object.find_total(&server).await }).await;
            size.map_err(|error| error.with_operation("size").with_source_name(self.object.origin.name()))
        })
    }

    fn read_at(&self, offset: u64, buf: DeviceBytesMut) -> Transfer {
        self.starter.read(self.object.clone(), offset, buf)
    }

    fn read_ranges(&self, ranges: &[Range<u64>], buf: DeviceBytesMut) -> Transfer<Ranges> {
        self.starter.read_ranges(self.object.clone(), ranges, buf, GAP)
    }

    fn read_scatter(&self, requests: Vec<(u64, DeviceBytesMut)>) -> Transfer<Scattered> {
        self.starter.read_scatter(self.object.clone(), requests, GAP)
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("name", &self.object.origin.name()).finish_non_exhaustive()
    }
}
