//! How long single reads take.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

/// The times of all reads of a round, shortest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Latencies(Vec<Duration>);

impl From<Vec<Duration>> for Latencies {
    fn from(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }
}

impl Latencies {
    /// The shortest time that at least this share of the reads did not exceed; zero of none.
    fn percentile(&self, share: f64) -> Duration {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.max(1) - 1).or(self.0.last()).copied().unwrap_or_default()
    }

    fn mean(&self) -> Duration {
        let count = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.iter().sum::<Duration>().checked_div(count).unwrap_or_default()
    }

    pub(super) fn summary(&self) -> Summary {
        Summary {
            mean: micros(self.mean()),
            p50: micros(self.percentile(0.5)),
            p90: micros(self.percentile(0.9)),
            p99: micros(self.percentile(0.99)),
            p999: micros(self.percentile(0.999)),
            max: micros(self.percentile(1.0)),
        }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Summary {
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    pub(super) max: f64,
}

impl Summary {
    pub(super) fn json(&self) -> Value {
        let Self { mean, p50, p90, p99, p999, max } = self;
        json!({"mean": mean, "p50": p50, "p90": p90, "p99": p99, "p99.9": p999, "max": max})
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { p50, p90, p99, p999, max, .. } = self;
        write!(f, "µs: 50 % {p50:.1}, 90 % {p90:.1}, 99 % {p99:.1}, 99.9 % {p999:.1}, longest {max:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(micros: impl IntoIterator<Item = u64>) -> Summary {
        Latencies::from(micros.into_iter().map(Duration::from_micros).collect::<Vec<_>>()).summary()
    }

    #[test]
    fn a_percentile_is_a_time_that_there_was() {
        let summary = of((1..=1000).rev());
        assert_eq!((summary.p50, summary.p90, summary.p99, summary.p999), (500.0, 900.0, 990.0, 999.0));
        assert_eq!((summary.max, summary.mean), (1000.0, 500.5));
    }

    #[test]
    fn of_one_they_are_all_the_same_and_of_none_zero() {
        let one = of([7]);
        assert_eq!([one.mean, one.p50, one.p90, one.p99, one.p999, one.max], [7.0; 6]);
        assert_eq!(of([]), Summary::default());
    }

    #[test]
    fn one_slow_read_of_many_shows_at_the_end_only() {
        let summary = of([10; 99].into_iter().chain([5000]));
        assert_eq!((summary.p50, summary.p99, summary.p999, summary.max), (10.0, 10.0, 5000.0, 5000.0));
    }
}
