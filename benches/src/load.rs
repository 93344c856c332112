//! A whole file, as a user loads it.

use std::path::Path;

use warpio::{AsyncDeviceReadExt, DeviceBytesMut, Result, Runtime};

use crate::clock::{Clock, Cost};

/// Reads the whole file into `buffer`, opening it anew as the peers do.
///
/// # Errors
/// What warpio reports.
pub async fn load(rt: &Runtime, path: &Path, buffer: DeviceBytesMut) -> Result<(Cost, DeviceBytesMut)> {
    let clock = Clock::start();
    let source = rt.open(path).await?;
    let buffer = source.read_exact_at(0, buffer).await?;
    Ok((clock.stop(), buffer))
}
