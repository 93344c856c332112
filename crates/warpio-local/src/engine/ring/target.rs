use std::sync::Arc;

use warpio_core::engine::Target;

use crate::engine::OpenFile;

/// Whether transfers go past the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Through the page cache.
    Buffered,
    /// Past it, as far as the file allows; the rest goes through it.
    Direct,
}

/// What a ring engine reads from or writes to: a file, and how. A plain [`OpenFile`] means [`Mode::Buffered`].
#[derive(Clone, Debug)]
pub struct RingTarget {
    file: Arc<OpenFile>,
    mode: Mode,
}

impl RingTarget {
    /// `file`, in `mode`.
    pub fn new(file: Arc<OpenFile>, mode: Mode) -> Self {
        Self { file, mode }
    }

    /// The file.
    pub fn file(&self) -> &Arc<OpenFile> {
        &self.file
    }

    /// Whether transfers go past the page cache.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The target of a batch, if it is one that ring engines know.
    pub(in crate::engine) fn of(target: &Target) -> Option<Self> {
        if let Some(target) = target.downcast_ref::<Self>() {
            return Some(target.clone());
        }
        let file = target.clone().downcast::<OpenFile>().ok()?;
        Some(Self::new(file, Mode::Buffered))
    }
}
