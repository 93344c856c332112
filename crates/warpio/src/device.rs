//! Which device a runtime reads into.

use warpio_core::config::{Config, DeviceSpec};
use warpio_core::{Device, Error, ErrorKind, Result};

/// The device that the configuration asks for.
pub(crate) fn select(config: &Config) -> Result<Device> {
    match *config.device.get() {
        DeviceSpec::Auto | DeviceSpec::Host => Ok(Device::host_with(config.pool())),
        DeviceSpec::Cuda(ordinal) => Err(Error::new(ErrorKind::NoDevice).with_message(format!(
            "cuda:{ordinal} was asked for, but this build of warpio has no CUDA; build it with the feature \"cuda\", or \
             use --device host"
        ))),
    }
}
