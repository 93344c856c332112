use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How bytes travelled between storage and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PathKind {
    /// GPUDirect Storage through nvidia-fs.
    Gds,
    /// GPUDirect Storage through the kernel's peer-to-peer DMA.
    P2p,
    /// Direct I/O, past the page cache.
    Direct,
    /// Through the page cache.
    PageCache,
    /// From a memory map.
    Mmap,
    /// Over the network.
    Remote,
    /// From memory that the source itself holds.
    Memory,
}

impl PathKind {
    /// Every kind, in the order of reports.
    pub const ALL: [Self; 7] =
        [Self::Gds, Self::P2p, Self::Direct, Self::PageCache, Self::Mmap, Self::Remote, Self::Memory];

    /// The name used in reports and in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gds => "gds",
            Self::P2p => "p2p",
            Self::Direct => "direct",
            Self::PageCache => "page-cache",
            Self::Mmap => "mmap",
            Self::Remote => "remote",
            Self::Memory => "memory",
        }
    }
}

impl fmt::Display for PathKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Bytes counted per [`PathKind`].
#[derive(Debug, Default)]
pub struct PathBytes([AtomicU64; PathKind::ALL.len()]);

impl PathBytes {
    /// Adds bytes that travelled by `path`.
    pub fn add(&self, path: PathKind, bytes: u64) {
        self.0[path as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    /// The bytes that travelled by `path`.
    pub fn get(&self, path: PathKind) -> u64 {
        self.0[path as usize].load(Ordering::Relaxed)
    }
}

/// How many bytes of a transfer took which path. It counts on while the transfer runs, and stays when it is gone.
#[derive(Clone, Default)]
pub struct TransferReport(Vec<Arc<PathBytes>>);

impl TransferReport {
    pub(crate) fn joined(parts: Vec<Arc<PathBytes>>) -> Self {
        Self(parts)
    }

    /// The bytes that arrived by `path`.
    pub fn bytes(&self, path: PathKind) -> u64 {
        self.0.iter().map(|part| part.get(path)).sum()
    }

    /// The paths that carried bytes, with how many.
    pub fn paths(&self) -> impl Iterator<Item = (PathKind, u64)> + '_ {
        PathKind::ALL.into_iter().map(|path| (path, self.bytes(path))).filter(|&(_, n)| n > 0)
    }
}

impl fmt::Debug for TransferReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.paths().map(|(path, n)| (path.as_str(), n))).finish()
    }
}
