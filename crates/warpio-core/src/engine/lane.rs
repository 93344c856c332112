use std::sync::atomic::{AtomicU64, Ordering};

use crate::Result;
use crate::device::{Device, DeviceId, DeviceStream};
use crate::sync::{Mutex, lock};

/// A copy stream of one worker on one device.
#[derive(Clone, Debug)]
pub struct Lane {
    id: u64,
    device: Device,
    stream: DeviceStream,
}

impl Lane {
    /// A new copy stream on `device`.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn new(device: &Device) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Self { id, device: device.clone(), stream: device.new_stream()? })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The copy stream.
    pub fn stream(&self) -> &DeviceStream {
        &self.stream
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }
}

/// The copy streams of one worker, one a device, made at first use.
#[derive(Debug, Default)]
pub struct Lanes(Vec<(DeviceId, Lane)>);

impl Lanes {
    /// The worker's copy stream on `device`.
    ///
    /// # Errors
    /// What the driver reports when the stream is made.
    pub fn get(&mut self, device: &Device) -> Result<&Lane> {
        let id = device.id();
        let at = match self.0.iter().position(|(known, _)| *known == id) {
            Some(at) => at,
            None => {
                self.0.push((id, Lane::new(device)?));
                self.0.len() - 1
            }
        };
        Ok(&self.0[at].1)
    }
}

/// Copy streams, one a device, that several threads share.
#[derive(Debug, Default)]
pub struct LanePool(Mutex<Lanes>);

impl LanePool {
    /// The copy stream on `device`.
    ///
    /// # Errors
    /// What the driver reports when the stream is made.
    pub fn get(&self, device: &Device) -> Result<Lane> {
        lock(&self.0).get(device).cloned()
    }
}
