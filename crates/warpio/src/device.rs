//! Which devices there are, and which one a runtime reads into.

use warpio_core::config::DeviceSpec;
use warpio_core::{Device, Error, ErrorKind, PoolConfig, Result};

/// The device that `spec` names, with a staging pool of its own.
///
/// # Errors
/// [`NoDevice`](ErrorKind::NoDevice) when a GPU was asked for and is not there, with the reason. `auto` takes host
/// memory then.
pub fn open(spec: DeviceSpec, pool: PoolConfig) -> Result<Device> {
    match spec {
        DeviceSpec::Host => Ok(Device::host_with(pool)),
        DeviceSpec::Cuda(ordinal) => cuda(ordinal, pool),
        DeviceSpec::Auto => match gpus() {
            Ok(_) => cuda(0, pool),
            Err(reason) => {
                tracing::debug!(%reason, "no GPU, so host memory it is");
                Ok(Device::host_with(pool))
            }
        },
    }
}

/// How many GPUs this process can use.
///
/// # Errors
/// Why it can use none, as a text for people.
#[cfg(feature = "cuda")]
pub fn gpus() -> Result<u32, String> {
    warpio_cuda::probe().map(|cuda| cuda.devices).map_err(|reason| reason.to_string())
}

/// How many GPUs this process can use.
///
/// # Errors
/// Why it can use none, as a text for people.
#[cfg(not(feature = "cuda"))]
pub fn gpus() -> Result<u32, String> {
    Err("this build of warpio has no CUDA; build it with the feature \"cuda\"".to_owned())
}

#[cfg(feature = "cuda")]
fn cuda(ordinal: u32, pool: PoolConfig) -> Result<Device> {
    let options = warpio_cuda::CudaOptions { pool, ..Default::default() };
    warpio_cuda::cuda_device(ordinal, options).map_err(|error| missing(ordinal, error))
}

#[cfg(not(feature = "cuda"))]
fn cuda(ordinal: u32, _: PoolConfig) -> Result<Device> {
    Err(missing(ordinal, Error::new(ErrorKind::NoDevice).with_message(gpus().err().unwrap_or_default())))
}

/// Says which device was asked for, and what else can be.
fn missing(ordinal: u32, error: Error) -> Error {
    if error.kind() != ErrorKind::NoDevice {
        return error;
    }
    Error::new(ErrorKind::NoDevice)
        .with_message(format!("cuda:{ordinal} cannot be used; choose another device, or host"))
        .with_cause(error)
}
