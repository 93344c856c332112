//! Which engines carry out the transfers of local files.

use std::sync::Arc;

use warpio_core::config::{Config, EngineChoice, Switch};
use warpio_core::engine::Engine;
use warpio_core::{Device, Error, ErrorKind, Result};
use warpio_local::engine::{AutoEngine, DirectThreads, PosixEngine, RingOptions, TokioUringEngine, UringEngine};

/// Threads for direct I/O where there is no ring: as many as a virtual disk serves at once.
const DIRECT_THREADS: usize = 16;

/// The engines that the configuration asks for, as one, and why it is not io_uring if it might have been.
pub(crate) fn start(config: &Config, device: &Device) -> Result<(Arc<dyn Engine>, Option<String>)> {
    let (uncached, reason) = uncached(config, device)?;
    let copies = PosixEngine::start_beside(*config.threads.get(), Some(uncached.clone())).map_err(no_thread)?;
    Ok((Arc::new(AutoEngine::new(copies, uncached)), reason))
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
