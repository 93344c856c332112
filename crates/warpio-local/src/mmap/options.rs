/// What the mapped pages may be used for. Reads need the first alone; the second is for maps whose pages others are to
/// find writable, and needs the right to write the file unless the map is private.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protection {
    /// Pages are read.
    #[default]
    Read,
    /// Pages may be written too.
    ReadWrite,
}

/// Whose pages are mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// Those of the page cache (`MAP_SHARED`).
    #[default]
    Shared,
    /// The page cache's as well, until somebody writes one through the map (`MAP_PRIVATE`).
    Private,
}

/// How a file is mapped: all of it, to be read, by default.
///
/// ```
/// use warpio_local::mmap::{MmapOptions, Sharing};
///
/// let options = MmapOptions::new().offset(4099).len(1 << 20).sharing(Sharing::Private).populate(true);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct MmapOptions {
    pub(super) offset: u64,
    pub(super) len: Option<u64>,
    pub(super) protection: Protection,
    pub(super) sharing: Sharing,
    pub(super) populate: bool,
}

impl MmapOptions {
    /// The whole file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the map begins, in bytes from the start of the file. It needs no alignment.
    pub fn offset(self, bytes: u64) -> Self {
        Self { offset: bytes, ..self }
    }

    /// How many bytes are mapped; up to the end of the file by default.
    pub fn len(self, bytes: u64) -> Self {
        Self { len: Some(bytes), ..self }
    }

    /// What the pages may be used for.
    pub fn protection(self, protection: Protection) -> Self {
        Self { protection, ..self }
    }

    /// Whose pages are mapped.
    pub fn sharing(self, sharing: Sharing) -> Self {
        Self { sharing, ..self }
    }

    /// Whether all pages are read in when the file is mapped (`MAP_POPULATE`), rather than by the first read of each.
    pub fn populate(self, populate: bool) -> Self {
        Self { populate, ..self }
    }
}
