use std::io;
use std::sync::Arc;

use crate::engine::DirectPolicy;
use tokio::runtime::Handle;
use warpio_core::engine::{Engine, Starter, Stats};
use warpio_core::plan::Split;
use warpio_core::{Device, Error, ErrorKind, Result};

/// What the files of one runtime share.
#[derive(Clone, Debug)]
pub struct FileContext {
    /// The engine that carries their transfers out.
    pub engine: Arc<dyn Engine>,
    /// How their transfers are cut.
    pub split: Split,
    /// The device that they read into by default.
    pub device: Device,
    /// The tokio runtime whose blocking threads open, sync and close files.
    pub handle: Handle,
    /// Where their transfers are counted.
    pub stats: Stats,
    /// Whether their transfers go past the page cache.
    pub policy: DirectPolicy,
    /// Up to how many bytes between two ranges of one read are read with them.
    pub gap: u64,
}

impl FileContext {
    pub(crate) fn starter(&self, name: &str) -> Starter {
        Starter::new(self.engine.clone(), self.split, name, self.device.clone()).with_stats(&self.stats)
    }

    /// Runs a call that may wait for the disk on a thread that may.
    pub(crate) async fn blocking<T: Send + 'static>(
        handle: &Handle,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match handle.spawn_blocking(call).await {
            Ok(result) => result,
            Err(error) if error.is_panic() => Err(Error::new(ErrorKind::Io).with_cause(error)),
            Err(_) => Err(Error::new(ErrorKind::Gone).with_message("the tokio runtime of this file has ended")),
        }
    }
}

/// An error of a call on a named file.
pub(crate) fn named(error: impl Into<io::Error>, operation: &'static str, name: &str) -> Error {
    Error::from(error.into()).with_operation(operation).with_source_name(name)
}
