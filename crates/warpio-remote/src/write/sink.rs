use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use warpio_core::engine::{Starter, Stats};
use warpio_core::plan::Split;
use warpio_core::{AsyncDeviceWrite, Description, Device, DeviceBytes, Error, Result, Transfer};

use super::backend::Backend;
use super::engine::SinkEngine;
use super::shared::{Announced, Shared};
use crate::cleanup::Cleanup;
use crate::server::Server;

/// A remote object that shows when it is [finished](AsyncDeviceWrite::finish), and not at all when it is dropped before.
///
/// It is written from its beginning to its end: each write begins where the one before it ends, and need not wait for
/// it. A write resolves when its bytes have been taken; what goes wrong on their way to the store is told by the next
/// write, or by `finish`. At most [`write_memory`](crate::RemoteSettings::write_memory) bytes are on their way.
pub struct RemoteSink {
    shared: Arc<Shared>,
    starter: Starter,
}

impl RemoteSink {
    pub(crate) fn new(
        backend: Box<dyn Backend>,
        server: Arc<Server>,
        device: Device,
        split: Split,
        stats: &Stats,
    ) -> Self {
        let shared = Arc::new(Shared::new(backend, server));
        let engine = Arc::new(SinkEngine::new(shared.clone()));
        let starter = Starter::new(engine, split, shared.backend.name(), device).with_stats(stats);
        Self { shared, starter }
    }

    /// What this sink is.
    pub fn describe(&self) -> Description {
        let backend = &self.shared.backend;
        Description::new(backend.name(), backend.kind(), "remote").with_capabilities(|c| c.write_in_order = true)
    }

    fn cannot(&self, what: &'static str, why: &'static str) -> Error {
        Error::unsupported(why).with_operation(what).with_source_name(self.shared.backend.name())
    }
}

impl AsyncDeviceWrite for RemoteSink {
    fn device(&self) -> &Device {
        self.starter.device()
    }

    fn describe(&self) -> Description {
        self.describe()
    }

    /// Writes `buf` behind what was written before; at any other offset it is
    /// [`Unsupported`](warpio_core::ErrorKind::Unsupported).
    fn write_at(&self, offset: u64, buf: DeviceBytes) -> Transfer<DeviceBytes> {
        let announced = Announced::new(self.shared.clone());
        let usable = buf.device() == self.starter.device() || buf.device().is_host_visible();
        if buf.is_empty() || !usable {
            // Nothing will come of it, nor is anything missing then.
            announced.came();
        } else if let Err(error) = self.shared.reserve(offset, buf.len()) {
            announced.came();
            let error = error.or_context("write", self.shared.backend.name(), offset, buf.len() as u64);
            return Transfer::failed(error, Some(buf));
        }
        self.starter.write(Arc::new(announced), offset, buf)
    }

    fn append(&self, buf: DeviceBytes) -> Transfer<DeviceBytes> {
        let why = "an object that is there cannot be written on; write a new one";
        Transfer::failed(self.cannot("append", why), Some(buf))
    }

    fn set_len(&self, _len: u64) -> BoxFuture<'_, Result<()>> {
        let why = "an object is as long as what was written; its length cannot be set";
        Box::pin(std::future::ready(Err(self.cannot("set_len", why))))
    }

    fn sync(&self) -> BoxFuture<'_, Result<()>> {
        let why = "an object is durable when it is finished, and not before";
        Box::pin(std::future::ready(Err(self.cannot("sync", why))))
    }

    fn finish(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let shared = self.shared.clone();
            let published = self.shared.server.net.run(async move { shared.publish().await }).await;
            published.map_err(|error| error.with_operation("finish").with_source_name(self.shared.backend.name()))
        })
    }
}

impl Drop for RemoteSink {
    fn drop(&mut self) {
        if !self.shared.is_published() {
            let cleanup = Cleanup::begin();
            let abandon = self.shared.clone().abandon();
            self.shared.server.net.spawn(async move {
                let _cleanup = cleanup;
                abandon.await;
            });
        }
    }
}

impl fmt::Debug for RemoteSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteSink").field("name", &self.shared.backend.name()).finish_non_exhaustive()
    }
}
