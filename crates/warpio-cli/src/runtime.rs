//! What the commands run on.

use std::fs::File;
use std::io;

use rustix::io::Errno;
use warpio::{DeviceSpec, Runtime, RuntimeBuilder};

use crate::failure::Failure;

/// As many descriptors as the program needs before it opens the first file of the user's.
const DESCRIPTORS: usize = 16;

/// The tokio runtime. One thread is enough: it only waits, and what moves bytes has threads of its own.
pub(crate) fn tokio() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("the program cannot start: {error}; check the limits (ulimit -a)")))
}

/// Some of what follows panics where there are no descriptors left, so it is tried before.
pub(crate) fn check_descriptors() -> Result<(), Failure> {
    let opened: io::Result<Vec<File>> = (0..DESCRIPTORS).map(|_| File::open("/dev/null")).collect();
    match opened {
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE)) => Err(Failure::new(
            format!("{DESCRIPTORS} file descriptors are needed: {error}; raise the limit (ulimit -n)"),
        )),
        // Without /dev/null nothing is known.
        _ => Ok(()),
    }
}

/// The runtime of warpio, reading into `device`, or into what the environment says.
pub(crate) fn start(device: Option<DeviceSpec>) -> Result<Runtime, Failure> {
    start_with(device, |builder| builder)
}

/// As [`start`], with settings that were given as options, which go before the environment.
pub(crate) fn start_with(
    device: Option<DeviceSpec>,
    options: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder,
) -> Result<Runtime, Failure> {
    let builder = options(Runtime::builder());
    let builder = match device {
        Some(device) => builder.device(device),
        None => builder,
    };
    Ok(builder.build()?)
}
