//! GPUDirect Storage: what there is of cuFile, whether bytes go past host memory, and else why not and what would change
//! it.

use std::time::Duration;

use indicatif::BinaryBytes;
use serde_json::{Map, Value, json};
use warpio::Device;
use warpio::config::Config;
use warpio::cufile::{
    Availability, DriverInfo, DriverOptions, FileSystem, GdsPath, Info, LibraryInfo, Properties, Surroundings,
};

use super::table::Table;

/// How long the driver may take to open.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct CuFile(Info);

impl CuFile {
    /// Looks, and opens the driver where there is a GPU to open it for.
    pub(super) fn probe(config: &Config, device: Option<&Device>) -> Self {
        let gpu = device.filter(|device| device.id().kind == "cuda");
        let options = DriverOptions::new().limit(PATIENCE);
        Self(Info::probe(config.cufile_library.get().as_deref(), gpu, &options))
    }

    pub(super) fn json(&self) -> Value {
        let Info { library, surroundings, driver, .. } = &self.0;
        let open = driver.as_ref().and_then(|driver| driver.as_ref().ok());
        json!({
            "available": open.is_some_and(|driver| driver.availability.is_on()),
            "path": open.and_then(|driver| driver.availability.path).map(|path| path.as_str()),
            "reason": self.reason(),
            "reasons": open.map(|driver| reasons(&driver.availability)),
            "library": library.as_ref().ok().map(library_json),
            "driver": open.map(driver_json),
            "surroundings": surroundings_json(surroundings),
        })
    }

    /// Why bytes do not go past host memory, in one line.
    fn reason(&self) -> Option<String> {
        match (&self.0.library, &self.0.driver) {
            (Err(reason), _) | (_, Some(Err(reason))) => Some(reason.clone()),
            (_, None) => Some("there is no GPU to open it for".to_owned()),
            (_, Some(Ok(driver))) => driver.availability.reasons.first().map(ToString::to_string),
        }
    }

    pub(super) fn rows(&self, table: &mut Table) {
        match &self.0.library {
            Ok(library) => {
                let LibraryInfo { version, path, .. } = library;
                table.row(["cuFile", &format!("version {version}, {}", path.display())]);
            }
            Err(reason) => return table.row(["cuFile", &format!("not available: {reason}")]),
        }
        let driver = match &self.0.driver {
            Some(Ok(driver)) => driver,
            Some(Err(_)) | None => {
                return table.row(["GPUDirect Storage", &format!("off: {}", self.reason().unwrap_or_default())]);
            }
        };
        let Availability { path, reasons, .. } = &driver.availability;
        match path {
            Some(path) => table.row(["GPUDirect Storage", &format!("on, {path}")]),
            None => table.row(["GPUDirect Storage", "off: everything goes through host memory"]),
        }
        for reason in reasons {
            table.row(["  because", &reason.what]);
            table.row(["  to change it", &reason.remedy]);
        }
        driver_rows(driver, &self.0.surroundings, table);
    }
}

/// What gdscheck prints: the kinds of storage, the configuration, the GPU and the platform.
fn driver_rows(driver: &DriverInfo, machine: &Surroundings, table: &mut Table) {
    let mut row = |name: &str, value: String| table.row([format!("  {name}"), value]);
    let (properties, size) = (&driver.properties, BinaryBytes);
    row("nvidia-fs", properties.nvidia_fs().map_or("none".to_owned(), |(major, minor)| format!("{major}.{minor}")));
    for (storage, path) in storages(driver) {
        row(storage.name(), path.map_or("unsupported".to_owned(), |path| format!("supported, {path}")));
    }
    row("features", join(properties.features()));
    row("compat mode", if properties.allows_compat_mode() { "allowed" } else { "forbidden" }.to_owned());
    row("poll mode", format!("{}, up to {}", on_off(properties.poll_mode()), size(properties.poll_threshold())));
    row("direct I/O", format!("up to {} a request", size(properties.max_direct_io_size())));
    let (cache, buffer) = (properties.max_device_cache_size(), properties.per_buffer_cache_size());
    row("bounce buffers", format!("{} of GPU memory, {} each", size(cache), size(buffer)));
    row("pinned memory", format!("up to {}", size(properties.max_device_pinned_size())));
    row("batches", format!("{} entries, {} ms", properties.max_batch_entries(), properties.batch_timeout_ms()));
    for (parameter, value) in &driver.sizes {
        row(&format!("{parameter:?}"), value.to_string());
    }
    for (parameter, value) in &driver.switches {
        row(&format!("{parameter:?}"), on_off(*value).to_owned());
    }
    if let Some(bytes) = driver.bar1 {
        row("BAR1", size(bytes).to_string());
    }
    row("IOMMU", on_off(machine.iommu).to_owned());
}

/// Every kind of storage, and the way past host memory that it has.
fn storages(driver: &DriverInfo) -> impl Iterator<Item = (FileSystem, Option<GdsPath>)> {
    let path_of = |storage| driver.availability.storage.iter().find(|(known, _)| *known == storage);
    FileSystem::all().map(move |storage| (storage, path_of(storage).map(|(_, path)| *path)))
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn join<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

fn reasons(availability: &Availability) -> Value {
    let one = |kind: &str, what: &str, remedy: &str| json!({"kind": kind, "what": what, "remedy": remedy});
    availability.reasons.iter().map(|reason| one(reason.kind.as_str(), &reason.what, &reason.remedy)).collect()
}

fn library_json(library: &LibraryInfo) -> Value {
    json!({
        "path": library.path.to_string_lossy(),
        "version": library.version.to_string(),
        "functions": library.functions,
    })
}

fn driver_json(driver: &DriverInfo) -> Value {
    let parameters: Map<String, Value> = driver
        .sizes
        .iter()
        .map(|(parameter, value)| (format!("{parameter:?}"), json!(value)))
        .chain(driver.switches.iter().map(|(parameter, value)| (format!("{parameter:?}"), json!(value))))
        .collect();
    let mut object = properties(&driver.properties);
    let ways = |storage| driver.peer_flags.iter().find(|(known, _)| *known == storage).map(|(_, flags)| flags.names());
    let storage = storages(driver).map(|(storage, path)| {
        let ways: Option<Vec<_>> = ways(storage).map(Iterator::collect);
        json!({"name": storage.name(), "path": path.map(GdsPath::as_str), "ways": ways})
    });
    object.insert("storage".to_owned(), storage.collect());
    object.insert("bar1".to_owned(), json!(driver.bar1));
    object.insert("parameters".to_owned(), Value::Object(parameters));
    Value::Object(object)
}

/// Sizes in bytes.
fn properties(properties: &Properties) -> Map<String, Value> {
    let members = [
        ("nvidia_fs", json!(properties.nvidia_fs().map(|(major, minor)| format!("{major}.{minor}")))),
        ("poll_mode", json!(properties.poll_mode())),
        ("poll_threshold", json!(properties.poll_threshold())),
        ("compat_mode_allowed", json!(properties.allows_compat_mode())),
        ("max_direct_io_size", json!(properties.max_direct_io_size())),
        ("max_device_cache_size", json!(properties.max_device_cache_size())),
        ("per_buffer_cache_size", json!(properties.per_buffer_cache_size())),
        ("max_device_pinned_size", json!(properties.max_device_pinned_size())),
        ("max_batch_entries", json!(properties.max_batch_entries())),
        ("batch_timeout_ms", json!(properties.batch_timeout_ms())),
        ("features", properties.features().collect()),
        ("file_systems", properties.file_systems().map(|fs| fs.name()).collect()),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn surroundings_json(machine: &Surroundings) -> Value {
    json!({
        "proc_modules": machine.modules,
        "run_udev": machine.udev,
        "wsl": machine.wsl,
        "nvidia_fs": machine.nvidia_fs,
        "peer_to_peer_kernel": machine.has_peer_to_peer_kernel(),
        "static_bar1": machine.static_bar1,
        "iommu": machine.iommu,
        "configuration": machine.configuration.as_ref().map(|path| path.to_string_lossy()),
        "forced_compat": machine.forced_compat,
    })
}
