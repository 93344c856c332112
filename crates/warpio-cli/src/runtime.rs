//! What the commands run on.

use std::fs::File;
use std::io;

use rustix::io::Errno;
use warpio::config::CompatMode;
use warpio::{DeviceSpec, Runtime, RuntimeBuilder};

use crate::args::DeviceArgs;
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

/// The runtime of warpio, as options say, and where they are silent, as the environment does.
pub(crate) fn start(args: &DeviceArgs) -> Result<Runtime, Failure> {
    start_with(args, |builder| builder)
}

/// As [`start`], with more options.
pub(crate) fn start_with(
    args: &DeviceArgs,
    options: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder,
) -> Result<Runtime, Failure> {
    let builder = options(Runtime::builder());
    let builder = args.device.into_iter().fold(builder, |builder, device| builder.device(device));
    let builder = args.compat_mode.into_iter().fold(builder, |builder, mode| builder.compat_mode(mode));
    Ok(builder.build()?)
}

/// The runtime of warpio in host memory, where GPUDirect Storage has no part, whatever the environment asks for.
pub(crate) fn start_on_host() -> Result<Runtime, Failure> {
    start(&DeviceArgs { device: Some(DeviceSpec::Host), compat_mode: Some(CompatMode::On) })
}
