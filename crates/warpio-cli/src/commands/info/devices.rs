//! The devices that can be read to.

use indicatif::BinaryBytes;
use serde_json::{Value, json};
use warpio::Device;
use warpio::config::Config;
use warpio::cuda::{self, DeviceInfo, PcieLink};
use warpio::machine::Machine;

use super::table::Table;

/// The devices that can be read to.
pub(super) struct Devices {
    /// What this process can have of host memory, in bytes.
    host_memory: Option<u64>,
    /// The GPUs, or why there are none.
    gpus: Result<Vec<DeviceInfo>, String>,
    /// The newest CUDA that the driver supports.
    cuda: Option<String>,
    /// What is read to with these settings, or why nothing can be.
    pub(super) chosen: Result<Device, String>,
}

impl Devices {
    pub(super) fn probe(config: &Config) -> Self {
        let probed = cuda::probe();
        let gpus = match &probed {
            Ok(_) => cuda::devices().map_err(|error| error.to_string()),
            Err(reason) => Err(reason.to_string()),
        };
        let chosen = warpio::device::open(*config.device.get(), config.pool());
        Self {
            host_memory: Machine::probe().memory.limit(),
            gpus,
            cuda: probed.ok().map(|cuda| cuda.driver.to_string()),
            chosen: chosen.map_err(|error| error.to_string()),
        }
    }

    /// The name of what is read to.
    pub(super) fn chosen_name(&self) -> Option<String> {
        self.chosen.as_ref().ok().map(ToString::to_string)
    }

    /// An array with host memory first.
    pub(super) fn json(&self) -> Value {
        let host = json!({"name": "host", "kind": "host", "memory": self.host_memory});
        let gpus = self.gpus.iter().flatten().map(gpu);
        std::iter::once(host).chain(gpus).collect()
    }

    pub(super) fn cuda_json(&self) -> Value {
        match &self.gpus {
            Ok(_) => json!({"available": true, "driver": self.cuda}),
            Err(reason) => json!({"available": false, "driver": self.cuda, "reason": reason}),
        }
    }

    pub(super) fn rows(&self, table: &mut Table) {
        let memory = self.host_memory.map_or("unknown size".to_owned(), |bytes| BinaryBytes(bytes).to_string());
        table.row(["device host", &memory]);
        for gpu in self.gpus.iter().flatten() {
            table.row([&format!("device {}", name(gpu)), &line(gpu)]);
        }
        match (&self.gpus, &self.cuda) {
            (Ok(_), Some(driver)) => table.row(["CUDA", &format!("driver for {driver}")]),
            (Ok(_), None) => {}
            (Err(reason), _) => table.row(["CUDA", &format!("not available: {reason}")]),
        }
        match &self.chosen {
            Ok(device) => table.row(["reads go to", &device.to_string()]),
            Err(reason) => table.row(["reads fail", reason]),
        }
    }
}

fn name(gpu: &DeviceInfo) -> String {
    format!("cuda:{}", gpu.ordinal)
}

fn gpu(gpu: &DeviceInfo) -> Value {
    let link = |link: &Option<PcieLink>| link.as_ref().map(|l| json!({"generation": l.generation, "width": l.width}));
    let (major, minor) = gpu.compute_capability;
    json!({
        "name": name(gpu),
        "kind": "cuda",
        "model": gpu.name,
        "memory": gpu.memory,
        "compute_capability": format!("{major}.{minor}"),
        "pci_bus_id": gpu.pci_bus_id,
        "pcie": link(&gpu.pcie),
        "pcie_max": link(&gpu.pcie_max),
        "numa_node": gpu.numa_node,
    })
}

fn line(gpu: &DeviceInfo) -> String {
    let (major, minor) = gpu.compute_capability;
    let link = gpu.pcie_max.as_ref().or(gpu.pcie.as_ref());
    let link = link.map_or(String::new(), |link| format!(", PCIe {} x{}", link.generation, link.width));
    let memory = BinaryBytes(gpu.memory);
    format!("{}, {memory}, compute capability {major}.{minor}, at {}{link}", gpu.name, gpu.pci_bus_id)
}
