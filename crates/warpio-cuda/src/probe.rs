use std::error::Error as StdError;
use std::ffi::{CStr, c_char, c_int};
use std::fmt;

use warpio_core::{Error, ErrorKind, Result};

use crate::driver::{self, CudaError, Driver};
use crate::sysfs::{self, PcieLink};

/// Whether this process can use CUDA, found out once: a process does not gain or lose a driver.
///
/// ```
/// match warpio_cuda::probe() {
///     Ok(cuda) => println!("CUDA {} with {} devices", cuda.driver, cuda.devices),
///     Err(reason) => println!("no CUDA: {reason}"),
/// }
/// ```
///
/// # Errors
/// Why it cannot.
pub fn probe() -> Result<Capabilities, Unavailable> {
    let driver = Driver::get()?;
    Ok(Capabilities { driver: driver.version, devices: driver.devices })
}

/// What [`probe`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The newest CUDA that the driver supports.
    pub driver: DriverVersion,
    /// How many devices this process may use; at least one. `CUDA_VISIBLE_DEVICES` limits and orders them.
    pub devices: u32,
}

/// A version of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverVersion {
    /// The part before the point.
    pub major: u32,
    /// The part behind it.
    pub minor: u32,
}

impl DriverVersion {
    /// The oldest driver that has every function needed: `cuCtxGetId` came last, with 12.0.
    pub const OLDEST: Self = Self { major: 12, minor: 0 };

    pub(crate) fn from_number(number: c_int) -> Self {
        let number = u32::try_from(number).unwrap_or(0);
        Self { major: number / 1000, minor: number % 1000 / 10 }
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Why this process cannot use CUDA.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailable {
    /// libcuda is not installed, or cannot be loaded.
    NoDriver,
    /// The driver supports only this version, older than [`DriverVersion::OLDEST`].
    TooOld {
        /// What the driver supports.
        version: DriverVersion,
    },
    /// libcuda lacks a function; something else may have been installed under its name.
    MissingFunction {
        /// The function.
        function: &'static str,
    },
    /// The driver works, but sees no device: there is none, or `CUDA_VISIBLE_DEVICES` hides them all.
    NoDevice,
    /// The driver was initialised in a parent of this process. It cannot be used after a fork.
    Forked,
    /// The driver could not be initialised.
    Driver(CudaError),
}

impl Unavailable {
    pub(crate) fn from_init(error: CudaError) -> Self {
        if error.code() == 100 { Self::NoDevice } else { Self::Driver(error) }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDriver => f.write_str("no driver: libcuda could not be loaded"),
            Self::TooOld { version } => {
                write!(f, "the driver is too old: it supports CUDA {version}, but {} is needed", DriverVersion::OLDEST)
            }
            Self::MissingFunction { function } => write!(f, "the driver lacks the function {function}"),
            Self::NoDevice => f.write_str("no device: the driver sees none that this process may use"),
            Self::Forked => f.write_str(
                "this process was forked after CUDA was initialised, and CUDA does not work in such a process: fork \
                 first, or start the process anew",
            ),
            Self::Driver(error) => write!(f, "the driver cannot be used: {error}"),
        }
    }
}

impl StdError for Unavailable {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Driver(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Unavailable> for Error {
    fn from(reason: Unavailable) -> Self {
        Error::new(ErrorKind::NoDevice).with_message("CUDA is not available").with_cause(reason)
    }
}

/// What a device is. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Its number for [`cuda_device`](crate::cuda_device).
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// The size of its memory.
    pub memory: u64,
    /// Its compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Where it sits on the PCI bus, such as `0000:65:00.0`.
    pub pci_bus_id: String,
    /// The link it is connected by, where the system tells.
    pub pcie: Option<PcieLink>,
    /// The most that this link can do, where the system tells; an idle link may run slower.
    pub pcie_max: Option<PcieLink>,
    /// The NUMA node it is close to, where the system tells.
    pub numa_node: Option<u32>,
}

/// The devices that this process may use.
///
/// # Errors
/// [`NoDevice`](ErrorKind::NoDevice) with the reason of [`probe`], and what the driver reports.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    let driver = Driver::get()?;
    (0..driver.devices).map(|ordinal| info(driver, ordinal)).collect()
}

fn info(driver: &Driver, ordinal: u32) -> Result<DeviceInfo> {
    let device = device_at(driver, ordinal)?;
    let mut memory = 0usize;
    // SAFETY: a valid place for the result, and a device that exists.
    let code = unsafe { (driver.cuDeviceTotalMem_v2)(&mut memory, device) };
    driver.check(code, "cuDeviceTotalMem").map_err(CudaError::into_error)?;
    let attribute = |attribute| attribute_of(driver, device, attribute).map(|value| u32::try_from(value).unwrap_or(0));
    let pci_bus_id = pci_bus_id(driver, device)?;
    Ok(DeviceInfo {
        ordinal,
        name: text(driver, "cuDeviceGetName", driver.cuDeviceGetName, device)?,
        memory: memory as u64,
        compute_capability: (
            attribute(driver::ATTRIBUTE_CAPABILITY_MAJOR)?,
            attribute(driver::ATTRIBUTE_CAPABILITY_MINOR)?,
        ),
        pcie: sysfs::pcie_link(&pci_bus_id),
        pcie_max: sysfs::pcie_link_max(&pci_bus_id),
        numa_node: sysfs::numa_node(&pci_bus_id),
        pci_bus_id,
    })
}

/// The device with this number.
pub(crate) fn device_at(driver: &Driver, ordinal: u32) -> Result<c_int> {
    if ordinal >= driver.devices {
        let (n, plural) = (driver.devices, if driver.devices == 1 { "" } else { "s" });
        let last = n - 1;
        return Err(Error::new(ErrorKind::NoDevice).with_message(format!(
            "there is no CUDA device {ordinal}: this process may use {n} device{plural}, 0 to {last}"
        )));
    }
    let mut device = 0;
    // SAFETY: a valid place for the result.
    let code = unsafe { (driver.cuDeviceGet)(&mut device, ordinal as c_int) };
    driver.check(code, "cuDeviceGet").map_err(CudaError::into_error)?;
    Ok(device)
}

pub(crate) fn attribute_of(driver: &Driver, device: c_int, attribute: c_int) -> Result<c_int> {
    let mut value = 0;
    // SAFETY: a valid place for the result, and a device that exists.
    let code = unsafe { (driver.cuDeviceGetAttribute)(&mut value, attribute, device) };
    driver.check(code, "cuDeviceGetAttribute").map_err(CudaError::into_error)?;
    Ok(value)
}

pub(crate) fn pci_bus_id(driver: &Driver, device: c_int) -> Result<String> {
    text(driver, "cuDeviceGetPCIBusId", driver.cuDeviceGetPCIBusId, device).map(|id| id.to_ascii_lowercase())
}

fn text(
    driver: &Driver,
    call: &'static str,
    function: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
    device: c_int,
) -> Result<String> {
    let mut buffer = [0u8; 256];
    // SAFETY: the buffer has the length that is passed, and the device exists.
    let code = unsafe { function(buffer.as_mut_ptr().cast(), buffer.len() as c_int, device) };
    driver.check(code, call).map_err(CudaError::into_error)?;
    let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
    Ok(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        let version = |number| DriverVersion::from_number(number);
        assert_eq!(version(13_000).to_string(), "13.0");
        assert_eq!(version(12_080).to_string(), "12.8");
        assert!(version(11_080) < DriverVersion::OLDEST && version(12_000) >= DriverVersion::OLDEST);
        assert_eq!(version(-1), DriverVersion { major: 0, minor: 0 });
    }

    #[test]
    fn a_reason_becomes_an_error_that_says_it() {
        let error = Error::from(Unavailable::TooOld { version: DriverVersion { major: 11, minor: 8 } });
        assert_eq!(error.kind(), ErrorKind::NoDevice);
        assert!(error.to_string().contains("11.8"), "{error}");
    }
}
