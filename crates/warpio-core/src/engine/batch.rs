use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::segment::Segment;

/// What an engine reads from or writes to; each engine knows the types that it can handle.
pub type Target = Arc<dyn Any + Send + Sync>;

/// Segments that were asked for in one call, and the target that they are about. They go the same way, and may belong
/// to several transfers.
pub struct Batch {
    target: Target,
    segments: Vec<Segment>,
}

impl Batch {
    /// A batch of `segments` on `target`.
    pub fn new(target: Target, segments: Vec<Segment>) -> Self {
        Self { target, segments }
    }

    /// The target, as the type that the engine expects.
    pub fn target<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.target.clone().downcast().ok()
    }

    /// The target, whatever its type.
    pub fn target_ref(&self) -> &Target {
        &self.target
    }

    /// The target and the segments, in order of their offsets.
    pub fn into_parts(self) -> (Target, Vec<Segment>) {
        (self.target, self.segments)
    }

    /// The segments.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Fails every segment for the same reason.
    pub fn fail(self, error: &crate::Error) {
        for segment in self.segments {
            segment.finish(Err(error.clone()));
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("segments", &self.segments).finish_non_exhaustive()
    }
}
