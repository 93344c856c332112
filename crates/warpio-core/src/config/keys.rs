use std::path::PathBuf;
use std::str::FromStr;

use super::bytes::{format_bytes, parse_bytes};
use super::http::{self, HttpConfig};
use super::modes::{CompatMode, CuFileApi, DirectIo, EngineChoice, Switch};
use super::setting::{Origin, Setting};
use super::spec::DeviceSpec;
use crate::pool::PoolConfig;
use crate::{Error, ErrorKind, Result, parse_decimal};

/// A setting, as the documentation and `warpio info` show it.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The name of the key, as in `Runtime::builder()`.
    pub name: &'static str,
    /// The environment variable.
    pub variable: &'static str,
    /// Why the default is what it is.
    pub reason: &'static str,
    /// What KvikIO calls it, if it has it.
    pub kvikio: Option<&'static str>,
}

/// The defaults that depend on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineDefaults {
    /// Worker threads for local files.
    pub threads: usize,
    /// The most staging memory per device, in bytes.
    pub staging_budget: u64,
}

/// Every setting of a runtime, and where its value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The device that sources read into.
    pub device: Setting<DeviceSpec>,
    /// Worker threads for local files.
    pub threads: Setting<usize>,
    /// The longest segment of a transfer, in bytes.
    pub task_size: Setting<u64>,
    /// The size of a staging slot, in bytes.
    pub slot_size: Setting<u64>,
    /// The most staging memory per device, in bytes.
    pub staging_budget: Setting<u64>,
    /// How much staging memory is allocated at the start, in bytes.
    pub staging_warm: Setting<u64>,
    /// The engine for what the page cache does not serve.
    pub engine: Setting<EngineChoice>,
    /// Whether io_uring may be used.
    pub io_uring: Setting<Switch>,
    /// Whether reads go past the page cache.
    pub direct_read: Setting<DirectIo>,
    /// Whether writes go past the page cache.
    pub direct_write: Setting<DirectIo>,
    /// Whether what goes through the page cache and was not there before leaves it again.
    pub leave_cache_clean: Setting<bool>,
    /// Up to how many bytes between two ranges of one read are read with them, rather than in two reads.
    pub gap: Setting<u64>,
    /// Whether transfers between local files and GPUs go by cuFile.
    pub compat_mode: Setting<CompatMode>,
    /// Transfers that are shorter than this, in bytes, do not go by cuFile.
    pub gds_threshold: Setting<u64>,
    /// Which interface of cuFile carries requests.
    pub cufile_api: Setting<CuFileApi>,
    /// The library to use for cuFile, if not the one that is found.
    pub cufile_library: Setting<Option<PathBuf>>,
    /// Requests to remote stores.
    pub http: HttpConfig,
}

/// One line of the table of settings.
#[derive(Clone, Debug)]
pub struct Row {
    /// The setting.
    pub key: Key,
    /// Its value, as it is written in the environment.
    pub value: String,
    /// Where the value comes from.
    pub origin: Origin,
}

const DEVICE: Key = Key {
    name: "device",
    variable: "WARPIO_DEVICE",
    reason: "the first GPU, or host memory where there is none",
    kvikio: None,
};
const THREADS: Key = Key {
    name: "threads",
    variable: "WARPIO_THREADS",
    reason: "the cores that the process may use, from 4 to 12, or to 16 for host memory: copying is what cached reads cost, and twelve fill a PCIe 5 link",
    kvikio: Some("KVIKIO_NTHREADS"),
};
const TASK_SIZE: Key = Key {
    name: "task_size",
    variable: "WARPIO_TASK_SIZE",
    reason: "4MiB: the smallest copy that runs at the full rate of PCIe 5",
    kvikio: Some("KVIKIO_TASK_SIZE"),
};
const SLOT_SIZE: Key = Key {
    name: "slot_size",
    variable: "WARPIO_SLOT_SIZE",
    reason: "4MiB: one segment",
    kvikio: Some("KVIKIO_BOUNCE_BUFFER_SIZE"),
};
const STAGING_BUDGET: Key = Key {
    name: "staging_budget",
    variable: "WARPIO_STAGING_BUDGET",
    reason: "256MiB, or an eighth of the memory that the process may use if that is less",
    kvikio: None,
};

const STAGING_WARM: Key = Key {
    name: "staging_warm",
    variable: "WARPIO_STAGING_WARM",
    reason: "0: memory is pinned when the first transfer needs it; a service that cannot wait then sets it",
    kvikio: None,
};
const ENGINE: Key = Key {
    name: "engine",
    variable: "WARPIO_ENGINE",
    reason: "io_uring where the machine allows it, for what is not cached; threads otherwise",
    kvikio: None,
};
const IO_URING: Key = Key {
    name: "io_uring",
    variable: "WARPIO_IO_URING",
    reason: "used where the kernel and the container allow it",
    kvikio: None,
};
const DIRECT_READ: Key = Key {
    name: "direct_read",
    variable: "WARPIO_DIRECT_READ",
    reason: "cached bytes through the page cache, others past it: each the faster way",
    kvikio: Some("KVIKIO_AUTO_DIRECT_IO_READ"),
};
const DIRECT_WRITE: Key = Key {
    name: "direct_write",
    variable: "WARPIO_DIRECT_WRITE",
    reason: "through the page cache: past it is faster on NVMe, but slower by as much on network file systems",
    kvikio: Some("KVIKIO_AUTO_DIRECT_IO_WRITE"),
};

const LEAVE_CACHE_CLEAN: Key = Key {
    name: "leave_cache_clean",
    variable: "WARPIO_LEAVE_CACHE_CLEAN",
    reason: "off: what is read once is often read again",
    kvikio: None,
};

const GAP: Key = Key {
    name: "gap",
    variable: "WARPIO_GAP",
    reason: "4KiB: a page, which the cache and the disk read whole anyway",
    kvikio: None,
};

const COMPAT_MODE: Key = Key {
    name: "compat_mode",
    variable: "WARPIO_COMPAT_MODE",
    reason: "cuFile where it truly goes past host memory, our own engines elsewhere: its compatibility mode is slower than they are",
    kvikio: Some("KVIKIO_COMPAT_MODE"),
};
const GDS_THRESHOLD: Key = Key {
    name: "gds_threshold",
    variable: "WARPIO_GDS_THRESHOLD",
    reason: "16KiB, as KvikIO has it: staging a few pages costs less than a request to cuFile",
    kvikio: Some("KVIKIO_GDS_THRESHOLD"),
};
const CUFILE_API: Key = Key {
    name: "cufile_api",
    variable: "WARPIO_CUFILE_API",
    reason: "batches up to 1MiB, where a call each would cost a thread each; calls for more",
    kvikio: None,
};
const CUFILE_LIBRARY: Key = Key {
    name: "cufile_library",
    variable: "WARPIO_CUFILE_LIBRARY",
    reason: "what the dynamic loader finds, then the folders of toolkits, wheels and Conda",
    kvikio: None,
};

const KEYS: [Key; 16] = [
    DEVICE,
    THREADS,
    TASK_SIZE,
    SLOT_SIZE,
    STAGING_BUDGET,
    STAGING_WARM,
    ENGINE,
    IO_URING,
    DIRECT_READ,
    DIRECT_WRITE,
    LEAVE_CACHE_CLEAN,
    GAP,
    COMPAT_MODE,
    GDS_THRESHOLD,
    CUFILE_API,
    CUFILE_LIBRARY,
];

/// Variables of this prefix belong to warpio; those for its own tests are not settings.
const PREFIX: &str = "WARPIO_";
const TEST_PREFIX: &str = "WARPIO_TEST_";

impl Config {
    /// The defaults of a machine.
    pub fn new(machine: MachineDefaults) -> Self {
        let pool = PoolConfig::default();
        Self {
            device: Setting::default_value(DeviceSpec::Auto),
            threads: Setting::default_value(machine.threads),
            task_size: Setting::default_value(pool.slot_len as u64),
            slot_size: Setting::default_value(pool.slot_len as u64),
            staging_budget: Setting::default_value(machine.staging_budget),
            staging_warm: Setting::default_value(0),
            engine: Setting::default_value(EngineChoice::Auto),
            io_uring: Setting::default_value(Switch::Auto),
            direct_read: Setting::default_value(DirectIo::Auto),
            direct_write: Setting::default_value(DirectIo::Auto),
            leave_cache_clean: Setting::default_value(false),
            gap: Setting::default_value(4096),
            compat_mode: Setting::default_value(CompatMode::Auto),
            gds_threshold: Setting::default_value(16 << 10),
            cufile_api: Setting::default_value(CuFileApi::Auto),
            cufile_library: Setting::default_value(None),
            http: HttpConfig::default(),
        }
    }

    /// Takes what the environment says, where the program has not spoken.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidConfig`], naming the variable, for a value that cannot be read and for a variable that looks
    /// like a setting and is none.
    pub fn apply_environment(&mut self, variables: impl IntoIterator<Item = (String, String)>) -> Result<()> {
        for (variable, value) in variables {
            if !variable.starts_with(PREFIX) || variable.starts_with(TEST_PREFIX) {
                continue;
            }
            self.apply(&variable, &value).map_err(|error| {
                Error::new(ErrorKind::InvalidConfig).with_message(format!("{variable}={value}")).with_cause(error)
            })?;
        }
        Ok(())
    }

    fn apply(&mut self, variable: &str, value: &str) -> Result<()> {
        match variable {
            _ if variable == DEVICE.variable => self.device.set_from_environment(value.parse()?),
            _ if variable == THREADS.variable => self.threads.set_from_environment(parse_number(value)?),
            _ if variable == TASK_SIZE.variable => self.task_size.set_from_environment(parse_bytes(value)?),
            _ if variable == SLOT_SIZE.variable => self.slot_size.set_from_environment(parse_bytes(value)?),
            _ if variable == STAGING_BUDGET.variable => self.staging_budget.set_from_environment(parse_bytes(value)?),
            _ if variable == STAGING_WARM.variable => self.staging_warm.set_from_environment(parse_bytes(value)?),
            _ if variable == ENGINE.variable => self.engine.set_from_environment(value.parse()?),
            _ if variable == IO_URING.variable => self.io_uring.set_from_environment(value.parse()?),
            _ if variable == DIRECT_READ.variable => self.direct_read.set_from_environment(value.parse()?),
            _ if variable == DIRECT_WRITE.variable => self.direct_write.set_from_environment(value.parse()?),
            _ if variable == GAP.variable => self.gap.set_from_environment(parse_bytes(value)?),
            _ if variable == LEAVE_CACHE_CLEAN.variable => {
                self.leave_cache_clean.set_from_environment(parse_flag(value)?);
            }
            _ if variable == COMPAT_MODE.variable => self.compat_mode.set_from_environment(value.parse()?),
            _ if variable == GDS_THRESHOLD.variable => self.gds_threshold.set_from_environment(parse_bytes(value)?),
            _ if variable == CUFILE_API.variable => self.cufile_api.set_from_environment(value.parse()?),
            _ if variable == CUFILE_LIBRARY.variable => self.cufile_library.set_from_environment(parse_path(value)),
            _ if self.http.apply(variable, value)? => {}
            _ => {
                let known: Vec<_> = KEYS.iter().chain(&http::KEYS).map(|key| key.variable).collect();
                let message = format!("no such setting; the settings are {}", known.join(", "));
                return Err(Error::new(ErrorKind::InvalidConfig).with_message(message));
            }
        }
        Ok(())
    }

    /// Checks that the values can be used, and together.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidConfig`], naming the key and its variable.
    pub fn validate(&self) -> Result<()> {
        let check = |ok: bool, key: Key, value: String, want: &str| match ok {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::InvalidConfig)
                .with_message(format!("{} ({}) is {value}, but must be {want}", key.name, key.variable))),
        };
        let (threads, task) = (*self.threads.get(), *self.task_size.get());
        check((1..=1024).contains(&threads), THREADS, threads.to_string(), "between 1 and 1024")?;
        let fits = (4096..=1 << 30).contains(&task) && task.is_multiple_of(4096);
        check(fits, TASK_SIZE, format_bytes(task), "a multiple of 4KiB between 4KiB and 1GiB")?;
        let (warm, budget) = (*self.staging_warm.get(), *self.staging_budget.get());
        check(warm <= budget, STAGING_WARM, format_bytes(warm), "no more than staging_budget")?;
        let slot = *self.slot_size.get();
        let fits = (65_536..=1 << 30).contains(&slot) && slot.is_multiple_of(4096);
        check(fits, SLOT_SIZE, format_bytes(slot), "a multiple of 4KiB between 64KiB and 1GiB")?;
        let gap = *self.gap.get();
        check(gap <= 1 << 30, GAP, format_bytes(gap), "no more than 1GiB")?;
        self.http.validate()?;
        self.pool().validate().map_err(|error| {
            let keys = format!("{} ({})", STAGING_BUDGET.name, STAGING_BUDGET.variable);
            Error::new(ErrorKind::InvalidConfig)
                .with_message(format!("{keys} is {}", format_bytes(budget)))
                .with_cause(error)
        })
    }

    /// The staging pool that these settings describe.
    pub fn pool(&self) -> PoolConfig {
        let clamp = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        PoolConfig {
            budget: clamp(*self.staging_budget.get()),
            slot_len: clamp(*self.slot_size.get()),
            ..PoolConfig::default()
        }
    }

    /// Every setting with its value and where it comes from, in the order of the documentation.
    pub fn rows(&self) -> Vec<Row> {
        let row = |key, value, origin| Row { key, value, origin };
        let size = |key, setting: &Setting<u64>| row(key, format_bytes(*setting.get()), setting.origin());
        let mut rows = vec![
            row(DEVICE, self.device.get().to_string(), self.device.origin()),
            row(THREADS, self.threads.get().to_string(), self.threads.origin()),
            size(TASK_SIZE, &self.task_size),
            size(SLOT_SIZE, &self.slot_size),
            size(STAGING_BUDGET, &self.staging_budget),
            size(STAGING_WARM, &self.staging_warm),
            row(ENGINE, self.engine.get().to_string(), self.engine.origin()),
            row(IO_URING, self.io_uring.get().to_string(), self.io_uring.origin()),
            row(DIRECT_READ, self.direct_read.get().to_string(), self.direct_read.origin()),
            row(DIRECT_WRITE, self.direct_write.get().to_string(), self.direct_write.origin()),
            row(LEAVE_CACHE_CLEAN, on_off(*self.leave_cache_clean.get()), self.leave_cache_clean.origin()),
            size(GAP, &self.gap),
            row(COMPAT_MODE, self.compat_mode.get().to_string(), self.compat_mode.origin()),
            size(GDS_THRESHOLD, &self.gds_threshold),
            row(CUFILE_API, self.cufile_api.get().to_string(), self.cufile_api.origin()),
            row(CUFILE_LIBRARY, path_or_auto(self.cufile_library.get()), self.cufile_library.origin()),
        ];
        rows.extend(self.http.rows());
        rows
    }
}

pub(super) fn parse_number<T: FromStr>(text: &str) -> Result<T> {
    parse_decimal(text.trim())
        .ok_or_else(|| Error::new(ErrorKind::InvalidConfig).with_message(format!("\"{text}\" is not a whole number")))
}

/// A path, or nothing where it is to be found.
fn parse_path(text: &str) -> Option<PathBuf> {
    (!matches!(text, "" | "auto")).then(|| text.into())
}

fn path_or_auto(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or("auto".to_owned(), |path| path.display().to_string())
}

fn parse_flag(text: &str) -> Result<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(Error::new(ErrorKind::InvalidConfig).with_message(format!("\"{text}\" is neither on nor off"))),
    }
}

fn on_off(value: bool) -> String {
    if value { "on" } else { "off" }.to_owned()
}
