use std::collections::BTreeMap;
use std::ops::Range;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, lock};
use crate::{Error, Result};

/// What became of every range.
pub(in crate::engine) struct Results {
    /// How many bytes arrived without a gap, unless it failed.
    arrived: Box<[AtomicU64]>,
    errors: Mutex<BTreeMap<usize, Error>>,
}

impl Results {
    /// All of them whole, but for those that no file can hold.
    pub(in crate::engine) fn new(ranges: &[Range<u64>], source: &str) -> Self {
        let arrived = ranges.iter().map(|range| AtomicU64::new(range.end - range.start)).collect();
        let too_far = |range: &Range<u64>| !range.is_empty() && range.end > i64::MAX as u64;
        let error = |range: &Range<u64>| {
            let error = Error::invalid_input("offset + length exceeds what a file can hold");
            error.or_context("read", source, range.start, range.end - range.start)
        };
        let errors = ranges.iter().enumerate().filter(|(_, range)| too_far(range)).map(|(i, range)| (i, error(range)));
        let errors = errors.collect();
        Self { arrived, errors: Mutex::new(errors) }
    }

    /// Calls `f` with every range that has failed already.
    pub(super) fn each_failed(&self, f: impl FnMut(usize)) {
        lock(&self.errors).keys().copied().for_each(f);
    }

    pub(super) fn cut_short(&self, index: usize, at: u64) {
        self.arrived[index].fetch_min(at, Ordering::AcqRel);
    }

    pub(super) fn fail(&self, index: usize, error: Error) {
        // The first reason counts. An error that is not kept is dropped outside the lock.
        let superfluous = {
            let mut errors = lock(&self.errors);
            match errors.get(&index) {
                Some(_) => Some(error),
                None => errors.insert(index, error),
            }
        };
        drop(superfluous);
    }

    /// The result of every range, in the order asked for.
    pub(in crate::engine) fn take(&self) -> Vec<Result<usize>> {
        let mut errors = std::mem::take(&mut *lock(&self.errors));
        let result = |(index, n): (usize, &AtomicU64)| match errors.remove(&index) {
            Some(error) => Err(error),
            None => Ok(n.load(Ordering::Acquire) as usize),
        };
        self.arrived.iter().enumerate().map(result).collect()
    }
}
