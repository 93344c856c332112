//! When the reactor looks, naps and sleeps. Pure: the clock is passed in.

use std::time::{Duration, Instant};

/// The longest that the reactor spins for what is in flight. A copy of a few KiB takes 8 µs.
const SPIN: Duration = Duration::from_micros(40);
/// The shortest nap: the kernel takes about as long to start and end one.
const NAP_MIN: Duration = Duration::from_micros(20);
/// The longest nap. A copy of 4 MiB takes 76 µs, and a slot that comes back a little late delays nobody: the others
/// are under way.
const NAP_MAX: Duration = Duration::from_micros(100);
/// How long the reactor stays awake with nothing in flight, if work tends to come that soon.
const LINGER: Duration = Duration::from_micros(100);
/// The most that a latency or a gap counts for.
const MOST: Duration = Duration::from_micros(400);

/// What the reactor does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Look again at once.
    Spin,
    /// Look again after so long, unless something wakes it.
    Nap(Duration),
    /// Sleep until something wakes it.
    Sleep,
}

/// Learns how long events take, and how soon work follows on work.
#[derive(Debug)]
pub(super) struct Pace {
    /// How long events take, at least: until the last look that did not find them done.
    latency: Mean,
    /// How soon new work comes once all is done.
    gap: Mean,
    /// The last arrival or completion.
    active: Instant,
    /// When the last thing in flight was done, if nothing is.
    idle: Option<Instant>,
    /// The next nap.
    nap: Duration,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            latency: Mean::new(Duration::ZERO, MOST),
            gap: Mean::new(MOST, MOST),
            active: now,
            idle: Some(now),
            nap: NAP_MIN,
        }
    }

    /// Something to wait for has come.
    pub(super) fn arrived(&mut self, now: Instant) {
        if let Some(idle) = self.idle.take() {
            self.gap.add(now.saturating_duration_since(idle));
        }
        self.stir(now);
    }

    /// Something is done, and was known not to be `latency` after it had come.
    pub(super) fn completed(&mut self, now: Instant, latency: Duration) {
        self.latency.add(latency);
        self.stir(now);
    }

    fn stir(&mut self, now: Instant) {
        self.active = now;
        // Where events take long, to look at once after one has come would only cost processor time.
        self.nap = (self.latency.get() / 4).clamp(NAP_MIN, NAP_MAX);
    }

    /// What to do, with so many events in flight.
    pub(super) fn next(&mut self, now: Instant, in_flight: usize) -> Next {
        if in_flight == 0 {
            let idle = *self.idle.get_or_insert(now);
            let soon = self.gap.get() < LINGER && now.saturating_duration_since(idle) < LINGER;
            return if soon { Next::Spin } else { Next::Sleep };
        }
        let brief = self.latency.get() < SPIN;
        if brief && now.saturating_duration_since(self.active) < SPIN {
            return Next::Spin;
        }
        let nap = self.nap;
        self.nap = (nap * 2).min(NAP_MAX);
        Next::Nap(nap)
    }
}

/// A mean that follows the last few samples. Samples above `most` count as that, so that one pause does not outweigh
/// what follows.
#[derive(Debug)]
pub(super) struct Mean {
    mean: Duration,
    most: Duration,
}

impl Mean {
    pub(super) fn new(start: Duration, most: Duration) -> Self {
        Self { mean: start, most }
    }

    pub(super) fn add(&mut self, sample: Duration) {
        self.mean = (self.mean * 3 + sample.min(self.most)) / 4;
    }

    pub(super) fn get(&self) -> Duration {
        self.mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// One event that takes `latency`, after a pause of `gap`. Returns what the reactor did while it was in flight and
    /// while it waited for the next one.
    fn event(pace: &mut Pace, now: &mut Instant, gap: Duration, latency: Duration) -> (Vec<Next>, Vec<Next>) {
        let (mut idle, mut busy) = (Vec::new(), Vec::new());
        let comes = *now + gap;
        while *now < comes {
            let next = pace.next(*now, 0);
            idle.push(next);
            *now = if next == Next::Sleep { comes } else { *now + US };
        }
        pace.arrived(*now);
        let (start, mut looked) = (*now, *now);
        loop {
            if *now - start >= latency {
                pace.completed(*now, looked - start);
                return (busy, idle);
            }
            looked = *now;
            let next = pace.next(*now, 1);
            busy.push(next);
            *now += match next {
                Next::Spin => US,
                Next::Nap(nap) => nap,
                Next::Sleep => panic!("asleep with work in flight"),
            };
        }
    }

    #[test]
    fn short_events_are_spun_for() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        for _ in 0..100 {
            let (busy, _) = event(&mut pace, &mut now, US * 1000, US * 8);
            assert!(busy.iter().all(|&next| next == Next::Spin));
        }
    }

    #[test]
    fn long_events_are_napped_for_once_that_is_known() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        for n in 0..100 {
            let (busy, _) = event(&mut pace, &mut now, US, US * 2000);
            if n > 3 {
                assert!(busy.iter().all(|next| matches!(next, Next::Nap(_))), "{n}: {busy:?}");
                assert!(busy.len() <= 24, "{} looks for 2 ms", busy.len());
            }
        }
    }

    #[test]
    fn short_events_after_long_ones_are_spun_for_again() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        for _ in 0..100 {
            event(&mut pace, &mut now, US, US * 2000);
        }
        let naps = (0..50).filter(|_| {
            let (busy, _) = event(&mut pace, &mut now, US * 50, US * 8);
            busy.iter().any(|next| matches!(next, Next::Nap(_)))
        });
        assert!(naps.count() < 10);
    }

    #[test]
    fn it_sleeps_at_once_when_work_is_rare() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        for _ in 0..20 {
            let (_, idle) = event(&mut pace, &mut now, US * 1000, US * 8);
            assert_eq!(idle, [Next::Sleep]);
        }
    }

    #[test]
    fn it_stays_awake_while_work_follows_on_work_and_no_longer() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        for n in 0..20 {
            let (_, idle) = event(&mut pace, &mut now, US * 10, US * 8);
            assert!(n < 8 || idle.iter().all(|&next| next == Next::Spin), "{n}: {idle:?}");
        }
        let (_, idle) = event(&mut pace, &mut now, US * 100_000, US * 8);
        assert!(idle.len() <= 101 && idle.last() == Some(&Next::Sleep), "{} looks", idle.len());
    }
}
