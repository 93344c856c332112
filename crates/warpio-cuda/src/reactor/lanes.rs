//! What the reactor waits for, by stream: events of one stream happen in order, so only the first is asked.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use warpio_core::{DeviceEvent, Result, WatchDone};

use crate::event::Event;

/// An event, and whom to tell.
pub(super) struct Watch {
    pub(super) event: DeviceEvent,
    pub(super) done: WatchDone,
    pub(super) since: Instant,
}

impl Watch {
    fn number(&self) -> u64 {
        Event::of(&self.event).and_then(Event::place).map_or(0, |place| place.number)
    }
}

/// A watch that has ended.
pub(super) struct Finished {
    pub(super) watch: Watch,
    pub(super) result: Result<()>,
    /// How long it took, at least.
    pub(super) latency: Duration,
}

/// The watches in flight.
pub(super) struct Lanes {
    by_stream: HashMap<u64, VecDeque<Watch>>,
    /// Events of no stream.
    single: Vec<Watch>,
    len: usize,
    looked: Instant,
}

impl Lanes {
    pub(super) fn new(now: Instant) -> Self {
        Self { by_stream: HashMap::new(), single: Vec::new(), len: 0, looked: now }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, watch: Watch) {
        self.len += 1;
        let Some(place) = Event::of(&watch.event).and_then(Event::place) else { return self.single.push(watch) };
        let lane = self.by_stream.entry(place.stream).or_default();
        // Watchers may overtake one another, by little.
        let at = lane.iter().rposition(|other| other.number() <= place.number).map_or(0, |before| before + 1);
        lane.insert(at, watch);
    }

    /// Moves what has ended to `finished`.
    pub(super) fn poll(&mut self, now: Instant, finished: &mut Vec<Finished>) {
        let looked = std::mem::replace(&mut self.looked, now);
        let before = finished.len();
        let mut end = |watch: Watch, result| {
            let latency = looked.saturating_duration_since(watch.since);
            finished.push(Finished { watch, result, latency });
        };
        self.by_stream.retain(|_, lane| {
            while let Some(result) = lane.front().and_then(outcome) {
                if let Some(watch) = lane.pop_front() {
                    end(watch, result);
                }
            }
            !lane.is_empty()
        });
        let mut at = 0;
        while at < self.single.len() {
            match outcome(&self.single[at]) {
                Some(result) => end(self.single.swap_remove(at), result),
                None => at += 1,
            }
        }
        self.len -= finished.len() - before;
    }
}

fn outcome(watch: &Watch) -> Option<Result<()>> {
    match watch.event.is_done() {
        Ok(false) => None,
        Ok(true) => Some(Ok(())),
        Err(error) => Some(Err(error)),
    }
}
