use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use warpio_core::{Device, Result};
use warpio_cuda::CudaDeviceExt;

use super::availability::{self, Availability};
use super::options::DriverOptions;
use super::parameters::{self, BoolParameter, Parameter, Refusal};
use super::properties::{FileSystem, PeerFlags, Properties};
use super::settings::NotApplied;
use crate::buffer::Registry;
use crate::error::CuFileError;
use crate::guard::{self, Overdue, Surroundings};
use crate::sys::{DriverProperties, Library, OpError};
use crate::{Unavailable, janitor};

/// The cuFile driver, open. Cheap to clone; it is closed when the last handle, file and registered buffer is gone, unless
/// it was to be [left open](Self::leave_open).
#[derive(Clone)]
pub struct Driver {
    open: Arc<Open>,
}

/// What a library's driver is like now.
#[derive(Default)]
pub(crate) enum DriverState {
    #[default]
    Closed,
    Open(Weak<Open>),
    /// A thread hangs in the call that opens it.
    Stuck(Duration),
}

pub(crate) struct Open {
    library: &'static Library,
    surroundings: Surroundings,
    device: Device,
    pub(crate) registry: Registry,
    /// Statistics are process-wide: whoever changes or compares them holds this.
    pub(super) statistics: Mutex<()>,
    left_open: AtomicBool,
}

impl Driver {
    /// Opens the driver of `library` in the context of `device`, or shares it if it is open already.
    ///
    /// This blocks: half a second is usual. It is for a thread that may wait, not for a tokio worker.
    ///
    /// # Errors
    /// Why it cannot be used: see [`Unavailable`]. [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) for a device
    /// that is no GPU, [`InvalidConfig`](warpio_core::ErrorKind::InvalidConfig) for options that cannot be.
    pub fn open(library: &'static Library, device: &Device, options: &DriverOptions) -> Result<Self> {
        options.check()?;
        device.cuda_context()?;
        let surroundings = options.surroundings.clone().unwrap_or_else(Surroundings::probe);
        look(&surroundings)?;
        guard::watch();
        let mut state = lock(&library.driver);
        let open = match &*state {
            DriverState::Stuck(limit) => return Err(Unavailable::Overdue { limit: *limit }.into()),
            DriverState::Open(open) => open.upgrade(),
            DriverState::Closed => None,
        };
        if let Some(open) = open {
            let driver = Self { open };
            driver.check_applied(options)?;
            return Ok(driver);
        }
        janitor::start().map_err(|reason| Unavailable::NoThread { reason })?;
        start(library, device, options, &surroundings, &mut state)?;
        janitor::stop_at_exit();
        let driver = Self {
            open: Arc::new(Open {
                library,
                surroundings,
                device: device.clone(),
                registry: Registry::default(),
                statistics: Mutex::new(()),
                left_open: AtomicBool::new(false),
            }),
        };
        *state = DriverState::Open(Arc::downgrade(&driver.open));
        drop(state);
        driver.check_applied(options)?;
        Ok(driver)
    }

    /// Leaves the driver open until the process ends. To open it again is quick then, but changes no settings any more.
    ///
    /// Libraries up to 1.15 at least crash now and then in a process that closes the driver and opens it again.
    pub fn leave_open(&self) {
        self.open.left_open.store(true, Ordering::Relaxed);
    }

    /// The library.
    pub fn library(&self) -> &'static Library {
        self.open.library
    }

    /// The device whose context the driver was opened in.
    pub fn device(&self) -> &Device {
        &self.open.device
    }

    /// What was found around the process when the driver was opened.
    pub fn surroundings(&self) -> &Surroundings {
        &self.open.surroundings
    }

    /// What the driver says of itself, now.
    ///
    /// # Errors
    /// What the library answers.
    pub fn properties(&self) -> Result<Properties> {
        self.check_process()?;
        properties(self.library()).map_err(Into::into)
    }

    /// The ways past host memory that the driver knows for each kind of storage; nothing where the library cannot
    /// tell (before 1.16).
    pub fn peer_flags(&self) -> Vec<(FileSystem, PeerFlags)> {
        let Some(get) = self.library().cuFileDriverGetP2PFlags.filter(|_| !guard::is_child()) else {
            return Vec::new();
        };
        let ask = |fs: FileSystem| {
            let mut flags = 0;
            // SAFETY: a valid place for the result; any number may be asked for.
            let status = unsafe { get(fs.bit() as i32, &mut flags) };
            (status.err == OpError::SUCCESS).then_some((fs, PeerFlags(flags as u32)))
        };
        FileSystem::all().filter_map(ask).collect()
    }

    /// Whether GPUDirect Storage is on, as far as the driver tells, and else why not. Whether it serves a given file
    /// only shows when that is read: see [`CuFileEngine`](crate::CuFileEngine).
    ///
    /// # Errors
    /// What the library answers.
    pub fn availability(&self) -> Result<Availability> {
        let forced = parameters::boolean(self.library(), BoolParameter::ForceCompatMode).unwrap_or(false);
        let properties = self.properties()?;
        Ok(availability::judge(self.surroundings(), self.library().version(), &properties, &self.peer_flags(), forced))
    }

    /// How often the driver is open in this process, other libraries' uses included, as the library counts.
    pub fn use_count(&self) -> i64 {
        // SAFETY: asks for a number.
        unsafe { (self.library().cuFileUseCount)() }
    }

    /// Fails in a forked child, where nothing of the library works.
    pub(crate) fn check_process(&self) -> Result<(), Unavailable> {
        check_process()
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.open.registry
    }

    pub(super) fn statistics_lock(&self) -> MutexGuard<'_, ()> {
        lock(&self.open.statistics)
    }

    /// Whether every setting that was asked for is as asked.
    fn check_applied(&self, options: &DriverOptions) -> Result<()> {
        let properties = self.properties()?;
        for &setting in &options.settings {
            let found = setting.read(&properties);
            if found != setting {
                return Err(Unavailable::NotApplied(setting.not_applied(found)).into());
            }
        }
        for parameter in &options.parameters {
            // What the library does not tell was at least accepted, or the driver would not have been opened.
            if let Some(found) = parameter.read_back(self.library()).filter(|found| found != parameter) {
                return Err(Unavailable::NotApplied(not_applied(parameter, Some(&found))).into());
            }
        }
        Ok(())
    }
}

pub(crate) fn check_process() -> Result<(), Unavailable> {
    if guard::is_child() { Err(Unavailable::Forked) } else { Ok(()) }
}

/// Refuses to call a library that would hang or crash.
fn look(surroundings: &Surroundings) -> Result<(), Unavailable> {
    check_process()?;
    match surroundings {
        Surroundings { wsl: true, .. } => Err(Unavailable::Wsl),
        Surroundings { modules: false, .. } => Err(Unavailable::NoModules),
        _ => Ok(()),
    }
}

fn properties(library: &Library) -> Result<Properties, CuFileError> {
    let mut raw = DriverProperties::default();
    // SAFETY: a valid place for the result.
    let status = unsafe { (library.cuFileDriverGetProperties)(&mut raw) };
    CuFileError::check(status, "cuFileDriverGetProperties")?;
    Ok(Properties::new(raw))
}

/// Opens the driver on a thread of its own: some versions fail without a current context, and some never return.
fn start(
    library: &'static Library,
    device: &Device,
    options: &DriverOptions,
    surroundings: &Surroundings,
    state: &mut DriverState,
) -> Result<(), Unavailable> {
    let limit = options.limit;
    let settings = options.settings.clone();
    let parameters: Vec<_> =
        options.log_parameter(surroundings).into_iter().map(|p| (p, false)).chain(wanted(options)).collect();
    let device = device.clone();
    let handover = Arc::new(Mutex::new(Handover::default()));
    let theirs = handover.clone();
    let work = move || {
        let opened = device
            .adopt_thread()
            .map_err(|error| Unavailable::NoContext { reason: error.to_string() })
            .and_then(|()| set_up(library, &settings, &parameters));
        if let Some(opened) = theirs.lock().unwrap_or_else(PoisonError::into_inner).offer(opened) {
            // Nobody waits any more: the driver is nobody's.
            if opened.is_ok() {
                close(library);
            }
            *lock(&library.driver) = DriverState::Closed;
        }
    };
    let outcome = guard::within(limit, "warpio-cufile-open", work);
    let mut handover = lock(&handover);
    match (handover.result.take(), outcome) {
        (Some(opened), _) => opened,
        (None, Ok(Ok(()) | Err(Overdue::Ended))) => {
            Err(Unavailable::NoThread { reason: "it ended without a word".to_owned() })
        }
        (None, Ok(Err(Overdue::Late))) => {
            handover.given_up = true;
            *state = DriverState::Stuck(limit);
            Err(Unavailable::Overdue { limit })
        }
        (None, Err(error)) => Err(Unavailable::NoThread { reason: error.to_string() }),
    }
}

/// Between the thread that opens the driver and the one that waits for it: exactly one of them deals with the result.
#[derive(Default)]
struct Handover {
    result: Option<Result<(), Unavailable>>,
    given_up: bool,
}

impl Handover {
    /// Leaves the result to whoever waits, or returns it if nobody does.
    fn offer(&mut self, result: Result<(), Unavailable>) -> Option<Result<(), Unavailable>> {
        if self.given_up {
            return Some(result);
        }
        self.result = Some(result);
        None
    }
}

/// The parameters that were asked for, which have to be set or be an error.
fn wanted(options: &DriverOptions) -> impl Iterator<Item = (Parameter, bool)> {
    options.parameters.iter().cloned().map(|parameter| (parameter, true))
}

fn set_up(library: &Library, settings: &[super::Setting], parameters: &[(Parameter, bool)]) -> Result<(), Unavailable> {
    for (parameter, wanted) in parameters {
        match parameter.apply(library) {
            Ok(()) => {}
            Err(_) if !wanted => {}
            Err(Refusal::Missing) => return Err(Unavailable::NotApplied(not_applied(parameter, None))),
            Err(Refusal::Failed(error)) if error.code() == Some(OpError::DRIVER_ALREADY_OPEN.0) => {
                // Another library of the process opened it. Reading back tells whether the value is the same.
                tracing::debug!(parameter = parameter.name(), "the cuFile driver is open already");
            }
            Err(Refusal::Failed(error)) => return Err(Unavailable::Refused(error)),
        }
    }
    for setting in settings {
        setting.apply(library).map_err(Unavailable::Refused)?;
    }
    // SAFETY: the guards have let it through, and a context is current.
    let status = unsafe { (library.cuFileDriverOpen)() };
    CuFileError::check(status, "cuFileDriverOpen").map_err(Unavailable::Refused)
}

fn not_applied(parameter: &Parameter, found: Option<&Parameter>) -> NotApplied {
    NotApplied { setting: parameter.name(), wanted: parameter.value(), found: found.map(Parameter::value) }
}

fn close(library: &Library) {
    // SAFETY: the driver was opened once for this call, and what was registered since holds it open.
    let status = unsafe { (library.cuFileDriverClose_v2)() };
    if let Err(error) = CuFileError::check(status, "cuFileDriverClose_v2") {
        // Another user of the library may have closed it once too often.
        tracing::warn!(%error, "the cuFile driver does not close");
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if *self.left_open.get_mut() {
            return;
        }
        let library = self.library;
        janitor::later(move || {
            // Not beside an opening: libraries up to 1.15 at least crash then.
            let _state = lock(&library.driver);
            close(library);
        });
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("library", self.library()).field("device", self.device()).finish_non_exhaustive()
    }
}

/// Locks, and goes on with the data of a lock whose holder panicked: what is locked here is valid between statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
