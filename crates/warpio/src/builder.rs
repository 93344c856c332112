use std::time::Duration;

use tokio::runtime::Handle;
use warpio_core::config::{CompatMode, Config, CuFileApi, DeviceSpec, DirectIo, EngineChoice, MachineDefaults, Switch};
#[cfg(feature = "remote")]
use warpio_core::config::{Origin, Setting};
use warpio_core::engine::Stats;
use warpio_core::plan::Split;
use warpio_core::{Device, Error, ErrorKind, Result};
use warpio_local::engine::DirectPolicy;
use warpio_local::file::FileContext;
use warpio_local::machine::Machine;

use crate::runtime::Runtime;

/// Settings of a [`Runtime`]. What is not set comes from the environment (`WARPIO_*`), else from the machine.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), warpio::Error> {
/// let rt = warpio::Runtime::builder().device(warpio::DeviceSpec::Host).staging_budget(64 << 20).build()?;
/// assert_eq!(rt.device().to_string(), "host");
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is started before build()"]
pub struct RuntimeBuilder {
    config: Config,
    /// That the process may use.
    cores: usize,
    device: Option<Device>,
    environment: bool,
    #[cfg(feature = "cufile")]
    cufile: Option<warpio_cufile::Driver>,
    #[cfg(feature = "remote")]
    remote: warpio_remote::RemoteSettings,
}

impl RuntimeBuilder {
    pub(crate) fn new() -> Self {
        let machine = Machine::probe();
        Self {
            config: Config::new(machine_defaults(&machine)),
            cores: machine.cpus.usable(),
            device: None,
            environment: true,
            #[cfg(feature = "cufile")]
            cufile: None,
            #[cfg(feature = "remote")]
            remote: warpio_remote::RemoteSettings::default(),
        }
    }

    /// The device that sources read into; the first GPU by default, or host memory where there is none.
    pub fn device(mut self, device: DeviceSpec) -> Self {
        self.config.device.set(device);
        self
    }

    /// A device that exists already.
    pub fn on_device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }

    /// Threads for local files. The default fits the machine; nobody needs to set this.
    pub fn threads(mut self, threads: usize) -> Self {
        self.config.threads.set(threads);
        self
    }

    /// The longest segment of a transfer, in bytes.
    pub fn task_size(mut self, bytes: u64) -> Self {
        self.config.task_size.set(bytes);
        self
    }

    /// The size of a staging slot, in bytes.
    pub fn slot_size(mut self, bytes: u64) -> Self {
        self.config.slot_size.set(bytes);
        self
    }

    /// The most staging memory of the device, in bytes.
    pub fn staging_budget(mut self, bytes: u64) -> Self {
        self.config.staging_budget.set(bytes);
        self
    }

    /// How much staging memory is allocated at the start, in bytes, by a thread of its own; otherwise the first
    /// transfers allocate it.
    pub fn staging_warm(mut self, bytes: u64) -> Self {
        self.config.staging_warm.set(bytes);
        self
    }

    /// The engine for what the page cache does not serve.
    pub fn engine(mut self, engine: EngineChoice) -> Self {
        self.config.engine.set(engine);
        self
    }

    /// Whether io_uring may be used.
    pub fn io_uring(mut self, io_uring: Switch) -> Self {
        self.config.io_uring.set(io_uring);
        self
    }

    /// Whether reads go past the page cache.
    pub fn direct_read(mut self, direct: DirectIo) -> Self {
        self.config.direct_read.set(direct);
        self
    }

    /// Whether writes go past the page cache.
    pub fn direct_write(mut self, direct: DirectIo) -> Self {
        self.config.direct_write.set(direct);
        self
    }

    /// Whether what goes through the page cache and was not there before leaves it again: for bytes that are needed
    /// once, beside others that are not. A hint.
    pub fn leave_cache_clean(mut self, clean: bool) -> Self {
        self.config.leave_cache_clean.set(clean);
        self
    }

    /// Up to how many bytes between two ranges of one [read](warpio_core::AsyncDeviceRead::read_ranges) are read with
    /// them, rather than in two reads.
    pub fn gap(mut self, bytes: u64) -> Self {
        self.config.gap.set(bytes);
        self
    }

    /// Whether transfers between local files and GPUs go by cuFile. With `Off`, [`build`](Self::build) waits for cuFile
    /// to be opened, about half a second, and fails where GPUDirect Storage is not available.
    pub fn compat_mode(mut self, mode: CompatMode) -> Self {
        self.config.compat_mode.set(mode);
        self
    }

    /// Transfers that are shorter than this, in bytes, do not go by cuFile.
    pub fn gds_threshold(mut self, bytes: u64) -> Self {
        self.config.gds_threshold.set(bytes);
        self
    }

    /// Which interface of cuFile carries requests.
    pub fn cufile_api(mut self, api: CuFileApi) -> Self {
        self.config.cufile_api.set(api);
        self
    }

    /// The library to use for cuFile, instead of the one that is found.
    pub fn cufile_library(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.config.cufile_library.set(Some(path.into()));
        self
    }

    /// A cuFile driver that is open already, for settings of its own. [`compat_mode`](Self::compat_mode) decides all the
    /// same whether it is used.
    #[cfg(feature = "cufile")]
    pub fn on_cufile(mut self, driver: warpio_cufile::Driver) -> Self {
        self.cufile = Some(driver);
        self
    }

    /// How often a request to a remote store is sent at most, until it succeeds.
    pub fn http_attempts(mut self, attempts: u32) -> Self {
        self.config.http.attempts.set(attempts);
        self
    }

    /// Statuses after which a request to a remote store is sent again.
    pub fn http_statuses(mut self, statuses: impl Into<Vec<u16>>) -> Self {
        self.config.http.statuses.set(statuses.into());
        self
    }

    /// How long a connection to a remote store may take.
    pub fn http_connect_timeout(mut self, time: Duration) -> Self {
        self.config.http.connect_timeout.set(time);
        self
    }

    /// How long a connection to a remote store may carry nothing.
    pub fn http_stall_timeout(mut self, time: Duration) -> Self {
        self.config.http.stall_timeout.set(time);
        self
    }

    /// How long a request to a remote store may take, its body and its repetitions together.
    pub fn http_total_timeout(mut self, time: Option<Duration>) -> Self {
        self.config.http.total_timeout.set(time);
        self
    }

    /// The most connections to one remote server.
    pub fn http_connections(mut self, connections: usize) -> Self {
        self.config.http.connections.set(connections);
        self
    }

    /// Threads for network work; those of the machine for `None`.
    pub fn http_threads(mut self, threads: Option<usize>) -> Self {
        self.config.http.threads.set(threads);
        self
    }

    /// What else can be set about remote stores. What has a key of its own (`http_…`) is taken from there, where it is
    /// set there.
    #[cfg(feature = "remote")]
    pub fn remote(mut self, settings: warpio_remote::RemoteSettings) -> Self {
        self.remote = settings;
        self
    }

    /// Does not look at the environment.
    pub fn ignore_environment(mut self) -> Self {
        self.environment = false;
        self
    }

    /// The settings as they stand, the environment's included.
    ///
    /// # Errors
    /// [`InvalidConfig`](ErrorKind::InvalidConfig), naming the variable or key.
    pub fn config(&self) -> Result<Config> {
        let mut config = self.config.clone();
        if self.environment {
            let variables = std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
            config.apply_environment(variables)?;
        }
        config.validate()?;
        Ok(config)
    }

    /// Starts the runtime inside the current tokio runtime.
    ///
    /// # Errors
    /// [`NoRuntime`](ErrorKind::NoRuntime) outside tokio; [`InvalidConfig`](ErrorKind::InvalidConfig);
    /// [`NoDevice`](ErrorKind::NoDevice) when a GPU was asked for and is not there;
    /// [`Unsupported`](ErrorKind::Unsupported) when an engine or GPUDirect Storage was asked for and is not there;
    /// [`ResourceLimit`](ErrorKind::ResourceLimit) when no thread can be started.
    pub fn build(self) -> Result<Runtime> {
        let handle = Handle::try_current().map_err(|_| {
            Error::new(ErrorKind::NoRuntime).with_message(
                "warpio::Runtime must be made inside a tokio runtime: in a #[tokio::main] function, or within \
                 tokio::runtime::Runtime::enter()",
            )
        })?;
        let mut config = self.config()?;
        let device = match self.device {
            Some(device) => device,
            None => crate::device::open(*config.device.get(), config.pool())?,
        };
        if device.is_host_visible() {
            config.threads.set_default(threads(self.cores, MOST_FOR_HOST));
        }
        warm(&device, *config.staging_warm.get());
        #[cfg(feature = "cufile")]
        let engines = crate::engine::start(&config, &device, self.cufile)?;
        #[cfg(not(feature = "cufile"))]
        let engines = crate::engine::start(&config, &device)?;
        let task_size = usize::try_from(*config.task_size.get()).unwrap_or(usize::MAX);
        let split = Split::new(task_size).ok_or_else(|| Error::new(ErrorKind::InvalidConfig))?;
        let policy = DirectPolicy {
            read: *config.direct_read.get(),
            write: *config.direct_write.get(),
            leave_clean: *config.leave_cache_clean.get(),
            compat: *config.compat_mode.get(),
        };
        let engine = engines.engine.clone();
        let files =
            FileContext { engine, split, device, handle, stats: Stats::default(), policy, gap: *config.gap.get() };
        Ok(Runtime::start(
            #[cfg(feature = "remote")]
            remote(&config, self.remote, &files),
            config,
            files,
            engines,
        ))
    }
}

/// What the environment and the builder's keys say beats the rest of the settings.
#[cfg(feature = "remote")]
fn remote(
    config: &Config,
    mut settings: warpio_remote::RemoteSettings,
    files: &FileContext,
) -> warpio_remote::RemoteContext {
    fn take<T: Clone>(into: &mut T, setting: &Setting<T>) {
        if setting.origin() != Origin::Default {
            into.clone_from(setting.get());
        }
    }
    take(&mut settings.attempts, &config.http.attempts);
    take(&mut settings.statuses, &config.http.statuses);
    take(&mut settings.connect_timeout, &config.http.connect_timeout);
    take(&mut settings.stall_timeout, &config.http.stall_timeout);
    take(&mut settings.total_timeout, &config.http.total_timeout);
    take(&mut settings.connections, &config.http.connections);
    take(&mut settings.threads, &config.http.threads);
    warpio_remote::RemoteContext::with_stats(files.device.clone(), settings, &files.stats)
}

/// Pinning memory takes milliseconds, so it does not happen on the caller's thread.
fn warm(device: &Device, bytes: u64) {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if bytes > 0 {
        let device = device.clone();
        let thread = std::thread::Builder::new().name("warpio-warm".into());
        if let Err(error) = thread.spawn(move || device.staging().warm(bytes)) {
            tracing::warn!(%error, "staging memory is not allocated early");
        }
    }
}

/// A PCIe 5 link is full with twelve threads; more only take processor time from one another.
const MOST_FOR_GPU: usize = 12;
/// Host memory takes what sixteen can copy (`docs/results.md`).
const MOST_FOR_HOST: usize = 16;

/// Copying cached bytes is bound by cores; waiting for a disk wants some threads on small machines too.
fn threads(cores: usize, most: usize) -> usize {
    cores.clamp(4, most)
}

fn machine_defaults(machine: &Machine) -> MachineDefaults {
    let budget = 256 << 20;
    MachineDefaults {
        threads: threads(machine.cpus.usable(), MOST_FOR_GPU),
        staging_budget: machine.memory.limit().map_or(budget, |limit| budget.min((limit / 8).max(16 << 20))),
    }
}
