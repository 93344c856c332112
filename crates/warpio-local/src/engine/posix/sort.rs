//! Large reads of files that are not cached, or in part: what is not is asked for first, as storage takes longest, and in
//! the order of the file.

use std::os::fd::AsFd;

use warpio_core::engine::{Batch, Direction, Segment};

use super::Shared;
use crate::engine::OpenFile;
use crate::engine::policy::direct_target;

/// Fewer segments are copied so soon that those behind them can wait.
const MANY: usize = 32;
/// How many segments tell whether a file is cached in part. To look at one costs 0.5 µs.
const SAMPLES: usize = 64;

/// Whether it pays to [sort](sort) a batch.
pub(super) fn pays(batch: &Batch, shared: &Shared) -> bool {
    batch.segments().len() >= MANY
        && batch.segments().first().is_some_and(|first| first.direction() == Direction::Read)
        && batch.target::<OpenFile>().is_some_and(|file| shared.uncached_of(&file).is_some())
}

/// Sends what is not cached of a batch to the engine for that, and the rest to the threads.
pub(super) fn sort(batch: Batch, shared: &Shared) {
    let cold = batch.target::<OpenFile>().filter(|file| is_cold_in_part(file, batch.segments()));
    let Some((uncached, file)) = cold.and_then(|file| Some((shared.uncached_of(&file)?, file))) else {
        return shared.queue.submit(batch);
    };
    let (target, segments) = batch.into_parts();
    let (cold, warm): (Vec<_>, Vec<_>) = segments.into_iter().partition(|segment| is_cold(&file, segment));
    if !cold.is_empty() {
        uncached.submit(Batch::new(direct_target(file), cold));
    }
    if !warm.is_empty() {
        shared.queue.submit(Batch::new(target, warm));
    }
}

/// Whether some of the segments are not cached, as far as samples tell.
fn is_cold_in_part(file: &OpenFile, segments: &[Segment]) -> bool {
    let step = segments.len().div_ceil(SAMPLES);
    segments.iter().step_by(step).any(|segment| is_cold(file, segment))
}

fn is_cold(file: &OpenFile, segment: &Segment) -> bool {
    file.cache().begins_cached(file.as_fd(), segment.offset()) == Some(false)
}
