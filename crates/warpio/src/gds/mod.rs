//! GPUDirect Storage: whether it is on, and what goes by it.
//!
//! Opening cuFile takes half a second, so a thread of its own does it, and transfers go by our own engines until it is
//! done. Where GPUDirect Storage is demanded, whoever demands it waits.

mod engine;
mod open;

use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;
use warpio_core::config::{CompatMode, Config, CuFileApi};
use warpio_core::engine::Engine;
use warpio_core::{Device, Error, ErrorKind, Result};
use warpio_cufile::{CuFileEngine, Driver, EngineOptions, GdsPath, Route};

pub(crate) use engine::{Outer, Uncached};

/// The cuFile engine of a runtime, or why it has none.
pub(crate) struct Gds {
    state: OnceLock<Result<Arc<CuFileEngine>>>,
    known: Notify,
    /// Shorter transfers go another way.
    threshold: u64,
}

impl Gds {
    /// What the settings ask for. Where GPUDirect Storage is demanded, this waits for it.
    ///
    /// # Errors
    /// Why it is not there, if it is demanded.
    pub(crate) fn start(config: &Config, device: &Device, driver: Option<Driver>) -> Result<Arc<Self>> {
        let gds =
            Arc::new(Self { state: OnceLock::new(), known: Notify::new(), threshold: *config.gds_threshold.get() });
        let options = options(*config.cufile_api.get());
        let mode = *config.compat_mode.get();
        match (mode, driver) {
            (CompatMode::On, _) => gds.set(Err(off("the setting compat_mode is on"))),
            _ if device.id().kind != "cuda" => gds.set(Err(off("the runtime's device is no GPU"))),
            (_, Some(driver)) => gds.set(CuFileEngine::start(&driver, options)),
            (CompatMode::Off, None) => gds.set(open::engine(config, device, options)),
            (CompatMode::Auto, None) => open::later(&gds, config, device, options),
        }
        if mode == CompatMode::Off {
            gds.demand()?;
        }
        Ok(gds)
    }

    fn set(&self, engine: Result<CuFileEngine>) {
        if let Err(reason) = &engine {
            tracing::debug!(%reason, "no GPUDirect Storage");
        }
        // The first word counts.
        let _ = self.state.set(engine.map(Arc::new));
        self.known.notify_waiters();
    }

    /// The engine, if it is there already.
    fn engine(&self) -> Option<&Arc<CuFileEngine>> {
        self.state.get()?.as_ref().ok()
    }

    fn demand(&self) -> Result<GdsPath> {
        self.engine().and_then(|engine| engine.path()).ok_or_else(|| self.missing())
    }

    /// What whoever demands GPUDirect Storage is told where it is not.
    fn missing(&self) -> Error {
        let reason = match self.state.get() {
            Some(Err(reason)) => reason.clone(),
            Some(Ok(_)) => off("the driver has no way past host memory"),
            None => off("cuFile is not open yet"),
        };
        Error::new(ErrorKind::Unsupported)
            .with_message("GPUDirect Storage was asked for (compat_mode=off) and is not available")
            .with_cause(reason)
    }

    /// Waits until it is known whether GPUDirect Storage is on: the way that bytes take, or why it is not.
    pub(crate) async fn path(&self) -> Result<GdsPath> {
        loop {
            // Enlisted before the look, so that the word cannot come in between unheard.
            let mut known = std::pin::pin!(self.known.notified());
            known.as_mut().enable();
            match self.state.get() {
                Some(Ok(_)) => return self.demand(),
                Some(Err(reason)) => return Err(reason.clone()),
                None => known.await,
            }
        }
    }

    /// Waits for GPUDirect Storage if a file demands it.
    pub(crate) async fn check(&self, mode: CompatMode) -> Result<()> {
        if mode == CompatMode::Off {
            let _ = self.path().await;
            self.demand()?;
        }
        Ok(())
    }

    /// `uncached` with cuFile before it, for what the page cache does not serve.
    pub(crate) fn before(self: &Arc<Self>, uncached: Arc<dyn Engine>) -> Arc<dyn Engine> {
        Arc::new(Uncached::new(self.clone(), uncached))
    }

    /// `engine` with cuFile before it, for writes, and for files of which everything goes by cuFile.
    pub(crate) fn around(self: &Arc<Self>, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        Arc::new(Outer::new(self.clone(), engine))
    }
}

fn off(why: &'static str) -> Error {
    Error::new(ErrorKind::Unsupported).with_message(why)
}

fn options(api: CuFileApi) -> EngineOptions {
    let mut options = EngineOptions::default();
    options.route = match api {
        CuFileApi::Auto => Route::Auto,
        CuFileApi::Sync => Route::Sync,
        CuFileApi::Batch => Route::Batch,
        CuFileApi::Stream => Route::Stream,
    };
    options
}

impl fmt::Debug for Gds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gds").field("state", &self.state).field("threshold", &self.threshold).finish_non_exhaustive()
    }
}
