use std::fmt;
use std::sync::Arc;

use warpio_core::engine::{Batch, Engine, Segment, Target};

use super::file::CuFile;

/// What a [`CuFileEngine`](super::CuFileEngine) reads from or writes to: a file, and who does what cuFile does not.
#[derive(Clone)]
pub struct CuFileTarget {
    file: Arc<CuFile>,
    otherwise: Option<(Arc<dyn Engine>, Target)>,
    strict: bool,
}

impl CuFileTarget {
    /// `file` alone: unaligned edges go by cuFile too, and what it refuses fails.
    pub fn new(file: Arc<CuFile>) -> Self {
        Self { file, otherwise: None, strict: false }
    }

    /// The same file for another engine, which takes the edges of transfers and what cuFile refuses.
    #[must_use]
    pub fn with_otherwise(mut self, engine: Arc<dyn Engine>, target: Target) -> Self {
        self.otherwise = Some((engine, target));
        self
    }

    /// What cuFile refuses fails, although another engine could do it; that one takes only edges of less than 4 KiB.
    #[must_use]
    pub fn strict(mut self, yes: bool) -> Self {
        self.strict = yes;
        self
    }

    /// The file.
    pub fn file(&self) -> &Arc<CuFile> {
        &self.file
    }

    pub(super) fn is_strict(&self) -> bool {
        self.strict || self.otherwise.is_none()
    }

    pub(super) fn has_other(&self) -> bool {
        self.otherwise.is_some()
    }

    /// Hands segments to the other engine, or returns them if there is none.
    pub(super) fn hand_over(&self, segments: Vec<Segment>) -> Result<(), Vec<Segment>> {
        match &self.otherwise {
            _ if segments.is_empty() => Ok(()),
            Some((engine, target)) => {
                engine.submit(Batch::new(target.clone(), segments));
                Ok(())
            }
            None => Err(segments),
        }
    }
}

impl fmt::Debug for CuFileTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CuFileTarget").field("file", &self.file).field("strict", &self.strict).finish_non_exhaustive()
    }
}
