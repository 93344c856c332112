use std::time::Duration;

use crate::settings::RemoteSettings;

/// When to send a request again.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    attempts: u32,
    backoff: Duration,
    limit: Duration,
    total: Option<Duration>,
}

/// What a failure means for another try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// It may pass. The server may have said when to come again.
    Again { after: Option<Duration> },
    /// The server is asked for too much.
    Throttled { after: Option<Duration> },
    /// It will not.
    Final,
}

/// What to do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Send the request again after a while.
    Wait(Duration),
    /// Fail, and say why, if there is more to say than the failure itself.
    GiveUp(Option<&'static str>),
}

/// The tries at one request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempts {
    /// Failures since the last progress.
    failed: u32,
    /// Bytes since the last failure.
    progress: u64,
}

/// So much must arrive between two failures for the count to start anew: a server that sends a little each time and
/// then breaks is given up.
const PROGRESS: u64 = 1 << 20;

impl Attempts {
    /// So many bytes arrived.
    pub(crate) fn arrived(&mut self, bytes: u64) {
        self.progress = self.progress.saturating_add(bytes);
    }

    /// A failure; returns how many there were since the last progress, this one included.
    fn failed(&mut self) -> u32 {
        if self.progress >= PROGRESS {
            self.failed = 0;
        }
        self.progress = 0;
        self.failed += 1;
        self.failed
    }

    /// How many failures there were since the last progress.
    pub(crate) fn failures(&self) -> u32 {
        self.failed
    }
}

impl Policy {
    pub(crate) fn new(settings: &RemoteSettings) -> Self {
        Self {
            attempts: settings.attempts.max(1),
            backoff: settings.backoff,
            limit: settings.backoff_limit,
            total: settings.total_timeout,
        }
    }

    /// Decides about a failure, `elapsed` after the first try. `random` is between 0 and 1. The budget is asked by the
    /// caller, for a decision to wait.
    pub(crate) fn decide(&self, outlook: Outlook, attempts: &mut Attempts, elapsed: Duration, random: f64) -> Decision {
        let failed = attempts.failed();
        let after = match outlook {
            Outlook::Final => return Decision::GiveUp(None),
            Outlook::Again { after } | Outlook::Throttled { after } => after,
        };
        if failed >= self.attempts {
            return Decision::GiveUp((failed > 1).then_some("the last of several tries"));
        }
        // Any wait up to the limit, so that those who failed together do not come again together.
        let ceiling = self.backoff.saturating_mul(1 << (failed - 1).min(20)).min(self.limit);
        let wait = ceiling.mul_f64(random.clamp(0.0, 1.0));
        let wait = match after {
            Some(after) if after > self.limit => {
                return Decision::GiveUp(Some("the server asks for a longer wait than the settings allow"));
            }
            // Never before the server wants it, and not all at the same moment either.
            Some(after) => after.saturating_add(wait.min(self.backoff)),
            None => wait,
        };
        match self.total {
            Some(total) if elapsed.saturating_add(wait) >= total => {
                Decision::GiveUp(Some("the time for all tries is over"))
            }
            _ => Decision::Wait(wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn policy(change: impl FnOnce(&mut RemoteSettings)) -> Policy {
        let mut settings = RemoteSettings { attempts: 4, backoff: MS(100), ..RemoteSettings::default() };
        change(&mut settings);
        Policy::new(&settings)
    }

    const AGAIN: Outlook = Outlook::Again { after: None };

    #[test]
    fn waits_double_and_tries_end() {
        let policy = policy(|settings| settings.backoff_limit = MS(300));
        let mut attempts = Attempts::default();
        let mut decide = |random| policy.decide(AGAIN, &mut attempts, MS(0), random);
        assert_eq!(decide(1.0), Decision::Wait(MS(100)));
        assert_eq!(decide(0.5), Decision::Wait(MS(100)));
        assert_eq!(decide(1.0), Decision::Wait(MS(300)));
        assert!(matches!(decide(1.0), Decision::GiveUp(Some(_))));
        assert_eq!(attempts.failures(), 4);
    }

    #[test]
    fn progress_starts_the_count_anew_and_trickles_do_not() {
        let policy = policy(|_| {});
        let run = |bytes| {
            let mut attempts = Attempts::default();
            (0..100)
                .take_while(|_| {
                    attempts.arrived(bytes);
                    matches!(policy.decide(AGAIN, &mut attempts, MS(0), 0.0), Decision::Wait(_))
                })
                .count()
        };
        assert_eq!(run(PROGRESS), 100);
        assert_eq!(run(PROGRESS - 1), 3);
    }

    #[test]
    fn the_server_says_when() {
        let policy = policy(|_| {});
        let decide = |after| policy.decide(Outlook::Throttled { after }, &mut Attempts::default(), MS(0), 1.0);
        assert_eq!(decide(Some(MS(3000))), Decision::Wait(MS(3100)));
        assert_eq!(decide(Some(MS(0))), Decision::Wait(MS(100)));
        assert!(matches!(decide(Some(MS(20_001))), Decision::GiveUp(Some(_))));
    }

    #[test]
    fn what_will_not_pass_is_not_tried_again_and_all_of_it_has_its_time() {
        let strict = policy(|settings| settings.total_timeout = Some(MS(150)));
        let mut attempts = Attempts::default();
        assert_eq!(strict.decide(Outlook::Final, &mut attempts, MS(0), 1.0), Decision::GiveUp(None));
        let mut attempts = Attempts::default();
        assert_eq!(strict.decide(AGAIN, &mut attempts, MS(0), 1.0), Decision::Wait(MS(100)));
        assert!(matches!(strict.decide(AGAIN, &mut attempts, MS(100), 1.0), Decision::GiveUp(Some(_))));
        let once = policy(|settings| settings.attempts = 0);
        assert_eq!(once.decide(AGAIN, &mut Attempts::default(), MS(0), 1.0), Decision::GiveUp(None));
    }

    proptest! {
        #[test]
        fn no_wait_is_longer_than_the_settings_allow(
            failures in 0u32..40, after in proptest::option::of(0u64..30_000), random in 0.0f64..=1.0,
        ) {
            let policy = policy(|settings| settings.attempts = 100);
            let mut attempts = Attempts { failed: failures, progress: 0 };
            let outlook = Outlook::Again { after: after.map(MS) };
            match policy.decide(outlook, &mut attempts, MS(0), random) {
                Decision::Wait(wait) => {
                    prop_assert!(wait >= MS(after.unwrap_or(0)));
                    prop_assert!(wait <= MS(20_100));
                }
                Decision::GiveUp(_) => prop_assert!(after.unwrap_or(0) > 20_000),
            }
        }
    }
}
