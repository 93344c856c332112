/// How much may be repeated to one server, all requests together: a server that fails at everything is not asked
/// several times as often for it.
#[derive(Debug)]
pub(crate) struct Budget {
    left: f64,
}

/// So many repetitions may come at once, as when a server restarts.
const RESERVE: f64 = 100.0;
/// What a success gives back: in the long run, one request in five may be a repetition.
const EARNED: f64 = 0.2;

impl Budget {
    pub(crate) fn new() -> Self {
        Self { left: RESERVE }
    }

    /// A request succeeded.
    pub(crate) fn earn(&mut self) {
        self.left = (self.left + EARNED).min(RESERVE);
    }

    /// Whether another repetition may be sent; it then counts.
    pub(crate) fn spend(&mut self) -> bool {
        let may = self.left >= 1.0;
        if may {
            self.left -= 1.0;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_fails_at_everything_is_left_alone() {
        let mut budget = Budget::new();
        let sent = (0..1000).filter(|_| budget.spend()).count();
        assert_eq!(sent, 100);
        (0..5).for_each(|_| budget.earn());
        assert!(budget.spend() && !budget.spend(), "five successes pay for one repetition");
        (0..10_000).for_each(|_| budget.earn());
        assert_eq!((0..1000).filter(|_| budget.spend()).count(), 100);
    }
}
