//! What the software GPU holds and has done.

use std::collections::BTreeMap;

use crate::{plan::stem, state::State};

/// The numbers that `mock_cuda_counters` gives: first what is alive now, then what was done since the last `reset`.
///
/// The layout is the interface: only ever add at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// Live device allocations, the stream-ordered ones counted until their free has run.
    device_allocations: u64,
    device_bytes: u64,
    /// Live allocations of pinned host memory.
    pinned_allocations: u64,
    pinned_bytes: u64,
    /// Live registrations of host memory.
    registered_ranges: u64,
    registered_bytes: u64,
    contexts: u64,
    /// Live streams that the program made, so without default streams.
    streams: u64,
    events: u64,
    modules: u64,
    /// Streams that stand with a copy at the closed gate.
    copies_held: u64,
    pub(crate) copies_in_flight: u64,
    pub(crate) bytes_in_flight: u64,
    pub(crate) copies_submitted: u64,
    pub(crate) copies_completed: u64,
    /// Copies that a broken context discarded.
    pub(crate) copies_discarded: u64,
    pub(crate) bytes_copied: u64,
    pub(crate) max_copies_in_flight: u64,
    pub(crate) max_bytes_in_flight: u64,
    pub(crate) kernels_run: u64,
    pub(crate) host_functions_run: u64,
    /// Misuses that a real GPU would not report but suffer from: memory freed under a transfer, or used before the
    /// stream-ordered allocation of it.
    pub(crate) violations: u64,
}

impl Counters {
    pub(crate) fn held(&self) -> u64 {
        self.copies_held
    }

    pub(crate) fn submitted(&mut self, copies: u64, bytes: u64) {
        self.copies_submitted += copies;
        self.copies_in_flight += copies;
        self.bytes_in_flight += bytes;
        self.max_copies_in_flight = self.max_copies_in_flight.max(self.copies_in_flight);
        self.max_bytes_in_flight = self.max_bytes_in_flight.max(self.bytes_in_flight);
    }

    pub(crate) fn finished(&mut self, copies: u64, bytes: u64, done: bool) {
        self.copies_in_flight -= copies;
        self.bytes_in_flight -= bytes;
        if done {
            self.copies_completed += copies;
            self.bytes_copied += bytes;
        } else {
            self.copies_discarded += copies;
        }
    }

    /// Forgets what was done, not what is under way.
    pub(crate) fn reset(&mut self) {
        *self = Self {
            copies_in_flight: self.copies_in_flight,
            bytes_in_flight: self.bytes_in_flight,
            max_copies_in_flight: self.copies_in_flight,
            max_bytes_in_flight: self.bytes_in_flight,
            ..Self::default()
        };
    }
}

impl State {
    /// The counters with what is alive filled in.
    pub(crate) fn counters(&self) -> Counters {
        let mut now = self.counters;
        for (_, allocation) in self.device_memory.iter() {
            now.device_allocations += 1;
            now.device_bytes += allocation.len;
        }
        for (_, range) in self.host_memory.iter() {
            if range.registered {
                now.registered_ranges += 1;
                now.registered_bytes += range.len;
            } else {
                now.pinned_allocations += 1;
                now.pinned_bytes += range.len;
            }
        }
        now.contexts = count(self.contexts.iter().filter(|(_, context)| context.alive));
        let streams = || self.streams.iter().map(|(_, stream)| stream);
        now.streams = count(streams().filter(|stream| stream.made && !stream.destroyed));
        now.copies_held = count(streams().filter(|stream| stream.held));
        now.events = self.events.len() as u64;
        now.modules = self.modules.len() as u64;
        now
    }
}

fn count(items: impl Iterator) -> u64 {
    items.count() as u64
}

/// Calls of each entry point since the last `reset`, without version suffixes.
#[derive(Debug, Default)]
pub(crate) struct Calls(BTreeMap<&'static str, u64>);

impl Calls {
    pub(crate) fn count(&mut self, name: &'static str) {
        *self.0.entry(stem(name)).or_default() += 1;
    }

    pub(crate) fn of(&self, name: &str) -> u64 {
        self.0.get(stem(name)).copied().unwrap_or(0)
    }

    pub(crate) fn reset(&mut self) {
        self.0.clear();
    }
}
