//! What is shared by all objects on one server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warpio_core::engine::{Lane, Lanes};
use warpio_core::{Device, Error, Result};

use crate::adapt::{Concurrency, PartLength};
use crate::failure::Failure;
use crate::net::{Net, current_thread};
use crate::retry::{Attempts, Budget, Decision, Outlook, Policy};
use crate::settings::RemoteSettings;

/// Requests to a server that nothing is known of yet: enough to hide some latency, few enough to be polite.
const FIRST_REQUESTS: usize = 8;

/// One server, as far as it has been got to know.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) net: Arc<Net>,
    pub(crate) settings: Arc<RemoteSettings>,
    policy: Policy,
    state: Mutex<State>,
    /// Bytes that were asked for and have not come yet.
    coming: Arc<AtomicU64>,
    /// The copy streams of each network thread.
    lanes: Vec<Mutex<Lanes>>,
    /// Time is counted from here.
    began: Instant,
}

#[derive(Debug)]
struct State {
    budget: Budget,
    concurrency: Concurrency,
    part: PartLength,
}

impl Server {
    pub(crate) fn new(net: Arc<Net>, settings: Arc<RemoteSettings>, least_part: usize) -> Self {
        let first = FIRST_REQUESTS.max(net.threads());
        let state = State {
            budget: Budget::new(),
            concurrency: Concurrency::new(first, settings.connections, settings.fixed_connections),
            part: PartLength::new(least_part as u64, settings.part_size),
        };
        Self {
            policy: Policy::new(&settings),
            state: Mutex::new(state),
            coming: Arc::default(),
            lanes: (0..net.threads()).map(|_| Mutex::default()).collect(),
            began: Instant::now(),
            net,
            settings,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many requests may run at once.
    pub(crate) fn limit(&self) -> usize {
        self.state().concurrency.limit()
    }

    /// How much the next request asks for, of `left` bytes that are waited for.
    pub(crate) fn part_len(&self, left: u64) -> u64 {
        let coming = self.coming.load(Ordering::Relaxed);
        let state = self.state();
        state.part.next(left, coming, state.concurrency.limit(), state.concurrency.is_settled())
    }

    /// `bytes` are about to be asked for.
    pub(crate) fn claim(&self, bytes: u64) -> Claim {
        self.coming.fetch_add(bytes, Ordering::Relaxed);
        Claim { coming: self.coming.clone(), left: bytes }
    }

    /// A reply came after `latency`.
    pub(crate) fn waited(&self, latency: Duration) {
        self.state().part.waited(latency);
    }

    /// A body brought `bytes` in `time`.
    pub(crate) fn received(&self, bytes: u64, time: Duration) {
        let mut state = self.state();
        state.part.received(bytes, time);
        state.budget.earn();
    }

    /// Whether a body that brought `bytes` in `time` is slow beside what this server has sent.
    pub(crate) fn is_slow(&self, bytes: u64, time: Duration) -> bool {
        self.state().part.is_slow(bytes, time)
    }

    /// A request ended; `waiting` is whether more work was there than could be begun.
    pub(crate) fn ended(&self, bytes: u64, waiting: bool) {
        self.state().concurrency.ended(bytes, waiting, self.began.elapsed());
    }

    /// The copy stream of this network thread.
    pub(crate) fn lane(&self, device: &Device) -> Result<Lane> {
        let lanes = &self.lanes[current_thread() % self.lanes.len()];
        lanes.lock().unwrap_or_else(PoisonError::into_inner).get(device).cloned()
    }

    /// The tries at something new.
    pub(crate) fn tries(&self) -> Tries<'_> {
        Tries { server: self, attempts: Attempts::default(), started: Instant::now() }
    }

    /// Calls until it succeeds, as often and as long as the settings allow.
    pub(crate) async fn try_until<T, F>(&self, what: &str, mut call: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut tries = self.tries();
        loop {
            match tries.within(call()).await {
                Ok(value) => return Ok(value),
                Err(failure) => tries.again(failure, what).await?,
            }
        }
    }
}

/// Bytes that are asked for, until they come or nobody waits for them any more.
#[derive(Debug)]
pub(crate) struct Claim {
    coming: Arc<AtomicU64>,
    left: u64,
}

impl Claim {
    /// So many came.
    pub(crate) fn came(&mut self, bytes: u64) {
        let bytes = bytes.min(self.left);
        self.left -= bytes;
        self.coming.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.coming.fetch_sub(self.left, Ordering::Relaxed);
    }
}

/// The tries at one request.
#[derive(Debug)]
pub(crate) struct Tries<'a> {
    server: &'a Server,
    attempts: Attempts,
    started: Instant,
}

impl Tries<'_> {
    /// So many bytes arrived.
    pub(crate) fn arrived(&mut self, bytes: usize) {
        self.attempts.arrived(bytes as u64);
    }

    /// Gives `call` what is left of the time for all tries.
    pub(crate) async fn within<T>(&self, call: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let Some(total) = self.server.settings.total_timeout else { return call.await };
        let left = total.saturating_sub(self.started.elapsed());
        tokio::time::timeout(left, call).await.unwrap_or_else(|_| {
            let message = format!("it was not done within {total:?}");
            Err(Failure::last(Error::new(warpio_core::ErrorKind::DeadlineExceeded).with_message(message)))
        })
    }

    /// Waits until the next try, or returns the failure where there is none.
    pub(crate) async fn again(&mut self, failure: Failure, what: &str) -> Result<()> {
        let server = self.server;
        let Failure { outlook, error } = failure;
        if let Outlook::Throttled { .. } = outlook {
            server.state().concurrency.throttled(server.began.elapsed());
        }
        let decision = server.policy.decide(outlook, &mut self.attempts, self.started.elapsed(), fastrand::f64());
        let failures = self.attempts.failures();
        match decision {
            Decision::Wait(wait) if server.state().budget.spend() => {
                tracing::debug!(%error, source = what, failures, ?wait, "the request is sent again");
                tokio::time::sleep(wait).await;
                Ok(())
            }
            Decision::Wait(_) => Err(told(error, failures, Some("too many requests to this server failed"))),
            Decision::GiveUp(why) => Err(told(error, failures, why)),
        }
    }
}

/// The error, and why it was not tried again.
fn told(error: Error, failures: u32, why: Option<&str>) -> Error {
    match why {
        None => error,
        Some(why) => Error::new(error.kind()).with_message(format!("{error} ({why}; it failed {failures} times)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        let settings = RemoteSettings { backoff: Duration::ZERO, ..RemoteSettings::default() };
        Server::new(Arc::new(Net::start(1).unwrap()), Arc::new(settings), 1 << 20)
    }

    fn failure(outlook: Outlook) -> Failure {
        Failure { outlook, error: Error::new(warpio_core::ErrorKind::Unavailable) }
    }

    #[tokio::test]
    async fn a_server_that_is_asked_for_too_much_is_asked_for_less() {
        let server = server();
        assert_eq!(server.limit(), FIRST_REQUESTS);
        let again = Outlook::Again { after: None };
        server.tries().again(failure(again), "it").await.unwrap();
        assert_eq!(server.limit(), FIRST_REQUESTS, "one failure says nothing about their number");
        server.tries().again(failure(Outlook::Throttled { after: None }), "it").await.unwrap();
        assert_eq!(server.limit(), FIRST_REQUESTS / 2);
    }

    #[tokio::test]
    async fn what_is_asked_for_is_coming_until_it_came() {
        let server = server();
        let mut claim = server.claim(100);
        let other = server.claim(5);
        claim.came(30);
        assert_eq!(server.coming.load(Ordering::Relaxed), 75);
        claim.came(1000);
        drop(other);
        assert_eq!(server.coming.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn repetitions_have_a_budget_for_all_requests_together() {
        let server = server();
        for _ in 0..100 {
            server.tries().again(failure(Outlook::Again { after: None }), "it").await.unwrap();
        }
        let error = server.tries().again(failure(Outlook::Again { after: None }), "it").await.unwrap_err();
        assert!(error.to_string().contains("too many requests to this server failed"), "{error}");
    }
}
