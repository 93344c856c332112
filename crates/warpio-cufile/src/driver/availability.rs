//! Whether GPUDirect Storage is on: what the driver's answers mean, and what would change them.
//!
//! That the driver opens, or that a file can be registered, says nothing: both succeed in compatibility mode.

use std::fmt;

use super::properties::{FileSystem, PeerFlags, Properties};
use crate::guard::Surroundings;
use crate::sys::LibraryVersion;

/// How bytes go past host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GdsPath {
    /// Through nvidia-fs.
    NvidiaFs,
    /// Through the kernel's peer-to-peer DMA.
    PeerToPeer,
}

impl GdsPath {
    /// The name used in reports and in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NvidiaFs => "gds",
            Self::PeerToPeer => "p2p",
        }
    }
}

impl fmt::Display for GdsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the driver can do past host memory, and else why it cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Availability {
    /// The way for each kind of storage that has one.
    pub storage: Vec<(FileSystem, GdsPath)>,
    /// The way where the driver does not tell kinds of storage apart.
    pub path: Option<GdsPath>,
    /// Why bytes go through host memory, if they do.
    pub reasons: Vec<Reason>,
}

impl Availability {
    /// Whether anything goes past host memory.
    pub fn is_on(&self) -> bool {
        self.path.is_some()
    }
}

/// Something that stands in the way of GPUDirect Storage.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reason {
    /// What kind of thing.
    pub kind: ReasonKind,
    /// What is the case.
    pub what: String,
    /// What would change it.
    pub remedy: String,
}

/// What kind of thing stands in the way of GPUDirect Storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReasonKind {
    /// nvidia-fs is not loaded.
    NoNvidiaFs,
    /// nvidia-fs is loaded, but the library does not use it.
    NvidiaFsUnused,
    /// nvidia-fs serves no storage of this machine.
    NoStorage,
    /// Peer-to-peer DMA is not used.
    NoPeerToPeer,
    /// `/run/udev` is not there.
    NoUdev,
    /// Compatibility mode is forced.
    ForcedCompat,
}

impl ReasonKind {
    /// The name used in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoNvidiaFs => "no-nvidia-fs",
            Self::NvidiaFsUnused => "nvidia-fs-unused",
            Self::NoStorage => "no-storage",
            Self::NoPeerToPeer => "no-peer-to-peer",
            Self::NoUdev => "no-udev",
            Self::ForcedCompat => "forced-compat",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.remedy)
    }
}

/// The first version that knows peer-to-peer DMA.
const PEER_TO_PEER_VERSION: LibraryVersion = LibraryVersion { major: 1, minor: 13 };

/// What the answers mean.
pub(super) fn judge(
    surroundings: &Surroundings,
    version: LibraryVersion,
    properties: &Properties,
    flags: &[(FileSystem, PeerFlags)],
    forced_compat: bool,
) -> Availability {
    let forced = forced_compat || surroundings.forced_compat;
    let mut storage = Vec::new();
    if !forced {
        if properties.nvidia_fs().is_some() {
            storage.extend(properties.file_systems().map(|fs| (fs, GdsPath::NvidiaFs)));
        }
        for &(fs, flags) in flags {
            let path = match flags {
                flags if flags.is_peer_to_peer() => GdsPath::PeerToPeer,
                flags if flags.is_nvidia_fs() => GdsPath::NvidiaFs,
                _ => continue,
            };
            if storage.iter().all(|&(known, _)| known != fs) {
                storage.push((fs, path));
            }
        }
    }
    let told = storage.first().map(|&(_, path)| path);
    // Libraries that cannot tell the storage have only this bit.
    let path = told.or((!forced && flags.is_empty() && properties.peer_to_peer()).then_some(GdsPath::PeerToPeer));
    let reasons = if path.is_some() { Vec::new() } else { reasons(surroundings, version, properties, forced) };
    Availability { storage, path, reasons }
}

fn reasons(surroundings: &Surroundings, version: LibraryVersion, properties: &Properties, forced: bool) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut add = |kind, what: String, remedy: &str| reasons.push(Reason { kind, what, remedy: remedy.to_owned() });
    if forced {
        let remedy = "unset CUFILE_FORCE_COMPAT_MODE, and set properties.force_compat_mode to false in cufile.json";
        add(ReasonKind::ForcedCompat, "compatibility mode is forced".to_owned(), remedy);
    }
    match (&surroundings.nvidia_fs, properties.nvidia_fs()) {
        (None, _) => add(
            ReasonKind::NoNvidiaFs,
            "the kernel module nvidia-fs is not loaded".to_owned(),
            "install nvidia-gds on the host and run modprobe nvidia-fs; a container also needs \
             --device /dev/nvidia-fs0 and its siblings",
        ),
        (Some(loaded), None) if !forced => add(
            ReasonKind::NvidiaFsUnused,
            format!("nvidia-fs {loaded} is loaded, but libcufile {version} does not use it"),
            "see cufile.log; in a container, pass the devices /dev/nvidia-fs*",
        ),
        (Some(_), None) => {}
        (Some(_), Some(_)) => add(
            ReasonKind::NoStorage,
            "nvidia-fs serves no storage of this machine".to_owned(),
            "run gdscheck -p: local file systems need the NVMe driver of MLNX_OFED or a kernel with its patches",
        ),
    }
    let peer_to_peer = match () {
        () if version < PEER_TO_PEER_VERSION => {
            (format!("libcufile {version} does not know peer-to-peer DMA"), "install libcufile 1.13 or newer")
        }
        () if !surroundings.has_peer_to_peer_kernel() => (
            "the kernel is too old for peer-to-peer DMA without nvidia-fs".to_owned(),
            "use Linux 6.2 or newer with CONFIG_PCI_P2PDMA",
        ),
        () if !surroundings.static_bar1 => (
            "the NVIDIA driver does not map the GPU's memory as peer-to-peer DMA asks for".to_owned(),
            "load it with NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"",
        ),
        () => (
            "peer-to-peer DMA is not used".to_owned(),
            "set properties.use_pci_p2pdma to true in cufile.json, or CUFILE_USE_PCIP2PDMA=1, and nvme_core.multipath=N",
        ),
    };
    add(ReasonKind::NoPeerToPeer, peer_to_peer.0, peer_to_peer.1);
    if !surroundings.udev {
        add(
            ReasonKind::NoUdev,
            "/run/udev is not there, and without it files of local file systems are refused".to_owned(),
            "in Docker, add --volume /run/udev:/run/udev:ro",
        );
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::DriverProperties;

    const NEW: LibraryVersion = LibraryVersion { major: 1, minor: 16 };

    fn machine() -> Surroundings {
        let mut found = Surroundings::probe_under(std::path::Path::new("/nowhere"));
        found.modules = true;
        found.udev = true;
        found.kernel = Some((6, 8));
        found
    }

    fn nvidia_fs(status_flags: u32) -> Properties {
        Properties::new(DriverProperties { nvfs_major: 2, nvfs_minor: 28, status_flags, ..Default::default() })
    }

    fn none() -> Vec<(FileSystem, PeerFlags)> {
        FileSystem::all().map(|fs| (fs, PeerFlags(0))).collect()
    }

    fn kinds(availability: &Availability) -> Vec<ReasonKind> {
        availability.reasons.iter().map(|reason| reason.kind).collect()
    }

    #[test]
    fn nvidia_fs_with_a_file_system_is_on() {
        let mut machine = machine();
        machine.nvidia_fs = Some("2.28".to_owned());
        let found = judge(&machine, NEW, &nvidia_fs(1 << 4), &none(), false);
        assert_eq!(found.path, Some(GdsPath::NvidiaFs));
        assert_eq!(found.storage.iter().map(|(fs, _)| fs.name()).collect::<Vec<_>>(), ["NVMe"]);
        assert!(found.reasons.is_empty());
    }

    #[test]
    fn peer_flags_of_one_file_system_are_enough() {
        let mut flags = none();
        flags[4].1 = PeerFlags(1);
        let found = judge(&machine(), NEW, &Properties::default(), &flags, false);
        assert_eq!(found.path, Some(GdsPath::PeerToPeer));
        assert_eq!(found.storage, [(flags[4].0, GdsPath::PeerToPeer)]);
    }

    #[test]
    fn the_feature_bit_counts_only_where_the_library_cannot_tell_more() {
        let able = Properties::new(DriverProperties { feature_flags: 31, ..Default::default() });
        assert_eq!(judge(&machine(), NEW, &able, &[], false).path, Some(GdsPath::PeerToPeer));
        assert_eq!(judge(&machine(), NEW, &able, &none(), false).path, None, "able to, but for no storage");
    }

    #[test]
    fn compatibility_mode_says_why_and_what_would_help() {
        let mut machine = machine();
        machine.udev = false;
        let found = judge(&machine, NEW, &Properties::default(), &none(), false);
        assert!(!found.is_on());
        assert_eq!(kinds(&found), [ReasonKind::NoNvidiaFs, ReasonKind::NoPeerToPeer, ReasonKind::NoUdev]);
        assert!(found.reasons[2].remedy.contains("--volume /run/udev:/run/udev:ro"), "{}", found.reasons[2]);
        assert!(found.reasons[1].remedy.contains("RMForceStaticBar1"), "{}", found.reasons[1]);
    }

    #[test]
    fn forced_compatibility_beats_everything() {
        let mut machine = machine();
        machine.nvidia_fs = Some("2.28".to_owned());
        for (by_parameter, by_variable) in [(true, false), (false, true)] {
            machine.forced_compat = by_variable;
            let found = judge(&machine, NEW, &nvidia_fs(1 << 4), &none(), by_parameter);
            assert!(!found.is_on());
            assert_eq!(found.reasons[0].kind, ReasonKind::ForcedCompat);
        }
    }

    #[test]
    fn nvidia_fs_that_serves_nothing_or_is_not_used_is_off() {
        let mut machine = machine();
        machine.nvidia_fs = Some("2.28".to_owned());
        let idle = judge(&machine, NEW, &nvidia_fs(0), &none(), false);
        assert_eq!(kinds(&idle), [ReasonKind::NoStorage, ReasonKind::NoPeerToPeer]);
        let unused = judge(&machine, NEW, &Properties::default(), &none(), false);
        assert_eq!(kinds(&unused), [ReasonKind::NvidiaFsUnused, ReasonKind::NoPeerToPeer]);
    }

    #[test]
    fn what_stands_in_the_way_of_peer_to_peer_is_named_in_order() {
        let why = |machine: &Surroundings, version| {
            let found = judge(machine, version, &Properties::default(), &none(), false);
            found.reasons.into_iter().find(|reason| reason.kind == ReasonKind::NoPeerToPeer).unwrap()
        };
        let mut machine = machine();
        assert!(why(&machine, LibraryVersion { major: 1, minor: 11 }).remedy.contains("1.13"));
        machine.static_bar1 = true;
        assert!(why(&machine, NEW).remedy.contains("use_pci_p2pdma"));
        machine.kernel = Some((5, 15));
        assert!(why(&machine, NEW).remedy.contains("6.2"));
    }
}
