use tokio::runtime::Handle;
use warpio_core::config::{Config, DeviceSpec, DirectIo, EngineChoice, MachineDefaults, Switch};
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
    device: Option<Device>,
    environment: bool,
}

impl RuntimeBuilder {
    pub(crate) fn new() -> Self {
        Self { config: Config::new(machine_defaults()), device: None, environment: true }
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
    /// [`ResourceLimit`](ErrorKind::ResourceLimit) when no thread can be started.
    pub fn build(self) -> Result<Runtime> {
        let handle = Handle::try_current().map_err(|_| {
            Error::new(ErrorKind::NoRuntime).with_message(
                "warpio::Runtime must be made inside a tokio runtime: in a #[tokio::main] function, or within \
                 tokio::runtime::Runtime::enter()",
            )
        })?;
        let config = self.config()?;
        let device = match self.device {
            Some(device) => device,
            None => crate::device::open(*config.device.get(), config.pool())?,
        };
        warm(&device, *config.staging_warm.get());
        let (engine, no_io_uring) = crate::engine::start(&config, &device)?;
        let task_size = usize::try_from(*config.task_size.get()).unwrap_or(usize::MAX);
        let split = Split::new(task_size).ok_or_else(|| Error::new(ErrorKind::InvalidConfig))?;
        let policy = DirectPolicy {
            read: *config.direct_read.get(),
            write: *config.direct_write.get(),
            leave_clean: *config.leave_cache_clean.get(),
        };
        let files =
            FileContext { engine, split, device, handle, stats: Stats::default(), policy, gap: *config.gap.get() };
        Ok(Runtime::start(config, files, no_io_uring))
    }
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

fn machine_defaults() -> MachineDefaults {
    let machine = Machine::probe();
    let budget = 256 << 20;
    MachineDefaults {
        // Copying cached bytes is bound by cores, and a PCIe 5 link is full with twelve; waiting for a disk wants some
        // threads on small machines too.
        threads: machine.cpus.usable().clamp(4, 12),
        staging_budget: machine.memory.limit().map_or(budget, |limit| budget.min((limit / 8).max(16 << 20))),
    }
}
