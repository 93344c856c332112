//! How much is asked of storage at a time.

use std::time::{Duration, Instant};

use super::climb::Climb;
use super::pieces::PIECE;

/// Bounds the bytes that are asked of one file system at once.
///
/// What more a disk is asked for than it works on only waits, makes every other read wait behind it, and spreads over
/// memory: a disk that copies, as of a virtual machine, is a third faster into memory that was used a moment ago. One that
/// is asked for too little is idle now and then. Where the two meet differs from machine to machine, so the bound is
/// [searched](Climb) while there is more to read than it lets through, by the time that spans of it take.
#[derive(Debug)]
pub(super) struct Window {
    climb: Climb,
    in_flight: usize,
    span: Span,
    /// When the last read came.
    last: Instant,
}

/// What has come at one bound.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// Bytes that were asked for at another bound and are still to come.
    others: usize,
    since: Instant,
    bytes: usize,
    /// All that may be in flight was.
    was_full: bool,
}

impl Span {
    fn begin(since: Instant, others: usize) -> Self {
        Self { others, since, bytes: 0, was_full: false }
    }

    fn add(&mut self, bytes: usize, now: Instant) {
        match self.others {
            0 => self.bytes += bytes,
            _ => (self.others, self.since) = (self.others.saturating_sub(bytes), now),
        }
    }
}

impl Window {
    /// Shorter reads do not count: they tell nothing about the speed of a disk, and take little memory.
    pub(super) const LEAST_READ: usize = 256 << 10;
    /// One for the disk, and one that waits: the best for most disks.
    const LEAST: usize = 2 * PIECE;
    const MOST: usize = 1 << 30;
    /// A span is at least so long, in bytes, and so many times its bound.
    const SPAN: usize = 32 << 20;
    const BOUNDS: usize = 4;
    /// What comes closer together than that may have been answered at once.
    const TOGETHER: Duration = Duration::from_micros(100);
    /// Storage that is asked for nothing for so long has nothing to do.
    const IDLE: Duration = Duration::from_millis(1);

    pub(super) fn new(now: Instant) -> Self {
        let climb = Climb::new(Self::LEAST, Self::LEAST, Self::MOST);
        Self { climb, in_flight: 0, span: Span::begin(now, 0), last: now }
    }

    /// Whether more may be asked for.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.climb.bound()
    }

    /// So many bytes are asked for.
    pub(super) fn begin(&mut self, bytes: usize, now: Instant) {
        if self.in_flight == 0 && now.saturating_duration_since(self.last) > Self::IDLE {
            self.spoil(now);
        }
        self.in_flight += bytes;
        self.span.was_full |= self.in_flight >= self.climb.bound();
    }

    /// So many bytes have come.
    pub(super) fn end(&mut self, bytes: usize, now: Instant) {
        let after = now.saturating_duration_since(self.last);
        let (least, most) = self.lengths();
        if (self.span.bytes >= least && after > Self::TOGETHER) || self.span.bytes >= most {
            self.learn();
        }
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.span.add(bytes, now);
        self.last = now;
    }

    /// So many bytes were given up.
    pub(super) fn give_up(&mut self, bytes: usize) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    /// Where a span ends: between two answers, and anywhere.
    fn lengths(&self) -> (usize, usize) {
        let least = Self::SPAN.max(Self::BOUNDS * self.climb.bound());
        (least, 2 * least)
    }

    fn learn(&mut self) {
        let time = self.last.saturating_duration_since(self.span.since).as_secs_f64();
        let before = self.climb.best();
        match self.span.was_full {
            true => self.climb.measured(time / self.span.bytes as f64),
            false => self.climb.spoilt(),
        }
        if self.climb.best() != before {
            tracing::debug!(bytes = self.climb.best(), "storage is asked for so much at a time");
        }
        self.span = Span::begin(self.last, self.in_flight);
    }

    fn spoil(&mut self, now: Instant) {
        self.climb.spoilt();
        self.span = Span::begin(now, self.in_flight);
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
                window.begin(LEN, start + now);
                last = answer(now, last);
                flying.push_back(last);
            }
            now = flying.pop_front().expect("it always lets something through");
            window.end(LEN, start + now);
            bytes += LEN;
        }
        flying.drain(..).for_each(|answered| window.end(LEN, start + answered));
        (window, bytes as f64 / now.as_secs_f64() / 1e6)
    }

    #[test]
    fn a_disk_that_does_one_at_a_time_is_asked_for_little() {
        let (window, speed) = read(US * 20_000_000, |now, last| now.max(last) + US * 700);
        assert!(window.climb.bound() <= 4 * Window::LEAST, "{window:?}");
        assert!(speed > 0.99 * LEN as f64 / 700.0, "{speed}");
    }

    /// Reads from a disk that answers all that it was asked for at once, and then is idle for a moment. Returns the window
    /// and the bytes per microsecond of the second half.
    fn read_from_one_that_answers_at_once(one: impl Fn(u32) -> Duration, idle: Duration) -> (Window, f64) {
        let start = Instant::now();
        let mut window = Window::new(start);
        let (mut now, mut bytes) = (Duration::ZERO, 0);
        while now < US * 30_000_000 {
            let mut batch = 0;
            while window.has_room() {
                window.begin(LEN, start + now);
                batch += 1;
            }
            now += one(batch) * batch + idle;
            (0..batch).for_each(|_| window.end(LEN, start + now));
            bytes += if now > US * 15_000_000 { LEN * batch as usize } else { 0 };
        }
        (window, bytes as f64 / (now - US * 15_000_000).as_secs_f64() / 1e6)
    }

    #[test]
    fn a_disk_that_answers_when_nothing_is_left_to_do_is_asked_for_little() {
        let (window, _) = read_from_one_that_answers_at_once(|_| US * 700, US * 30);
        assert!(window.climb.bound() <= 4 * Window::LEAST, "{window:?}");
    }

    #[test]
    fn a_disk_that_is_idle_after_each_answer_is_asked_for_more() {
        let (window, speed) = read_from_one_that_answers_at_once(|_| US * 700, US * 300);
        assert!(window.climb.bound() >= 8 * PIECE, "{window:?}");
        assert!(speed > 0.94 * LEN as f64 / 700.0, "{speed}");
    }

    #[test]
    fn a_disk_that_is_faster_into_little_memory_is_asked_for_little() {
        let (window, speed) = read_from_one_that_answers_at_once(|batch| US * 700 + US * 60 * batch.ilog2(), US * 30);
        assert!(window.climb.bound() <= 2 * Window::LEAST, "{window:?}");
        assert!(speed > 0.96 * LEN as f64 / 775.0, "{speed}");
    }

    #[test]
    fn storage_that_is_far_away_is_asked_for_as_much_as_it_sends() {
        // 5 ms away, 10 GB/s.
        let far = |now: Duration, last: Duration| (now + US * 5000).max(last + US * 210);
        let (window, speed) = read(US * 20_000_000, far);
        assert!(speed > 0.95 * LEN as f64 / 210.0, "{speed} with {window:?}");
        assert!(window.climb.best() <= (128 << 20), "{window:?}");
    }

    #[test]
    fn a_quick_disk_is_kept_busy() {
        // 14 GB/s.
        let disk = |now: Duration, last: Duration| (now + US * 125).max(last + US * 150);
        let (_, speed) = read(US * 5_000_000, disk);
        assert!(speed > 0.98 * LEN as f64 / 150.0, "{speed}");
    }

    #[test]
    fn what_was_given_up_leaves_room() {
        let now = Instant::now();
        let mut window = Window::new(now);
        window.begin(Window::LEAST, now);
        assert!(!window.has_room());
        window.give_up(Window::LEAST);
        assert!(window.has_room());
    }

    #[test]
    fn what_comes_seldom_teaches_nothing() {
        let start = Instant::now();
        let mut window = Window::new(start);
        for n in 0..10_000 {
            let now = start + US * 5000 * n;
            (0..4).for_each(|_| window.begin(LEN, now));
            (0..4).for_each(|_| window.end(LEN, now + US * if n % 2 == 0 { 500 } else { 50 }));
            assert_eq!(window.climb.bound(), Window::LEAST);
        }
    }
}
