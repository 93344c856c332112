use std::fmt;

use crate::sys::DriverProperties;

/// What the driver says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties(DriverProperties);

const KIB: u64 = 1 << 10;

impl Properties {
    /// From the driver's own structure.
    pub fn new(raw: DriverProperties) -> Self {
        Self(raw)
    }

    /// The driver's own structure.
    pub fn raw(&self) -> &DriverProperties {
        &self.0
    }

    /// The version of nvidia-fs, if the driver uses it.
    pub fn nvidia_fs(&self) -> Option<(u32, u32)> {
        let version = (self.0.nvfs_major, self.0.nvfs_minor);
        (version != (0, 0)).then_some(version)
    }

    /// Whether completions are polled for.
    pub fn poll_mode(&self) -> bool {
        self.0.control_flags & DriverProperties::USE_POLL_MODE != 0
    }

    /// Up to this size, in bytes, completions are polled for.
    pub fn poll_threshold(&self) -> u64 {
        self.0.poll_threshold as u64 * KIB
    }

    /// Whether what GPUDirect Storage cannot do goes through host memory.
    pub fn allows_compat_mode(&self) -> bool {
        self.0.control_flags & DriverProperties::ALLOW_COMPAT_MODE != 0
    }

    /// The largest request that goes to the kernel, in bytes.
    pub fn max_direct_io_size(&self) -> u64 {
        self.0.max_direct_io_size as u64 * KIB
    }

    /// GPU memory for bounce buffers, in bytes.
    pub fn max_device_cache_size(&self) -> u64 {
        u64::from(self.0.max_device_cache_size) * KIB
    }

    /// GPU memory of one bounce buffer, in bytes.
    pub fn per_buffer_cache_size(&self) -> u64 {
        u64::from(self.0.per_buffer_cache_size) * KIB
    }

    /// GPU memory that may be pinned, in bytes.
    pub fn max_device_pinned_size(&self) -> u64 {
        u64::from(self.0.max_device_pinned_size) * KIB
    }

    /// The most entries of a batch.
    pub fn max_batch_entries(&self) -> u32 {
        self.0.max_batch_io_size
    }

    /// Milliseconds after which the library gives a batch up.
    pub fn batch_timeout_ms(&self) -> u32 {
        self.0.max_batch_io_timeout
    }

    /// Whether the library says that it does peer-to-peer DMA.
    pub fn peer_to_peer(&self) -> bool {
        self.0.feature_flags & DriverProperties::PEER_TO_PEER != 0
    }

    /// What the library can do, by name.
    pub fn features(&self) -> impl Iterator<Item = &'static str> {
        const NAMES: [&str; 5] = ["dynamic-routing", "batch", "streams", "parallel-io", "peer-to-peer"];
        let flags = self.0.feature_flags;
        NAMES.into_iter().enumerate().filter(move |(bit, _)| flags >> bit & 1 != 0).map(|(_, name)| name)
    }

    /// The file systems that nvidia-fs serves.
    pub fn file_systems(&self) -> impl Iterator<Item = FileSystem> {
        let flags = self.0.status_flags;
        FileSystem::all().filter(move |fs| flags >> fs.bit() & 1 != 0)
    }
}

/// A kind of storage, as cuFile tells them apart: a file system, or what a local one lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileSystem(u8);

impl FileSystem {
    const NAMES: [&'static str; 15] = [
        "Lustre",
        "WekaFS",
        "NFS",
        "GPFS",
        "NVMe",
        "NVMe-oF",
        "SCSI",
        "ScaleFlux",
        "NVMesh",
        "BeeGFS",
        "reserved",
        "NVMe peer-to-peer",
        "ScaTeFS",
        "virtiofs",
        "PanFS",
    ];
    const RESERVED: u8 = 10;

    /// All that are known.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::NAMES.len() as u8).filter(|&bit| bit != Self::RESERVED).map(Self)
    }

    /// Its bit in the driver's flags, which is also its number.
    pub fn bit(self) -> u32 {
        u32::from(self.0)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[usize::from(self.0)]
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The ways past host memory that the driver knows for a kind of storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerFlags(pub u32);

impl PeerFlags {
    const P2PDMA: u32 = 1 << 0;
    const NVFS: u32 = 1 << 1;
    const DMABUF: u32 = 1 << 2;
    const C2C: u32 = 1 << 3;
    const PEERMEM: u32 = 1 << 4;

    /// Through the kernel's peer-to-peer DMA, DMA-BUF or the link between processor and GPU.
    pub fn is_peer_to_peer(self) -> bool {
        self.0 & (Self::P2PDMA | Self::DMABUF | Self::C2C) != 0
    }

    /// Through nvidia-fs or its counterpart for RDMA.
    pub fn is_nvidia_fs(self) -> bool {
        self.0 & (Self::NVFS | Self::PEERMEM) != 0
    }

    /// By name.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        const NAMES: [&str; 5] = ["p2pdma", "nvidia-fs", "dma-buf", "c2c", "nvidia-peermem"];
        NAMES.into_iter().enumerate().filter(move |(bit, _)| self.0 >> bit & 1 != 0).map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As an H200 with libcufile 1.15 and without nvidia-fs was seen to answer.
    const COMPAT: DriverProperties = DriverProperties {
        nvfs_major: 0,
        nvfs_minor: 0,
        poll_threshold: 4,
        max_direct_io_size: 1024,
        status_flags: 0,
        control_flags: 2,
        feature_flags: 0xf,
        max_device_cache_size: 131_072,
        per_buffer_cache_size: 1024,
        max_device_pinned_size: u32::MAX - 3,
        max_batch_io_size: 128,
        max_batch_io_timeout: 5,
    };

    #[test]
    fn compatibility_mode_has_no_version_and_no_file_system() {
        let properties = Properties::new(COMPAT);
        assert_eq!(properties.nvidia_fs(), None);
        assert!(!properties.peer_to_peer() && properties.allows_compat_mode() && !properties.poll_mode());
        assert_eq!(properties.file_systems().count(), 0);
        assert_eq!(properties.features().collect::<Vec<_>>(), ["dynamic-routing", "batch", "streams", "parallel-io"]);
        assert_eq!((properties.max_direct_io_size(), properties.poll_threshold()), (1 << 20, 4096));
    }

    #[test]
    fn file_systems_are_read_from_their_bits() {
        let flags = DriverProperties { nvfs_major: 2, nvfs_minor: 28, status_flags: 1 << 4 | 1 << 0, ..COMPAT };
        let properties = Properties::new(flags);
        assert_eq!(properties.nvidia_fs(), Some((2, 28)));
        let names: Vec<_> = properties.file_systems().map(FileSystem::name).collect();
        assert_eq!(names, ["Lustre", "NVMe"]);
        let all = Properties::new(DriverProperties { status_flags: u32::MAX, ..COMPAT });
        assert_eq!(all.file_systems().count(), 14, "bits without a meaning are passed over");
    }

    #[test]
    fn peer_flags_say_which_way() {
        assert!(PeerFlags(1).is_peer_to_peer() && !PeerFlags(1).is_nvidia_fs());
        assert!(PeerFlags(2).is_nvidia_fs() && !PeerFlags(2).is_peer_to_peer());
        assert!(!PeerFlags(0).is_nvidia_fs() && !PeerFlags(0).is_peer_to_peer());
        assert_eq!(PeerFlags(0b1_1001).names().collect::<Vec<_>>(), ["p2pdma", "c2c", "nvidia-peermem"]);
    }
}
