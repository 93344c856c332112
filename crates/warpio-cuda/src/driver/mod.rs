//! The CUDA driver of this process: found once, and called through a table of functions.

mod code;
mod fork;
mod table;

use std::ffi::c_int;
use std::sync::OnceLock;

pub use code::CudaError;
pub(crate) use code::{CAPTURE_IMPLICIT, CAPTURE_UNSUPPORTED, NOT_READY, NOT_SUPPORTED, OUT_OF_MEMORY, is_sticky};
pub(crate) use table::*;
use warpio_core::Result;

use crate::probe::{DriverVersion, Unavailable};

/// The driver, initialised.
pub(crate) struct Driver {
    table: Table,
    pub(crate) version: DriverVersion,
    pub(crate) devices: u32,
}

impl std::ops::Deref for Driver {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl Driver {
    /// The driver of this process, looked for at the first call.
    pub(crate) fn get() -> Result<&'static Self, Unavailable> {
        static DRIVER: OnceLock<Result<Driver, Unavailable>> = OnceLock::new();
        let driver = DRIVER.get_or_init(Self::find).as_ref().map_err(Clone::clone)?;
        if fork::is_child() { Err(Unavailable::Forked) } else { Ok(driver) }
    }

    fn find() -> Result<Self, Unavailable> {
        // SAFETY: only opens libraries; those named are the driver, whose initialisers may run on any thread.
        if !unsafe { cudarc::driver::sys::is_culib_present() } {
            return Err(Unavailable::NoDriver);
        }
        let missing = |function| Unavailable::MissingFunction { function };
        // SAFETY: it is there.
        let (version, code) = unsafe { driver_version() }.map_err(missing)?;
        let version = DriverVersion::from_number(version);
        if code == 0 && version < DriverVersion::OLDEST {
            return Err(Unavailable::TooOld { version });
        }
        // SAFETY: it is there.
        let table = unsafe { Table::load() }.map_err(missing)?;
        let answer = |code, call| if code == 0 { Ok(()) } else { Err(CudaError::new(&table, code, call)) };
        answer(code, "cuDriverGetVersion").map_err(Unavailable::Driver)?;
        // From here on the process must not use CUDA in a forked child.
        fork::watch();
        let mut devices = 0;
        // SAFETY: flags must be zero, and are.
        let code = unsafe { (table.cuInit)(0) };
        answer(code, "cuInit").map_err(Unavailable::from_init)?;
        // SAFETY: a valid place for the result.
        let code = unsafe { (table.cuDeviceGetCount)(&mut devices) };
        answer(code, "cuDeviceGetCount").map_err(Unavailable::from_init)?;
        match u32::try_from(devices) {
            Ok(0) | Err(_) => Err(Unavailable::NoDevice),
            Ok(devices) => Ok(Self { table, version, devices }),
        }
    }

    /// Success, or what the code of a `call` means.
    pub(crate) fn check(&self, code: c_int, call: &'static str) -> Result<(), CudaError> {
        if code == 0 { Ok(()) } else { Err(self.error(code, call)) }
    }

    /// What the code of a `call` means.
    pub(crate) fn error(&self, code: c_int, call: &'static str) -> CudaError {
        CudaError::new(&self.table, code, call)
    }

    /// Refuses a child that was forked after the driver was initialised: nothing of it works there.
    pub(crate) fn check_process(&self) -> Result<()> {
        if fork::is_child() { Err(Unavailable::Forked.into()) } else { Ok(()) }
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("version", &self.version).field("devices", &self.devices).finish()
    }
}
