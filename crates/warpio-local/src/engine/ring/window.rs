//! How much is asked of storage at a time.

use std::time::{Duration, Instant};

use super::pieces::PIECE;

/// Bounds the bytes that are asked of one file system at once.
///
/// What more a disk is asked for than it works on only waits, makes every other read wait behind it, and spreads over
/// memory: a disk that copies, as of a virtual machine, is a third faster into memory that was used a moment ago. How
/// much a disk works on at once shows in how long reads take: the window grows while they take little longer than one
/// alone, and shrinks when most of their time is waiting. For that, a few are left alone at first, and now and then.
#[derive(Debug)]
pub(super) struct Window {
    limit: usize,
    in_flight: usize,
    /// How many reads are still to be left alone.
    probes: u32,
    /// What is in flight is one of them.
    probing: bool,
    /// The least time that one of them took, and what has come since.
    alone: Duration,
    renewed: Instant,
    /// What was read since the limit was last thought about: how much, how often, how long it took together, and whether
    /// there was more to ask for.
    bytes: usize,
    reads: u32,
    time: Duration,
    was_full: bool,
}

impl Window {
    /// Shorter reads do not count: they tell nothing about the speed of a disk, and take little memory.
    pub(super) const LEAST_READ: usize = 256 << 10;
    /// Some for the disk, and some that wait.
    const LEAST: usize = 8 * PIECE;
    const MOST: usize = 1 << 30;
    /// What a read takes alone is measured anew so often, by so many reads.
    const RENEW: Duration = Duration::from_secs(5);
    const PROBES: u32 = 3;

    pub(super) fn new(now: Instant) -> Self {
        Self {
            limit: Self::LEAST,
            in_flight: 0,
            probes: Self::PROBES,
            probing: false,
            alone: Duration::ZERO,
            renewed: now,
            bytes: 0,
            reads: 0,
            time: Duration::ZERO,
            was_full: false,
        }
    }

    /// Whether more may be asked for.
    pub(super) fn has_room(&self) -> bool {
        match self.probes {
            0 => self.in_flight < self.limit,
            _ => self.in_flight == 0,
        }
    }

    /// So many bytes are asked for.
    pub(super) fn begin(&mut self, bytes: usize) {
        self.probing = self.probes > 0 && self.in_flight == 0;
        self.in_flight += bytes;
        self.was_full |= self.in_flight >= self.limit;
    }

    /// What was asked for at `asked` has come. `None` where it was given up before.
    pub(super) fn end(&mut self, bytes: usize, asked: Option<Instant>, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        let probe = std::mem::take(&mut self.probing);
        if let Some(asked) = asked {
            let took = now.saturating_duration_since(asked);
            self.alone = if probe && self.probes == Self::PROBES { took } else { self.alone.min(took) };
            self.probes -= u32::from(probe);
            self.learn(bytes, took);
        }
        if now.saturating_duration_since(self.renewed) > Self::RENEW {
            (self.probes, self.renewed) = (Self::PROBES, now);
        }
    }

    fn learn(&mut self, bytes: usize, took: Duration) {
        self.bytes += bytes;
        self.reads += 1;
        self.time += took;
        if self.bytes < 4 * self.limit {
            return;
        }
        let mean = self.time / self.reads;
        // Two at a time take twice as long where the disk does one at a time.
        if self.was_full && 2 * mean < 3 * self.alone {
            self.limit = (self.limit * 2).min(Self::MOST);
        } else if mean > 3 * self.alone {
            self.limit = (self.limit / 2).max(Self::LEAST);
        }
        (self.bytes, self.reads, self.time, self.was_full) = (0, 0, Duration::ZERO, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length of each read.
    const LEN: usize = PIECE;
    const US: Duration = Duration::from_micros(1);

    /// Reads one piece after another for `time`, as many at a time as the window lets. `answer` says when storage answers a
    /// read, given when it is asked and when it answers the one before. Returns the window and the bytes per microsecond.
    fn read(time: Duration, answer: impl Fn(Duration, Duration) -> Duration) -> (Window, f64) {
        let start = Instant::now();
        let mut window = Window::new(start);
        let mut flying = std::collections::VecDeque::new();
        let (mut now, mut last, mut bytes) = (Duration::ZERO, Duration::ZERO, 0);
        while now < time {
            while window.has_room() {
                window.begin(LEN);
                last = answer(now, last);
                flying.push_back((now, last));
            }
            let (asked, answered) = flying.pop_front().expect("it always lets something through");
            now = answered;
            window.end(LEN, Some(start + asked), start + now);
            bytes += LEN;
        }
        flying.drain(..).for_each(|(asked, answered)| window.end(LEN, Some(start + asked), start + answered));
        (window, bytes as f64 / now.as_secs_f64() / 1e6)
    }

    #[test]
    fn a_disk_that_does_one_at_a_time_is_asked_for_little() {
        let (window, speed) = read(US * 20_000_000, |now, last| now.max(last) + US * 700);
        assert_eq!(window.limit, Window::LEAST);
        assert!(speed > 0.99 * LEN as f64 / 700.0, "{speed}");
    }

    #[test]
    fn a_disk_that_answers_when_nothing_is_left_to_do_is_asked_for_little() {
        let start = Instant::now();
        let mut window = Window::new(start);
        let mut now = Duration::ZERO;
        while now < US * 20_000_000 {
            let mut batch = 0;
            while window.has_room() {
                window.begin(LEN);
                batch += 1;
            }
            let asked = now;
            now += US * 700 * batch + US * 30;
            (0..batch).for_each(|_| window.end(LEN, Some(start + asked), start + now));
        }
        assert_eq!(window.limit, Window::LEAST);
    }

    #[test]
    fn storage_that_is_far_away_is_asked_for_as_much_as_it_sends() {
        // 5 ms away, 10 GB/s.
        let far = |now: Duration, last: Duration| (now + US * 5000).max(last + US * 210);
        let (window, speed) = read(US * 20_000_000, far);
        assert!(speed > 0.95 * LEN as f64 / 210.0, "{speed} with {window:?}");
        assert!(window.limit <= (128 << 20), "{window:?}");
    }

    #[test]
    fn a_quick_disk_is_kept_busy() {
        // 14 GB/s.
        let disk = |now: Duration, last: Duration| (now + US * 125).max(last + US * 150);
        let (_, speed) = read(US * 5_000_000, disk);
        assert!(speed > 0.98 * LEN as f64 / 150.0, "{speed}");
    }

    #[test]
    fn storage_that_comes_closer_is_asked_for_less_again() {
        let moves = |now: Duration, last: Duration| match now < US * 10_000_000 {
            true => (now + US * 5000).max(last + US * 210),
            false => now.max(last) + US * 700,
        };
        let (window, _) = read(US * 30_000_000, moves);
        assert_eq!(window.limit, Window::LEAST, "{window:?}");
    }

    #[test]
    fn what_was_given_up_leaves_room() {
        let now = Instant::now();
        let mut window = Window::new(now);
        window.begin(Window::LEAST);
        assert!(!window.has_room());
        window.end(Window::LEAST, None, now);
        assert!(window.has_room());
    }

    #[test]
    fn reads_that_were_in_flight_before_are_no_probes() {
        let start = Instant::now();
        let (mut window, _) = read(US * 1_000_000, |now, last| (now + US * 5000).max(last + US * 210));
        let many = window.limit / LEN;
        assert!(many > 4, "{window:?}");
        let later = start + US * 20_000_000;
        (0..many).for_each(|_| window.begin(LEN));
        window.end(LEN, Some(later), later + US * 9000);
        for left in (1..many).rev() {
            assert!(!window.has_room(), "{left} are still in flight");
            window.end(LEN, Some(later), later + US * 9000);
        }
        for _ in 0..Window::PROBES {
            assert!(window.has_room());
            window.begin(LEN);
            assert!(!window.has_room());
            window.end(LEN, Some(later), later + US * 7000);
        }
        assert_eq!(window.alone, US * 7000);
        window.begin(LEN);
        assert!(window.has_room());
    }
}
