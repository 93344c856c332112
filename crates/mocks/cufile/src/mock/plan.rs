//! What tests have asked for: ordered rules, each for some calls of one entry point.

use std::time::Duration;

/// What happens instead of, or in, a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It returns this code, and with `CUDA_DRIVER_ERROR` this one of CUDA.
    Status(i32, i32),
    /// It returns -1, with this in `errno`.
    Errno(i32),
    /// It returns this number, or leaves it as its result.
    Ret(i64),
    /// It moves no more bytes than this.
    Max(usize),
    /// It moves no more than this share of its bytes, in percent.
    Percent(u8),
    /// It does not return until `release`, or for so long, and then goes on.
    Block(Option<Duration>),
    /// The entry ends with this status and result, and moves nothing.
    Event(u32, i64),
    /// The entry is done, and no event tells.
    Lose,
    /// It never ends, until `reset`.
    Never,
    /// There are no events, whatever happened.
    Empty,
}

/// Which calls a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) call: String,
    pub(crate) fd: Option<i32>,
    pub(crate) offset: Option<i64>,
    pub(crate) size: Option<usize>,
    pub(crate) when: When,
    /// How often it still applies.
    pub(crate) left: u64,
    pub(crate) action: Action,
    /// Calls that matched so far.
    pub(crate) seen: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// The so-manieth matching call, counted from 1, and those behind it as far as `left` goes.
    From(u64),
    Every(u64),
    /// With this probability, in percent; the numbers follow from the seed.
    Chance(u64, u64),
}

/// What is known of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) name: &'a str,
    pub(crate) fd: Option<i32>,
    pub(crate) offset: Option<i64>,
    pub(crate) size: Option<usize>,
}

impl<'a> Call<'a> {
    pub(crate) fn named(name: &'a str) -> Self {
        Self { name, fd: None, offset: None, size: None }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Plan(Vec<Rule>);

impl Plan {
    pub(crate) fn add(&mut self, rule: Rule) {
        self.0.push(rule);
    }

    /// What the first rule that is due for a call says. A rule that has applied often enough is gone.
    pub(crate) fn action(&mut self, call: Call<'_>) -> Option<Action> {
        self.find(call, |_| true)
    }

    /// As [`action`](Self::action), for a call that has stood still already.
    pub(crate) fn action_behind_block(&mut self, call: Call<'_>) -> Option<Action> {
        self.find(call, |action| !matches!(action, Action::Block(_)))
    }

    fn find(&mut self, call: Call<'_>, wanted: impl Fn(Action) -> bool) -> Option<Action> {
        let at = self.0.iter_mut().position(|rule| wanted(rule.action) && rule.is_due(call))?;
        let rule = &mut self.0[at];
        let action = rule.action;
        if rule.left != u64::MAX {
            rule.left -= 1;
            if rule.left == 0 {
                self.0.remove(at);
            }
        }
        Some(action)
    }
}

impl Rule {
    fn is_due(&mut self, call: Call<'_>) -> bool {
        let same = |wanted: Option<i64>, is: Option<i64>| wanted.is_none() || wanted == is;
        let matches = self.call == call.name
            && same(self.fd.map(i64::from), call.fd.map(i64::from))
            && same(self.offset, call.offset)
            && same(self.size.map(|n| n as i64), call.size.map(|n| n as i64));
        if !matches {
            return false;
        }
        self.seen += 1;
        match self.when {
            When::Always => true,
            When::From(first) => self.seen >= first,
            When::Every(n) => self.seen.is_multiple_of(n),
            When::Chance(percent, seed) => mixed(seed.wrapping_add(self.seen)) % 100 < percent,
        }
    }
}

/// A share of bytes, in percent; never none of them, which would mean the end of the file.
pub(crate) fn share_of(len: usize, percent: u8) -> usize {
    (len * usize::from(percent) / 100).max(1)
}

/// SplitMix64: the same number gives the same number.
pub(crate) fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(when: When, left: u64) -> Rule {
        let (call, action) = ("Read".to_owned(), Action::Errno(5));
        Rule { call, fd: None, offset: None, size: None, when, left, action, seen: 0 }
    }

    fn hits(rule: Rule, calls: usize) -> Vec<usize> {
        let mut plan = Plan::default();
        plan.add(rule);
        (1..=calls).filter(|_| plan.action(Call::named("Read")).is_some()).collect()
    }

    #[test]
    fn rules_count_their_calls() {
        assert_eq!(hits(rule(When::From(3), 2), 6), [3, 4]);
        assert_eq!(hits(rule(When::Every(2), u64::MAX), 6), [2, 4, 6]);
        assert_eq!(hits(rule(When::Always, 1), 3), [1]);
        let some = hits(rule(When::Chance(30, 7), u64::MAX), 1000).len();
        assert!((200..400).contains(&some), "{some}");
    }

    #[test]
    fn a_rule_is_only_for_what_it_names() {
        let mut plan = Plan::default();
        plan.add(Rule { fd: Some(7), size: Some(4096), ..rule(When::Always, u64::MAX) });
        let call = |name, fd, size| Call { name, fd: Some(fd), offset: Some(0), size: Some(size) };
        assert_eq!(plan.action(call("Read", 7, 4096)), Some(Action::Errno(5)));
        for other in [call("Read", 8, 4096), call("Read", 7, 1), call("Write", 7, 4096), Call::named("Read")] {
            assert_eq!(plan.action(other), None);
        }
    }
}
