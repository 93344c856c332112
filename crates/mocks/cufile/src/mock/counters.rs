//! What the software cuFile holds and has done.

use std::collections::BTreeMap;

/// The numbers that `mock_cufile_counters` gives: first what is alive, then what was done since the last `reset`.
///
/// The layout is the interface: only ever add at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// How often the driver is open.
    pub(crate) open: u64,
    pub(crate) handles: u64,
    pub(crate) buffers: u64,
    pub(crate) pinned_bytes: u64,
    pub(crate) batches: u64,
    pub(crate) streams: u64,
    /// Entries of batches, calls and stream operations under way.
    pub(crate) in_flight: u64,
    /// Calls that stand at a `block`.
    pub(crate) blocked: u64,
    pub(crate) max_in_flight: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    /// Entries of batches that were submitted.
    pub(crate) entries: u64,
    /// Handles, buffers and batches that were there when the driver was closed for the last time.
    pub(crate) leaks: u64,
    /// Misuses, where they do not end the process.
    pub(crate) violations: u64,
    /// Microseconds for which no operation was under way since the first one.
    pub(crate) idle_us: u64,
}

/// Calls of each entry point since the last `reset`.
#[derive(Debug, Default)]
pub(crate) struct Calls(BTreeMap<String, u64>);

impl Calls {
    pub(crate) fn count(&mut self, name: &str) {
        match self.0.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(self.0.insert(name.to_owned(), 1)),
        }
    }

    pub(crate) fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn reset(&mut self) {
        self.0.clear();
    }
}
