//! What tests have asked for: faults, delays, limits and the gate. Plain data; the rest of the mock consults it.

use std::{ffi::c_int, time::Duration};

use crate::codes::Code;

/// How much of a new allocation is filled with [`POISON`], so that memory read before it was written shows.
const POISON_LEN: u64 = 1 << 20;

/// The byte in new device memory.
pub(crate) const POISON: u8 = 0xa5;

/// Everything that `reset` undoes, apart from counters and sticky errors.
#[derive(Debug)]
pub(crate) struct Plan {
    failures: Vec<Failure>,
    /// Device bytes that may still be allocated before allocations fail.
    pub(crate) oom_after: Option<u64>,
    /// Host bytes that may be pinned at a time.
    pub(crate) pinned_limit: Option<u64>,
    /// The longest delay before an operation runs.
    pub(crate) delay: Duration,
    pub(crate) random: Random,
    pub(crate) gate: Gate,
    pub(crate) poison: u64,
    /// Whether memory of a stream-ordered allocation used out of order is an error.
    pub(crate) strict: bool,
    pub(crate) sticky: Vec<Sticky>,
}

/// The next calls of one entry point fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) name: String,
    pub(crate) code: c_int,
    /// Calls that still succeed first.
    pub(crate) after: u64,
    /// Calls that fail then; `u64::MAX` for all.
    pub(crate) count: u64,
}

/// A device's contexts break once so many more operations have run on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sticky {
    pub(crate) device: usize,
    pub(crate) code: c_int,
    pub(crate) after: u64,
}

/// What stands in front of the copies on streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// Closed, but for so many copies.
    Held(u64),
}

impl Gate {
    /// Lets one copy through if it may pass.
    pub(crate) fn pass(&mut self) -> bool {
        match self {
            Self::Open => true,
            Self::Held(0) => false,
            Self::Held(allowed) => {
                *allowed -= 1;
                true
            }
        }
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            failures: Vec::new(),
            oom_after: None,
            pinned_limit: None,
            delay: Duration::ZERO,
            random: Random(0),
            gate: Gate::Open,
            poison: POISON_LEN,
            strict: true,
            sticky: Vec::new(),
        }
    }
}

impl Plan {
    /// Plans a failure of an entry point, named with or without its version suffix.
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.failures.push(failure);
    }

    /// The error that this call of `name` shall return, if any.
    pub(crate) fn failure_of(&mut self, name: &str) -> Option<Code> {
        let index = self.failures.iter().position(|failure| same_entry(&failure.name, name))?;
        let failure = &mut self.failures[index];
        if failure.after > 0 {
            failure.after -= 1;
            return None;
        }
        let code = Code(failure.code);
        if failure.count != u64::MAX {
            failure.count -= 1;
            if failure.count == 0 {
                self.failures.remove(index);
            }
        }
        Some(code)
    }

    /// How long the next operation is held up.
    pub(crate) fn next_delay(&mut self) -> Duration {
        if self.delay.is_zero() {
            return Duration::ZERO;
        }
        let longest = u64::try_from(self.delay.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.random.below(longest.saturating_add(1)))
    }

    /// Puts what may run in any order into a random one, where timing is random.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        if self.delay.is_zero() {
            return;
        }
        for last in (1..items.len()).rev() {
            let other = self.random.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }

    /// Counts an operation on a device; the error that is now due there, if one is.
    pub(crate) fn sticky_due(&mut self, device: usize) -> Option<Code> {
        let index = self.sticky.iter().position(|rule| rule.device == device)?;
        let rule = &mut self.sticky[index];
        if rule.after > 0 {
            rule.after -= 1;
            return None;
        }
        Some(Code(self.sticky.remove(index).code))
    }
}

/// Whether two names mean the same entry point: `cuMemFree` and `cuMemFree_v2` do.
fn same_entry(one: &str, other: &str) -> bool {
    stem(one) == stem(other)
}

/// A name without its version suffix.
pub(crate) fn stem(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((stem, version)) if version.parse::<u8>().is_ok() => stem,
        _ => name,
    }
}

/// SplitMix64: the same seed gives the same delays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number under `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(name: &str, after: u64, count: u64) -> Failure {
        Failure { name: name.to_owned(), code: 2, after, count }
    }

    #[test]
    fn failures_run_out() {
        let mut plan = Plan::default();
        plan.fail(failure("cuMemAlloc", 1, 2));
        let outcomes: Vec<_> = (0..4).map(|_| plan.failure_of("cuMemAlloc_v2").is_some()).collect();
        assert_eq!(outcomes, [false, true, true, false]);
        assert_eq!(plan.failure_of("cuMemFree_v2"), None);
    }

    #[test]
    fn a_failure_without_end_stays() {
        let mut plan = Plan::default();
        plan.fail(failure("cuInit", 0, u64::MAX));
        assert!((0..100).all(|_| plan.failure_of("cuInit") == Some(Code(2))));
    }

    #[test]
    fn the_gate_counts_copies() {
        let mut gate = Gate::Held(2);
        let passed: Vec<_> = (0..3).map(|_| gate.pass()).collect();
        assert_eq!(passed, [true, true, false]);
        assert!(Gate::Open.pass());
    }

    #[test]
    fn delays_repeat_with_their_seed_and_keep_the_limit() {
        let delays = |seed| {
            let mut plan = Plan { delay: Duration::from_micros(50), random: Random(seed), ..Plan::default() };
            std::array::from_fn::<_, 64, _>(|_| plan.next_delay())
        };
        assert_eq!(delays(7), delays(7));
        assert_ne!(delays(7), delays(8));
        assert!(delays(7).iter().all(|delay| delay.as_micros() <= 50));
    }

    #[test]
    fn a_sticky_error_is_due_once() {
        let mut plan = Plan::default();
        plan.sticky.push(Sticky { device: 1, code: 700, after: 2 });
        assert_eq!(plan.sticky_due(0), None);
        let due: Vec<_> = (0..4).map(|_| plan.sticky_due(1).is_some()).collect();
        assert_eq!(due, [false, false, true, false]);
    }
}
