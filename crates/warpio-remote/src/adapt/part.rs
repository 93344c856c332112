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

/// Longer parts bring nothing more.
const MOST: u64 = 256 << 20;
/// While the number of connections is still being found out, which each part's end tells something about.
const MOST_AT_FIRST: u64 = 64 << 20;
/// The wait is then a thirty-second of the whole.
const WAITS: f64 = 31.0;
/// Bytes per second of one body, as long as none has been seen.
const LIKELY_RATE: f64 = 50e6;
/// How much the newest measurement counts.
const WEIGHT: f64 = 0.2;

impl PartLength {
    /// Parts of at least `least` bytes, or of exactly `fixed`.
    pub(crate) fn new(least: u64, fixed: Option<u64>) -> Self {
        Self { least: least.max(1), fixed, latency: 0.0, rate: 0.0 }
    }

    /// A reply came after `latency`.
    pub(crate) fn waited(&mut self, latency: Duration) {
        smooth(&mut self.latency, latency.as_secs_f64());
    }

    /// A body brought `bytes` in `time`.
    pub(crate) fn received(&mut self, bytes: u64, time: Duration) {
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

    /// The length of the next part, where `left` bytes are to be asked for, `coming` have been and are not here yet, and
    /// all shall end together on `connections` connections. `settled` is whether their number has been found.
    pub(crate) fn next(&self, left: u64, coming: u64, connections: usize, settled: bool) -> u64 {
        if let Some(fixed) = self.fixed {
            return fixed.max(1);
        }
        let rate = if self.rate == 0.0 { LIKELY_RATE } else { self.rate };
        let efficient = (WAITS * self.latency * rate) as u64;
        let most = if settled { MOST } else { MOST_AT_FIRST };
        let fair = left.saturating_add(coming) / connections.max(1) as u64;
        efficient.min(most).min(fair).max(self.least)
    }
}

/// Moves `old` towards what was measured.
fn smooth(old: &mut f64, new: f64) {
    *old = if *old == 0.0 { new } else { *old + WEIGHT * (new - *old) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn measured(latency_ms: u64, mib_per_s: u64) -> PartLength {
        let mut part = PartLength::new(4 * MIB, None);
        part.waited(Duration::from_millis(latency_ms));
        part.received(mib_per_s * MIB, Duration::from_secs(1));
        part
    }

    /// Much is left.
    fn long(part: PartLength) -> u64 {
        part.next(1 << 50, 0, 8, true)
    }

    #[test]
    fn long_waits_ask_for_long_parts() {
        assert_eq!(long(measured(0, 2000)), 4 * MIB);
        assert_eq!(long(measured(10, 100)), 31 * MIB);
        assert_eq!(long(measured(100, 100)), 256 * MIB);
        assert_eq!(measured(100, 100).next(1 << 50, 0, 8, false), 64 * MIB, "each end of a part tells something");
        let near = long(measured(50, 60)) as f64;
        let share = near / (near + 0.05 * 60.0 * MIB as f64);
        assert!(share > 0.95, "a connection carries bytes for {share} of its time");
    }

    #[test]
    fn the_first_part_knows_how_long_the_first_reply_took() {
        let mut part = PartLength::new(4 * MIB, None);
        assert_eq!(long(part), 4 * MIB, "nothing is known yet");
        part.waited(Duration::from_millis(50));
        assert_eq!(long(part), 77_500_000);
    }

    #[test]
    fn all_connections_end_together() {
        let part = measured(500, 100);
        assert_eq!(part.next(80 * MIB, 0, 8, true), 10 * MIB);
        assert_eq!(part.next(8 * MIB, 0, 8, true), 4 * MIB);
        // Whatever has been given out, each gets the same, and nothing is left.
        let (mut left, mut coming) = (800 * MIB, 0);
        for _ in 0..8 {
            let next = part.next(left, coming, 8, true);
            assert_eq!(next, 100 * MIB);
            (left, coming) = (left - next, coming + next);
        }
        assert_eq!(left, 0);
        assert_eq!(PartLength::new(MIB, Some(7)).next(100, 0, 8, true), 7);
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
        part.waited(Duration::from_secs(10));
        assert_eq!(long(part), 256 * MIB);
        for _ in 0..80 {
            part.waited(Duration::from_millis(10));
            part.received(100 * MIB, Duration::from_secs(1));
        }
        assert_eq!(long(part) / MIB, 31);
    }
}
