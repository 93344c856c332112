//! Finding and opening cuFile.

use std::path::PathBuf;
use std::sync::Arc;

use warpio_core::config::Config;
use warpio_core::{Device, Error, ErrorKind, Result};
use warpio_cufile::{CuFileEngine, Driver, DriverOptions, EngineOptions, Library, Surroundings};

use super::{Gds, off};

/// The engine on this device. This blocks for as long as the driver takes to open, within its own bound.
pub(super) fn engine(config: &Config, device: &Device, options: EngineOptions) -> Result<CuFileEngine> {
    start(config.cufile_library.get().clone(), device, options, Surroundings::probe())
}

fn start(
    library: Option<PathBuf>,
    device: &Device,
    options: EngineOptions,
    machine: Surroundings,
) -> Result<CuFileEngine> {
    let library = match library {
        Some(path) => Library::open(path)?,
        None => Library::find()?,
    };
    let driver = Driver::open(library, device, &DriverOptions::new().surroundings(machine))?;
    // Also where it turns out to be of no use: a process may have many runtimes, one after another.
    driver.leave_open();
    CuFileEngine::start(&driver, options)
}

/// The same, later, on a thread of its own.
pub(super) fn later(gds: &Arc<Gds>, config: &Config, device: &Device, options: EngineOptions) {
    let (theirs, library, device) = (gds.clone(), config.cufile_library.get().clone(), device.clone());
    let open = move || {
        // Whatever becomes of the thread, those who wait are told.
        let word = Word(&theirs);
        // An open driver has threads that take processor time, which a machine without GPUDirect Storage need not pay.
        let machine = Surroundings::probe();
        word.0.set(match machine.rules_gds_out() {
            true => Err(off(
                "neither nvidia-fs nor a static BAR1 for peer-to-peer DMA is there; `warpio info` tells what would help",
            )),
            false => start(library, &device, options, machine),
        });
    };
    if let Err(error) = std::thread::Builder::new().name("warpio-gds".into()).spawn(open) {
        gds.set(Err(Error::new(ErrorKind::ResourceLimit).with_cause(error)));
    }
}

struct Word<'a>(&'a Gds);

impl Drop for Word<'_> {
    fn drop(&mut self) {
        self.0.set(Err(Error::new(ErrorKind::Gone)));
    }
}
