//! Transfers between files and GPU memory by cuFile.

mod align;
mod batch;
mod file;
mod options;
mod piece;
mod proof;
mod queue;
mod shared;
mod stream;
mod sync;
mod target;
mod verdict;
mod watch;

use std::fmt;
use std::sync::Arc;

use warpio_core::engine::{Batch, Engine};
use warpio_core::{Error, ErrorKind, Result};

use crate::driver::{Driver, GdsPath};
use batch::Batches;
use shared::Shared;
use stream::Streams;
use sync::Callers;

pub use file::CuFile;
pub use options::{EngineOptions, EngineStats, Route};
pub use target::CuFileTarget;

/// Carries out transfers between files and GPU memory by cuFile. Takes batches on [`CuFileTarget`]s.
///
/// What it cannot do, the target's other engine does: memory of the host, edges that are no whole block of 4 KiB, and
/// files that cuFile refuses or serves through host memory.
///
/// When it is dropped, its threads finish what was submitted and end; dropping does not wait for that.
pub struct CuFileEngine {
    shared: Arc<Shared>,
    path: Option<GdsPath>,
}

impl CuFileEngine {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported), with the reasons, where bytes would go through host memory, unless the
    /// options allow that; [`ResourceLimit`](ErrorKind::ResourceLimit) when no thread can be started.
    pub fn start(driver: &Driver, options: EngineOptions) -> Result<Self> {
        let availability = driver.availability()?;
        if !availability.is_on() && !options.allow_compat {
            let reasons: Vec<_> = availability.reasons.iter().map(ToString::to_string).collect();
            return Err(Error::new(ErrorKind::Unsupported)
                .with_message(format!("GPUDirect Storage is not available: {}", reasons.join("; "))));
        }
        let most = driver.properties()?.max_batch_entries().max(1) as usize;
        let options = EngineOptions { batch_depth: options.batch_depth.clamp(1, most), ..options };
        let (stall, route) = (options.stall, options.route);
        let shared = Arc::new(Shared::new(driver.clone(), options, availability.path));
        let engine = Self { shared, path: availability.path };
        engine.start_threads(stall, route).map_err(|error| {
            Error::new(ErrorKind::ResourceLimit).with_message("cannot start a thread for cuFile").with_cause(error)
        })?;
        Ok(engine)
    }

    fn start_threads(&self, stall: std::time::Duration, route: Route) -> std::io::Result<()> {
        // First the one that lets the others end.
        let watched = self.shared.clone();
        let watch = move || {
            watched.load.watch(stall / 4, || watched.look());
            watched.end();
        };
        std::thread::Builder::new().name("warpio-cufile-w".into()).spawn(watch)?;
        Callers::start(&self.shared)?;
        match route {
            Route::Auto | Route::Batch => Batches::start(&self.shared),
            Route::Stream => Streams::start(&self.shared),
            Route::Sync => Ok(()),
        }
    }

    /// The way that the driver says bytes take past host memory, if there is one.
    pub fn path(&self) -> Option<GdsPath> {
        self.path
    }

    /// The driver.
    pub fn driver(&self) -> &Driver {
        &self.shared.driver
    }

    /// What the engine did.
    pub fn stats(&self) -> EngineStats {
        self.shared.stats()
    }
}

impl Engine for CuFileEngine {
    fn submit(&self, batch: Batch) {
        let Some(target) = batch.target::<CuFileTarget>() else {
            return batch.fail(&Error::invalid_input("this engine serves files of cuFile only"));
        };
        if let Err(error) = self.shared.driver.check_process() {
            return batch.fail(&error.into());
        }
        self.shared.submit(&target, batch.into_parts().1);
    }

    fn name(&self) -> &'static str {
        "cufile"
    }
}

impl Drop for CuFileEngine {
    fn drop(&mut self) {
        // Never joined: the last handle may go on one of the threads, or on a tokio worker.
        self.shared.load.close();
    }
}

impl fmt::Debug for CuFileEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CuFileEngine")
            .field("driver", &self.shared.driver)
            .field("path", &self.path)
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}
