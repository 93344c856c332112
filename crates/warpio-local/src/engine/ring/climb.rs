//! A search for the bound at which storage is fastest.

/// The best bound so far. Half of it and double of it are tried by turns, and it moves to what is faster.
///
/// What a disk gives changes from moment to moment. So a trial is compared with what the best bound gave right before and
/// right after it, and the mean of several trials counts.
#[derive(Debug)]
pub(super) struct Climb {
    best: usize,
    least: usize,
    most: usize,
    state: State,
    /// The seconds by the byte of the last span at the best bound, if only a trial has come since.
    before: Option<f64>,
    /// Spans at the best bound until the next trial.
    rest: u32,
    next: Side,
    /// By [`Side`].
    scores: [Score; 2],
}

#[derive(Clone, Copy, Debug)]
enum State {
    AtBest,
    Trying(Side),
    /// At the best bound again, after a trial that took so many seconds by the byte.
    Tried(Side, f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Half,
    Double,
}

/// The time that trials of one side took, as a share of the best bound's.
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    trials: u32,
    mean: f64,
    variance: f64,
}

impl Score {
    /// So many trials count.
    const MEMORY: u32 = 32;
    /// A side is known after so many, and after few if they say that it is slower.
    const ENOUGH: u32 = 16;
    const FEW: u32 = 4;

    fn add(&mut self, share: f64) {
        self.trials += 1;
        let (weight, off) = (1.0 / self.counted(), share - self.mean);
        self.mean += weight * off;
        self.variance = (1.0 - weight) * (self.variance + weight * off * off);
    }

    fn counted(&self) -> f64 {
        f64::from(self.trials.min(Self::MEMORY))
    }

    fn error(&self) -> f64 {
        (self.variance / self.counted()).sqrt()
    }

    fn is_known(&self) -> bool {
        let is_slower = self.trials >= Self::FEW && self.mean - 2.0 * self.error() > 1.0;
        is_slower || self.trials >= Self::ENOUGH
    }

    /// Whether it is faster, and not by chance. The spans of a disk differ by a sixth, and nothing but starving on the way
    /// to it halves their time.
    fn is_better(&self) -> bool {
        match self.trials {
            0..2 => false,
            2..8 => self.mean < 0.65,
            _ => self.mean + 2.0 * self.error() < 0.99,
        }
    }
}

impl Climb {
    /// So many spans at the best bound come before a trial, at first and when both sides are known. What is read into more
    /// memory also slows down what comes next.
    const EAGER: u32 = 1;
    const CALM: u32 = 14;

    /// Starts at `best` and stays between `least` and `most`.
    pub(super) fn new(best: usize, least: usize, most: usize) -> Self {
        Self {
            best,
            least,
            most,
            state: State::AtBest,
            before: None,
            rest: Self::EAGER,
            next: Side::Double,
            scores: [Score::default(); 2],
        }
    }

    /// The best bound so far.
    pub(super) fn best(&self) -> usize {
        self.best
    }

    /// The bound for the next span.
    pub(super) fn bound(&self) -> usize {
        match self.state {
            State::Trying(side) => self.beside(side),
            State::AtBest | State::Tried(..) => self.best,
        }
    }

    fn beside(&self, side: Side) -> usize {
        match side {
            Side::Half => (self.best / 2).max(self.least),
            Side::Double => (self.best * 2).min(self.most),
        }
    }

    /// A span at the [bound](Self::bound) took so many seconds by the byte.
    pub(super) fn measured(&mut self, time: f64) {
        let Some(before) = self.before else { return self.rest_after(time) };
        match self.state {
            State::AtBest => self.rest_after(time),
            State::Trying(side) => self.state = State::Tried(side, time),
            State::Tried(side, tried) => {
                let score = &mut self.scores[side as usize];
                score.add(2.0 * tried / (before + time));
                match score.is_better() {
                    true => self.move_to(side),
                    false => self.rest_after(time),
                }
            }
        }
    }

    /// A span told nothing.
    pub(super) fn spoilt(&mut self) {
        if let State::Trying(_) = self.state {
            self.rest = Self::CALM;
        }
        (self.state, self.before) = (State::AtBest, None);
    }

    fn move_to(&mut self, side: Side) {
        *self = Self { next: side, ..Self::new(self.beside(side), self.least, self.most) };
    }

    /// A span at the best bound took so long; now a trial may be due.
    fn rest_after(&mut self, time: f64) {
        (self.state, self.before) = (State::AtBest, Some(time));
        self.rest = self.rest.saturating_sub(1);
        if self.rest > 0 {
            return;
        }
        let side = self.next;
        self.next = match side {
            Side::Half => Side::Double,
            Side::Double => Side::Half,
        };
        let is_known = |side| self.beside(side) == self.best || self.scores[side as usize].is_known();
        self.rest = if is_known(Side::Half) && is_known(Side::Double) { Self::CALM } else { Self::EAGER };
        if self.beside(side) != self.best {
            self.state = State::Trying(side);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Feeds it so many spans, of which each takes `time` of its bound, give or take three tenths. Returns how often it
    /// moved.
    fn feed(climb: &mut Climb, spans: u32, time: impl Fn(usize) -> f64) -> u32 {
        let (mut random, mut moves) = (1u64, 0);
        for _ in 0..spans {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let noise = 0.7 + 0.6 * (random >> 40) as f64 / f64::from(1 << 24);
            let before = climb.best;
            climb.measured(time(climb.bound()) * noise);
            moves += u32::from(climb.best != before);
        }
        moves
    }

    fn after(spans: u32, time: impl Fn(usize) -> f64) -> Climb {
        let mut climb = Climb::new(4 * MIB, 4 * MIB, 1 << 30);
        feed(&mut climb, spans, time);
        climb
    }

    #[test]
    fn it_finds_the_fastest_bound() {
        let distance = |from: usize, to: usize| f64::from(from.ilog2().abs_diff(to.ilog2()));
        for fastest in [4, 8, 16, 32, 64].map(|mib| mib * MIB) {
            let climb = after(5000, |bound| 1.0 + 0.15 * distance(bound, fastest));
            assert_eq!(climb.best, fastest, "{climb:?}");
        }
    }

    #[test]
    fn it_follows_what_changes() {
        let mut climb =
            after(5000, |bound| if bound == 16 * MIB { 1.0 } else { 1.2 * MIB as f64 / bound as f64 + 1.0 });
        assert!(climb.best > 4 * MIB, "{climb:?}");
        feed(&mut climb, 20_000, |bound| (bound.ilog2() as f64).powi(2));
        assert_eq!(climb.best, 4 * MIB, "{climb:?}");
    }

    #[test]
    fn storage_that_starves_gets_more_soon() {
        let climb = after(40, |bound| (64 * MIB) as f64 / bound.min(64 * MIB) as f64);
        assert_eq!(climb.best, 64 * MIB, "{climb:?}");
    }

    #[test]
    fn few_spans_are_trials_once_it_knows_its_place() {
        let mut climb = after(500, |bound| if bound == 4 * MIB { 1.0 } else { 1.2 });
        let trials = (0..700).filter(|_| {
            climb.measured(if climb.bound() == 4 * MIB { 1.0 } else { 1.2 });
            climb.bound() != 4 * MIB
        });
        assert!((18..=28).contains(&trials.count()), "{climb:?}");
    }

    #[test]
    fn chance_seldom_moves_it() {
        // All are as fast, and a move does no harm.
        let moves = feed(&mut Climb::new(8 * MIB, 4 * MIB, 1 << 30), 5000, |_| 1.0);
        assert!(moves <= 10, "{moves}");
    }

    #[test]
    fn what_changes_for_all_bounds_moves_nothing() {
        let mut climb = Climb::new(8 * MIB, 4 * MIB, 1 << 30);
        for n in 0..1000 {
            climb.measured(1.0 + f64::from(n) / 100.0);
        }
        assert_eq!(climb.best, 8 * MIB, "{climb:?}");
    }

    #[test]
    fn a_spoilt_span_is_compared_with_nothing() {
        let mut climb = Climb::new(8 * MIB, 4 * MIB, 1 << 30);
        for _ in 0..1000 {
            match climb.bound() == 8 * MIB {
                true => climb.measured(1.0),
                false => climb.spoilt(),
            }
        }
        assert_eq!(climb.best, 8 * MIB);
        assert!(climb.scores.iter().all(|score| score.trials == 0), "{climb:?}");
    }

    #[test]
    fn it_stays_within_its_limits() {
        let climb = after(5000, |bound| bound as f64);
        assert_eq!(climb.best, 4 * MIB);
        let climb = after(5000, |bound| 1.0 / bound as f64);
        assert_eq!(climb.best, 1 << 30);
    }
}
