//! What the reactor waits for, by stream: events of one stream happen in order, so only the first is asked.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use warpio_core::{DeviceEvent, Result, WatchDone};

use super::pace::Mean;
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

    /// How much the event waits for, in bytes.
    fn copied(&self) -> usize {
        Event::of(&self.event).and_then(Event::place).map_or(0, |place| place.copied)
    }
}

/// A watch that has ended.
pub(super) struct Finished {
    pub(super) watch: Watch,
    pub(super) result: Result<()>,
    /// How long it took, at least.
    pub(super) latency: Duration,
}

/// Copies of this much take long enough to be asked for seldom, in bytes.
const LARGE: usize = 1 << 20;
/// The most that the time of large copies counts for.
const MOST: Duration = Duration::from_millis(1);
/// A stream that has lain still for so long is forgotten.
const FORGET: Duration = Duration::from_secs(1);
/// So many streams are known before those that lie still are looked for.
const MANY: usize = 64;

/// The watches in flight.
pub(super) struct Lanes {
    by_stream: HashMap<u64, Lane>,
    /// Events of no stream.
    single: Vec<Watch>,
    len: usize,
    looked: Instant,
}

/// The watches of one stream.
struct Lane {
    watches: VecDeque<Watch>,
    patience: Patience,
    used: Instant,
}

/// When a large copy is worth a question. The driver's answer takes a lock that whoever starts a copy needs too.
struct Patience {
    /// How long such copies took of late, the wait for the link included.
    mean: Mean,
    /// The copy that is waited for was asked for before.
    asked: bool,
}

impl Patience {
    fn new() -> Self {
        Self { mean: Mean::new(Duration::ZERO, MOST), asked: false }
    }

    /// Whether a copy of that age may have ended.
    fn is_over(&self, age: Duration) -> bool {
        age >= self.mean.get() * 3 / 4
    }

    /// Learns what the answer was.
    fn learn(&mut self, age: Duration, done: bool) {
        let first = !std::mem::replace(&mut self.asked, !done);
        if done {
            // At the first question, it may have been so for long.
            self.mean.add(if first { age / 4 } else { age });
        }
    }
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
        let lane = &mut self.by_stream.entry(place.stream).or_insert_with(|| Lane::new(watch.since)).watches;
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
        for lane in self.by_stream.values_mut() {
            lane.poll(now, &mut end);
        }
        if self.by_stream.len() > MANY {
            self.by_stream
                .retain(|_, lane| !lane.watches.is_empty() || now.saturating_duration_since(lane.used) < FORGET);
        }
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

impl Lane {
    fn new(now: Instant) -> Self {
        Self { watches: VecDeque::new(), patience: Patience::new(), used: now }
    }

    /// Gives what has ended to `end`.
    fn poll(&mut self, now: Instant, mut end: impl FnMut(Watch, Result<()>)) {
        while let Some(watch) = self.watches.front() {
            self.used = now;
            let age = now.saturating_duration_since(watch.since);
            let large = watch.copied() >= LARGE;
            if large && !self.patience.is_over(age) {
                return;
            }
            let result = outcome(watch);
            if large {
                self.patience.learn(age, result.is_some());
            }
            let Some(result) = result else { return };
            if let Some(watch) = self.watches.pop_front() {
                end(watch, result);
            }
        }
    }
}

fn outcome(watch: &Watch) -> Option<Result<()>> {
    match watch.event.is_done() {
        Ok(false) => None,
        Ok(true) => Some(Ok(())),
        Err(error) => Some(Err(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// One copy that takes `latency`, looked for every 100 µs. Returns the number of questions and when it was seen.
    fn copy(patience: &mut Patience, latency: Duration) -> (u32, Duration) {
        let (mut age, mut questions) = (Duration::ZERO, 0);
        loop {
            age += US * 100;
            if patience.is_over(age) {
                questions += 1;
                patience.learn(age, age >= latency);
                if age >= latency {
                    return (questions, age);
                }
            }
        }
    }

    #[test]
    fn long_copies_are_asked_for_near_their_end_only() {
        let mut patience = Patience::new();
        let all: Vec<_> = (0..100).map(|_| copy(&mut patience, US * 900)).collect();
        assert_eq!(all[0].0, 9);
        let questions: u32 = all.iter().skip(10).map(|&(questions, _)| questions).sum();
        assert!(questions <= 90 * 4, "{questions} questions for 90 copies");
        assert!(all.iter().all(|&(_, seen)| seen == US * 900), "{all:?}");
    }

    #[test]
    fn copies_that_become_short_are_soon_seen_in_time() {
        let mut patience = Patience::new();
        for _ in 0..100 {
            copy(&mut patience, US * 900);
        }
        let late: Vec<_> = (0..20).map(|_| copy(&mut patience, US * 80).1).collect();
        assert!(late[0] <= MOST, "{late:?}");
        assert_eq!(late[19], US * 100, "{late:?}");
    }
}
