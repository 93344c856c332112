use std::time::Duration;

/// How many requests run at once to one server: more while that brings more bytes per second, fewer when the server
/// says that it is too much. A state machine without a clock: time is given to it, as what passed since any fixed
/// moment.
#[derive(Clone, Debug)]
pub(crate) struct Concurrency {
    limit: usize,
    most: usize,
    fixed: bool,
    state: State,
    /// The window that is being measured.
    window: Window,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    /// More are tried: the rate before, and how many there were then.
    Growing { before: f64, from: usize },
    /// More brought nothing at the last try.
    Steady { until: Duration },
    /// The server said that it is too much.
    Throttled { until: Duration },
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    start: Option<Duration>,
    bytes: u64,
    /// Requests that ended in it.
    ended: usize,
    /// All requests that may run did, all the time.
    full: bool,
}

/// A rate that is measured over less is noise.
const WINDOW: Duration = Duration::from_millis(100);
/// More requests must bring at least so much more.
const GAIN: f64 = 1.1;
/// How long nothing is tried after more brought nothing, and after the server said that it is too much.
const HOLD: Duration = Duration::from_secs(10);
const PENALTY: Duration = Duration::from_secs(2);

impl Concurrency {
    /// Begins with `first` requests; `most` are never exceeded.
    pub(crate) fn new(first: usize, most: usize, fixed: bool) -> Self {
        let most = most.max(1);
        let limit = if fixed { most } else { first.clamp(1, most) };
        let state = State::Growing { before: 0.0, from: limit };
        Self { limit, most, fixed, state, window: Window::default() }
    }

    /// How many requests may run.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether their number has been found, for the time being.
    pub(crate) fn is_settled(&self) -> bool {
        self.fixed || self.limit == self.most || !matches!(self.state, State::Growing { .. })
    }

    /// A request ended after it brought `bytes`; `waiting` is whether more work was there than could be begun.
    pub(crate) fn ended(&mut self, bytes: u64, waiting: bool, now: Duration) {
        if self.fixed {
            return;
        }
        let window = &mut self.window;
        let Some(start) = window.start else {
            *window = Window { start: Some(now), bytes: 0, ended: 0, full: waiting };
            return;
        };
        window.bytes += bytes;
        window.ended += 1;
        window.full &= waiting;
        let time = now.saturating_sub(start);
        // Each request must have ended about once, so that what is counted is what this limit brings.
        if time < WINDOW || window.ended < self.limit {
            return;
        }
        let (rate, full) = (window.bytes as f64 / time.as_secs_f64(), window.full);
        *window = Window { start: Some(now), bytes: 0, ended: 0, full: waiting };
        if full {
            self.measured(rate, now);
        }
    }

    fn measured(&mut self, rate: f64, now: Duration) {
        match self.state {
            State::Growing { before, from } => {
                let grew = self.limit > from;
                if grew && rate < before * GAIN {
                    self.limit = from;
                    self.state = State::Steady { until: now + HOLD };
                } else {
                    self.grow(rate, self.limit * 2);
                }
            }
            State::Steady { until } | State::Throttled { until } if now >= until => {
                let step = (self.limit / 4).max(1);
                self.grow(rate, self.limit + step);
            }
            State::Steady { .. } | State::Throttled { .. } => {}
        }
    }

    fn grow(&mut self, rate: f64, to: usize) {
        self.state = State::Growing { before: rate, from: self.limit };
        self.limit = to.min(self.most);
        self.window = Window::default();
    }

    /// The server said that it is too much.
    pub(crate) fn throttled(&mut self, now: Duration) {
        if self.fixed {
            return;
        }
        // Those that were sent before it said so first say it too, and count once.
        if !matches!(self.state, State::Throttled { until } if until > now) {
            self.limit = (self.limit / 2).max(1);
        }
        self.state = State::Throttled { until: now + PENALTY };
        self.window = Window::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lets a server that brings `rate(limit)` bytes per second in all serve for so many windows.
    fn serve(state: &mut Concurrency, now: &mut Duration, windows: usize, rate: impl Fn(usize) -> f64) -> Vec<usize> {
        let mut limits = Vec::new();
        for _ in 0..windows {
            let limit = state.limit();
            let bytes = rate(limit) * WINDOW.as_secs_f64() * 1.01 / limit as f64;
            state.ended(0, true, *now);
            *now += WINDOW + WINDOW / 100;
            for _ in 0..limit {
                state.ended(bytes as u64, true, *now);
            }
            limits.push(state.limit());
        }
        limits
    }

    #[test]
    fn it_grows_while_the_rate_grows_and_goes_back_where_it_does_not() {
        let mut state = Concurrency::new(4, 64, false);
        let mut now = Duration::ZERO;
        assert!(!state.is_settled());
        serve(&mut state, &mut now, 20, |limit| 100e6 * limit.min(16) as f64);
        assert_eq!((state.limit(), state.is_settled()), (16, true));
    }

    #[test]
    fn it_goes_to_the_limit_where_every_request_has_its_own_rate() {
        let mut state = Concurrency::new(4, 50, false);
        serve(&mut state, &mut Duration::default(), 20, |limit| 100e6 * limit as f64);
        assert_eq!(state.limit(), 50);
    }

    #[test]
    fn one_that_is_enough_stays_one() {
        let mut state = Concurrency::new(1, 64, false);
        serve(&mut state, &mut Duration::default(), 20, |_| 1e9);
        assert_eq!(state.limit(), 1);
    }

    #[test]
    fn too_much_halves_it_once_and_it_comes_back_slowly() {
        let mut state = Concurrency::new(32, 64, false);
        let mut now = Duration::from_secs(5);
        (0..20).for_each(|_| state.throttled(now));
        assert_eq!(state.limit(), 16);
        let limits = serve(&mut state, &mut now, 10, |limit| 1e6 * limit as f64);
        assert_eq!(limits, [16; 10], "nothing is tried for a while");
        now += PENALTY;
        let limits = serve(&mut state, &mut now, 3, |limit| 1e6 * limit as f64);
        assert!(limits[2] > 16, "{limits:?}");
        for _ in 0..10 {
            now += PENALTY * 2;
            state.throttled(now);
        }
        assert_eq!(state.limit(), 1);
    }

    #[test]
    fn a_server_that_had_nothing_to_do_says_nothing() {
        let mut state = Concurrency::new(4, 64, false);
        let mut now = Duration::ZERO;
        for _ in 0..100 {
            now += WINDOW;
            state.ended(1 << 20, false, now);
        }
        assert_eq!(state.limit(), 4);
    }

    #[test]
    fn a_fixed_number_stays() {
        let mut state = Concurrency::new(4, 9, true);
        state.throttled(Duration::ZERO);
        serve(&mut state, &mut Duration::default(), 20, |_| 1.0);
        assert_eq!(state.limit(), 9);
    }

    proptest! {
        #[test]
        fn it_stays_within_its_bounds(
            events in proptest::collection::vec((0u64..1 << 30, any::<bool>(), 0u64..500, 0u8..8), 0..200),
            first in 0usize..100, most in 0usize..80,
        ) {
            let mut state = Concurrency::new(first, most, false);
            let mut now = Duration::ZERO;
            for (bytes, waiting, ms, kind) in events {
                now += Duration::from_millis(ms);
                match kind {
                    0 => state.throttled(now),
                    _ => state.ended(bytes, waiting, now),
                }
                prop_assert!((1..=most.max(1)).contains(&state.limit()));
            }
        }
    }
}
