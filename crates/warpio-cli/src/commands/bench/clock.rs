//! How long something takes, and how much of the processors.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Runs from when it is made.
#[derive(Debug)]
pub(super) struct Clock {
    started: Instant,
    cpu: Duration,
}

/// What a [`Clock`] shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) elapsed: Duration,
    /// Time of all threads of the process, in the kernel too.
    pub(super) cpu: Duration,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { cpu: cpu(), started: Instant::now() }
    }

    pub(super) fn read(&self) -> Reading {
        Reading { elapsed: self.started.elapsed(), cpu: cpu().saturating_sub(self.cpu) }
    }
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // It counts from the start of the process.
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The index of the median; of an even number, that of the slower in the middle, so that it is a round that there was.
pub(super) fn median(rounds: &[Reading]) -> Option<usize> {
    let mut order: Vec<usize> = (0..rounds.len()).collect();
    order.sort_by_key(|&n| rounds[n].elapsed);
    order.get(rounds.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(millis: &[u64]) -> Vec<Reading> {
        millis.iter().map(|&ms| Reading { elapsed: Duration::from_millis(ms), cpu: Duration::ZERO }).collect()
    }

    #[test]
    fn the_median_is_a_round_and_of_two_the_slower() {
        for (times, index) in [(&[7][..], Some(0)), (&[9, 1, 5], Some(2)), (&[9, 1], Some(0)), (&[4, 3, 2, 1], Some(1))]
        {
            assert_eq!(median(&rounds(times)), index, "{times:?}");
        }
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn work_costs_time_of_the_processor() {
        let clock = Clock::start();
        while clock.read().cpu < Duration::from_millis(5) {
            std::hint::black_box(clock.read());
        }
        assert!(clock.read().elapsed > Duration::ZERO);
    }
}
