use std::time::Duration;

/// How much one request asks for. A request costs a round trip in which its connection carries nothing, so that a part
/// must be long against that; but the parts of a transfer must also keep all connections busy until its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartLength {
    /// What is not split further, in bytes.
    least: u64,
    fixed: Option<u64>,
    /// Smoothed: seconds from a request to its reply, and bytes per second of one body.
    latency: f64,
    rate: f64,
}

/// Longer parts bring nothing more, and a part that fails costs more.
const MOST: u64 = 64 << 20;
/// The wait is then a sixteenth of the whole.
const WAITS: f64 = 15.0;
/// How much the newest measurement counts.
const WEIGHT: f64 = 0.2;

impl PartLength {
    /// Parts of at least `least` bytes, or of exactly `fixed`.
    pub(crate) fn new(least: u64, fixed: Option<u64>) -> Self {
        Self { least: least.max(1), fixed, latency: 0.0, rate: 0.0 }
    }

    /// A reply came after `latency`, and its `bytes` in `time` from then on.
    pub(crate) fn measured(&mut self, latency: Duration, bytes: u64, time: Duration) {
        let smooth = |old: &mut f64, new: f64| *old = if *old == 0.0 { new } else { *old + WEIGHT * (new - *old) };
        smooth(&mut self.latency, latency.as_secs_f64());
        // Bodies that were there with their head tell no rate.
        if bytes >= self.least.min(64 << 10) {
            smooth(&mut self.rate, bytes as f64 / time.as_secs_f64().max(1e-6));
        }
    }

    /// Whether a body that brought `bytes` in `time` has less than half of the usual rate. Before one is known, every
    /// body may be slow.
    pub(crate) fn is_slow(&self, bytes: u64, time: Duration) -> bool {
        self.rate == 0.0 || (bytes as f64) < self.rate / 2.0 * time.as_secs_f64()
    }

    /// The length of the next part, where `left` bytes are left to ask for on `connections` connections.
    pub(crate) fn next(&self, left: u64, connections: usize) -> u64 {
        if let Some(fixed) = self.fixed {
            return fixed.max(1);
        }
        let efficient = (WAITS * self.latency * self.rate) as u64;
        let fair = left / connections.max(1) as u64;
        efficient.min(MOST).min(fair).max(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn measured(latency_ms: u64, mib_per_s: u64) -> PartLength {
        let mut part = PartLength::new(4 * MIB, None);
        part.measured(Duration::from_millis(latency_ms), mib_per_s * MIB, Duration::from_secs(1));
        part
    }

    #[test]
    fn long_waits_ask_for_long_parts() {
        assert_eq!(measured(0, 2000).next(u64::MAX, 8), 4 * MIB);
        assert_eq!(measured(10, 100).next(u64::MAX, 8), 15 * MIB);
        assert_eq!(measured(50, 100).next(u64::MAX, 8), 64 * MIB);
        let near = measured(50, 60).next(u64::MAX, 8) as f64;
        let share = near / (near + 0.05 * 60.0 * MIB as f64);
        assert!(share > 0.9, "a connection carries bytes for {share} of its time");
    }

    #[test]
    fn the_end_of_a_transfer_is_shared_by_all_connections() {
        let part = measured(50, 100);
        assert_eq!(part.next(80 * MIB, 8), 10 * MIB);
        assert_eq!(part.next(8 * MIB, 8), 4 * MIB);
        assert_eq!(PartLength::new(MIB, None).next(u64::MAX, 8), MIB, "nothing is known yet");
        assert_eq!(PartLength::new(MIB, Some(7)).next(100, 8), 7);
    }

    #[test]
    fn a_body_is_slow_beside_those_before_it() {
        let part = measured(10, 100);
        let second = Duration::from_secs(1);
        assert!(part.is_slow(49 * MIB, second) && !part.is_slow(51 * MIB, second));
        assert!(PartLength::new(MIB, None).is_slow(u64::MAX, second), "nothing is known yet");
    }

    #[test]
    fn measurements_are_smoothed() {
        let mut part = measured(10, 100);
        part.measured(Duration::from_secs(10), 100 * MIB, Duration::from_secs(1));
        assert!(part.next(u64::MAX, 1) <= 64 * MIB);
        for _ in 0..50 {
            part.measured(Duration::from_millis(10), 100 * MIB, Duration::from_secs(1));
        }
        assert_eq!(part.next(u64::MAX, 1) / MIB, 15);
    }
}
