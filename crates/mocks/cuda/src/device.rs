//! Devices: how many there are, what they are called, how much memory they have.

use std::{
    collections::BTreeMap,
    env,
    ffi::{c_char, c_int},
};

use crate::{
    attributes,
    codes::{Code, Result},
    context::Context,
    ffi::{Out, Text},
    pool::Pool,
    space::Space,
    state::{State, api},
    table::Handle,
};

/// Devices without `MOCK_CUDA_DEVICES`.
const DEVICES: usize = 2;
/// Memory of a device without a `memory` command.
pub(crate) const CAPACITY: u64 = 8 << 30;
/// No machine has this PCI domain, so that nobody finds a real device's data under a mock's bus id.
pub(crate) const PCI_DOMAIN: c_int = 0xffff;

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    /// Its number before `CUDA_VISIBLE_DEVICES` picked.
    pub(crate) physical: usize,
    pub(crate) primary: Handle,
    pub(crate) space: Space,
    pub(crate) capacity: u64,
    /// Bytes allocated outside of the pools.
    pub(crate) direct: u64,
    pub(crate) default_pool: Handle,
    /// The pool of `cuMemAllocAsync`.
    pub(crate) pool: Handle,
    /// Attributes that a test has set.
    pub(crate) overrides: BTreeMap<c_int, c_int>,
}

impl Device {
    fn uuid(&self) -> [u8; 16] {
        let mut uuid = *b"mock-cuda-gpu-00";
        uuid[15] += self.physical as u8;
        uuid
    }

    fn pci_bus_id(&self) -> String {
        format!("{PCI_DOMAIN:04X}:{:02X}:00.0", self.physical + 1)
    }
}

/// The text of a UUID as `CUDA_VISIBLE_DEVICES` takes it.
fn uuid_text(uuid: [u8; 16]) -> String {
    let hex: Vec<String> = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "GPU-{}-{}-{}-{}-{}",
        hex[..4].concat(),
        hex[4..6].concat(),
        hex[6..8].concat(),
        hex[8..10].concat(),
        hex[10..].concat()
    )
}

/// Puts the devices into a new state.
pub(crate) fn install(state: &mut State) {
    let count = env::var("MOCK_CUDA_DEVICES").ok().and_then(|text| text.trim().parse().ok()).unwrap_or(DEVICES);
    let mut present = Vec::new();
    for physical in 0..count {
        match Space::new() {
            Ok(space) => present.push(Device {
                physical,
                primary: 0,
                space,
                capacity: CAPACITY,
                direct: 0,
                default_pool: 0,
                pool: 0,
                overrides: BTreeMap::new(),
            }),
            Err(error) => eprintln!("mock-cuda: no device {physical}: {error}"),
        }
    }
    let uuids: Vec<String> = present.iter().map(|device| uuid_text(device.uuid())).collect();
    let mask = env::var("CUDA_VISIBLE_DEVICES").ok();
    let mut present: BTreeMap<usize, Device> = present.into_iter().enumerate().collect();
    for number in visible(&uuids, mask.as_deref()) {
        let Some(mut device) = present.remove(&number) else {
            continue;
        };
        let index = state.devices.len();
        device.primary = state.contexts.insert(Context::new(index, true, 0));
        device.default_pool = state.pools.insert(Pool::new(index, true, 0));
        device.pool = device.default_pool;
        state.devices.push(device);
    }
}

/// Which devices `CUDA_VISIBLE_DEVICES` lets through, and in which order: those named before the first invalid name.
fn visible(uuids: &[String], mask: Option<&str>) -> Vec<usize> {
    let Some(mask) = mask else {
        return (0..uuids.len()).collect();
    };
    let mut picked = Vec::new();
    for name in mask.split(',').map(str::trim) {
        let found = match name.parse::<usize>() {
            Ok(number) => (number < uuids.len()).then_some(number),
            Err(_) if name.starts_with("GPU-") => uuids.iter().position(|uuid| uuid.starts_with(name)),
            Err(_) => None,
        };
        match found {
            // A device named twice hides them all.
            Some(number) if picked.contains(&number) => return Vec::new(),
            Some(number) => picked.push(number),
            None => break,
        }
    }
    picked
}

impl State {
    /// The index that a `CUdevice` stands for.
    pub(crate) fn device_index(&self, device: c_int) -> Result<usize> {
        usize::try_from(device).ok().filter(|index| *index < self.devices.len()).ok_or(Code::INVALID_DEVICE)
    }

    fn device(&self, device: c_int) -> Result<&Device> {
        Ok(&self.devices[self.device_index(device)?])
    }
}

/// The device with an ordinal.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(out: Out<c_int>, ordinal: c_int) -> c_int {
    api("cuDeviceGet", |gpu| out.set(gpu.device_index(ordinal)? as c_int))
}

/// How many devices there are.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(out: Out<c_int>) -> c_int {
    api("cuDeviceGetCount", |gpu| out.set(gpu.devices.len() as c_int))
}

/// The name of a device.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetName(out: Out<c_char>, len: c_int, device: c_int) -> c_int {
    api("cuDeviceGetName", |gpu| {
        let device = gpu.device(device)?;
        out.set_text(len, &format!("Mock GPU {}", device.physical))
    })
}

/// The identifier of a device.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid(out: Out<[u8; 16]>, device: c_int) -> c_int {
    api("cuDeviceGetUuid", |gpu| out.set(gpu.device(device)?.uuid()))
}

/// The identifier of a device.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid_v2(out: Out<[u8; 16]>, device: c_int) -> c_int {
    api("cuDeviceGetUuid_v2", |gpu| out.set(gpu.device(device)?.uuid()))
}

/// The memory of a device in bytes.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceTotalMem_v2(out: Out<usize>, device: c_int) -> c_int {
    api("cuDeviceTotalMem_v2", |gpu| out.set(gpu.device(device)?.capacity as usize))
}

/// A property of a device.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(out: Out<c_int>, attribute: c_int, device: c_int) -> c_int {
    api("cuDeviceGetAttribute", |gpu| {
        let device = gpu.device(device)?;
        let set = device.overrides.get(&attribute).copied();
        let value = set.or_else(|| attributes::value(device, attribute));
        out.set(value.ok_or(Code::INVALID_VALUE)?)
    })
}

/// The compute capability of a device.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceComputeCapability(major: Out<c_int>, minor: Out<c_int>, device: c_int) -> c_int {
    api("cuDeviceComputeCapability", |gpu| {
        gpu.device(device)?;
        major.set(attributes::CAPABILITY.0)?;
        minor.set(attributes::CAPABILITY.1)
    })
}

/// The PCI address of a device.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetPCIBusId(out: Out<c_char>, len: c_int, device: c_int) -> c_int {
    api("cuDeviceGetPCIBusId", |gpu| out.set_text(len, &gpu.device(device)?.pci_bus_id()))
}

/// The device at a PCI address.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetByPCIBusId(out: Out<c_int>, id: Text) -> c_int {
    api("cuDeviceGetByPCIBusId", |gpu| {
        let id = id.get()?;
        let found = gpu.devices.iter().position(|device| device.pci_bus_id().eq_ignore_ascii_case(&id));
        out.set(found.ok_or(Code::INVALID_VALUE)? as c_int)
    })
}

/// Whether one device can reach the memory of another: any two can.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceCanAccessPeer(out: Out<c_int>, device: c_int, peer: c_int) -> c_int {
    api("cuDeviceCanAccessPeer", |gpu| {
        let different = gpu.device_index(device)? != gpu.device_index(peer)?;
        out.set(c_int::from(different))
    })
}

/// A property of the link between two devices.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetP2PAttribute(out: Out<c_int>, attribute: c_int, source: c_int, target: c_int) -> c_int {
    const ACCESS_SUPPORTED: c_int = 2;
    api("cuDeviceGetP2PAttribute", |gpu| {
        if gpu.device_index(source)? == gpu.device_index(target)? {
            return Err(Code::INVALID_DEVICE);
        }
        match attribute {
            1..=4 => out.set(c_int::from(attribute == ACCESS_SUPPORTED)),
            _ => Err(Code::INVALID_VALUE),
        }
    })
}

/// Free and total memory of the current context's device.
#[unsafe(no_mangle)]
extern "C" fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) -> c_int {
    api("cuMemGetInfo_v2", |gpu| {
        let device = gpu.device_of(gpu.current()?)?;
        free.set(gpu.free_bytes(device) as usize)?;
        total.set(gpu.devices[device].capacity as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_picks_and_orders() {
        let uuids: Vec<String> = (0..3).map(|number| format!("GPU-{number}0-0-0-0-0")).collect();
        let pick = |mask| visible(&uuids, mask);
        assert_eq!(pick(None), [0, 1, 2]);
        assert_eq!(pick(Some("2,0")), [2, 0]);
        assert_eq!(pick(Some(" 1 ,9,0")), [1]);
        assert_eq!(pick(Some("GPU-2")), [2]);
        assert_eq!(pick(Some("")), []);
        assert_eq!(pick(Some("-1")), []);
        assert_eq!(pick(Some("1,1")), []);
    }

    #[test]
    fn a_uuid_has_the_usual_form() {
        assert_eq!(uuid_text(*b"mock-cuda-gpu-00"), "GPU-6d6f636b-2d63-7564-612d-6770752d3030");
    }
}
