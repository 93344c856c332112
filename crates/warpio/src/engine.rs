//! Which engines carry out the transfers of local files.

use std::sync::Arc;

use warpio_core::config::{Config, EngineChoice, Switch};
use warpio_core::engine::Engine;
use warpio_core::{Device, Error, ErrorKind, Result};
use warpio_local::engine::{AutoEngine, DirectThreads, PosixEngine, RingOptions, TokioUringEngine, UringEngine};

/// Threads for direct I/O where there is no ring: as many as a virtual disk serves at once.
const DIRECT_THREADS: usize = 16;

/// The engines of a runtime, as one.
#[derive(Debug)]
pub(crate) struct Engines {
    pub(crate) engine: Arc<dyn Engine>,
    /// Why it is not io_uring, if it might have been.
    pub(crate) no_io_uring: Option<String>,
    /// GPUDirect Storage.
    #[cfg(feature = "cufile")]
    pub(crate) gds: Arc<crate::gds::Gds>,
}

/// The engines that the configuration asks for, with a cuFile driver that is open already, if there is one.
#[cfg(feature = "cufile")]
pub(crate) fn start(config: &Config, device: &Device, driver: Option<warpio_cufile::Driver>) -> Result<Engines> {
    let gds = crate::gds::Gds::start(config, device, driver)?;
    let (uncached, no_io_uring) = uncached(config, device)?;
    let engine = gds.around(local(config, gds.before(uncached))?);
    Ok(Engines { engine, no_io_uring, gds })
}

/// The engines that the configuration asks for.
#[cfg(not(feature = "cufile"))]
pub(crate) fn start(config: &Config, device: &Device) -> Result<Engines> {
    check_compat(*config.compat_mode.get())?;
    let (uncached, no_io_uring) = uncached(config, device)?;
    Ok(Engines { engine: local(config, uncached)?, no_io_uring })
}

/// Refuses to promise what this build does not have.
#[cfg(not(feature = "cufile"))]
pub(crate) fn check_compat(mode: warpio_core::config::CompatMode) -> Result<()> {
    if mode != warpio_core::config::CompatMode::Off {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Unsupported).with_message(
        "GPUDirect Storage was asked for (compat_mode=off), and this build of warpio has no cuFile; build it with the \
         feature \"cufile\"",
    ))
}

/// Cached bytes by copy threads, others by `uncached`.
fn local(config: &Config, uncached: Arc<dyn Engine>) -> Result<Arc<dyn Engine>> {
    let copies = PosixEngine::start_beside(*config.threads.get(), Some(uncached.clone())).map_err(no_thread)?;
    Ok(Arc::new(AutoEngine::new(copies, uncached)))
}

fn uncached(config: &Config, device: &Device) -> Result<(Arc<dyn Engine>, Option<String>)> {
    let choice = *config.engine.get();
    let refusal = match (choice, *config.io_uring.get()) {
        (EngineChoice::Posix, _) => "the engine posix was asked for".to_owned(),
        (_, Switch::Off) => "io_uring was switched off by the setting io_uring".to_owned(),
        (EngineChoice::TokioUring, Switch::Auto) => match TokioUringEngine::start(&options(device)) {
            Ok(engine) => return Ok((Arc::new(engine), None)),
            Err(error) => error.to_string(),
        },
        (_, Switch::Auto) => match UringEngine::start(&options(device)) {
            Ok(engine) => return Ok((Arc::new(engine), None)),
            Err(error) => error.to_string(),
        },
    };
    if matches!(choice, EngineChoice::IoUring | EngineChoice::TokioUring) {
        return Err(Error::new(ErrorKind::Unsupported)
            .with_message(format!("the engine {choice} was asked for, but {refusal}; choose auto or posix")));
    }
    tracing::debug!(reason = refusal, "threads instead of io_uring");
    Ok((Arc::new(DirectThreads::start(DIRECT_THREADS).map_err(no_thread)?), Some(refusal)))
}

fn options(device: &Device) -> RingOptions {
    RingOptions { fixed: device.staging().slabs(), ..RingOptions::default() }
}

fn no_thread(error: std::io::Error) -> Error {
    Error::new(ErrorKind::ResourceLimit).with_message("cannot start a thread for I/O").with_cause(error)
}
