//! What the kernel tells about a device on the PCI bus. Containers may hide all of it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A PCI Express link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcieLink {
    /// The generation of PCI Express, from 1.
    pub generation: u32,
    /// How many lanes it has.
    pub width: u32,
}

impl fmt::Display for PcieLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PCIe {} x{}", self.generation, self.width)
    }
}

fn device_folder(pci_bus_id: &str) -> PathBuf {
    Path::new("/sys/bus/pci/devices").join(pci_bus_id)
}

fn read(folder: &Path, name: &str) -> Option<String> {
    fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned())
}

/// The link as it runs now.
pub(crate) fn pcie_link(pci_bus_id: &str) -> Option<PcieLink> {
    link(&device_folder(pci_bus_id), "current_link_speed", "current_link_width")
}

/// The most that the device's link can do.
pub(crate) fn pcie_link_max(pci_bus_id: &str) -> Option<PcieLink> {
    link(&device_folder(pci_bus_id), "max_link_speed", "max_link_width")
}

fn link(folder: &Path, speed: &str, width: &str) -> Option<PcieLink> {
    let generation = generation(&read(folder, speed)?)?;
    let width = read(folder, width)?.parse().ok().filter(|&width| width > 0)?;
    Some(PcieLink { generation, width })
}

/// The generation with this speed, written as `32.0 GT/s PCIe`.
fn generation(speed: &str) -> Option<u32> {
    let rate: f32 = speed.split_whitespace().next()?.parse().ok()?;
    [2.5, 5.0, 8.0, 16.0, 32.0, 64.0, 128.0].iter().position(|&known| known == rate).map(|at| at as u32 + 1)
}

/// The NUMA node that the device is close to; `-1` in the file means that none is.
pub(crate) fn numa_node(pci_bus_id: &str) -> Option<u32> {
    read(&device_folder(pci_bus_id), "numa_node")?.parse().ok()
}

/// How many NUMA nodes the machine has.
pub(crate) fn numa_nodes() -> usize {
    let is_node = |name: &str| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok());
    fs::read_dir("/sys/devices/system/node")
        .map(|nodes| nodes.flatten().filter(|node| node.file_name().to_str().is_some_and(is_node)).count())
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_generations() {
        for (text, generation) in [
            ("2.5 GT/s PCIe", Some(1)),
            ("8 GT/s", Some(3)),
            ("16.0 GT/s PCIe", Some(4)),
            ("32.0 GT/s PCIe", Some(5)),
            ("Unknown", None),
            ("", None),
        ] {
            assert_eq!(super::generation(text), generation, "{text}");
        }
    }

    #[test]
    fn what_is_hidden_is_unknown() {
        assert_eq!(pcie_link("ffff:ff:1f.7"), None);
        assert_eq!(numa_node("ffff:ff:1f.7"), None);
    }

    #[test]
    fn a_link_needs_speed_and_width() {
        let folder = std::env::temp_dir().join(format!("warpio-sysfs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("speed", "32.0 GT/s PCIe\n");
        assert_eq!(link(&folder, "speed", "width"), None);
        write("width", "0\n");
        assert_eq!(link(&folder, "speed", "width"), None);
        write("width", "16\n");
        let found = link(&folder, "speed", "width");
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, Some(PcieLink { generation: 5, width: 16 }));
        assert_eq!(found.unwrap().to_string(), "PCIe 5 x16");
    }
}
