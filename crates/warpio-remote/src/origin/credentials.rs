//! Requests for credentials, which object_store makes by itself, before those for objects.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Instant;

use http::StatusCode;
use warpio_core::{Error, ErrorKind};

use super::service::MAX_ERROR;
use crate::failure::Failure;
use crate::http::{Client, Fault, FaultKind, Reply, Request};
use crate::retry::{Attempts, Decision, Outlook, Policy};
use crate::settings::RemoteSettings;

const GIVEN: u16 = 0;
const NOT_ANSWERED: u16 = 1;

/// Asks for credentials, and knows why there are none.
pub(crate) struct Credentials {
    client: Client,
    policy: Policy,
    statuses: Arc<[u16]>,
    /// How it went last: [`GIVEN`], [`NOT_ANSWERED`], or the status of a refusal.
    last: AtomicU16,
    /// There is somebody who gives them.
    given: AtomicBool,
}

impl Credentials {
    pub(super) fn new(client: &Client, settings: &RemoteSettings) -> Self {
        Self {
            client: client.for_credentials(),
            policy: Policy::new(settings),
            statuses: settings.statuses.clone().into(),
            last: AtomicU16::new(GIVEN),
            given: AtomicBool::new(false),
        }
    }

    /// Sends a request, again where that may help: what gives credentials to a machine is asked by all of its programs
    /// at once, and refuses the one or the other. None of these requests does harm when it is carried out twice.
    pub(super) async fn ask(&self, request: &Request) -> Result<Reply, Fault> {
        if shows_secrets(request) {
            tracing::warn!(server = request.url.authority(), "credentials are asked for over http://, for all to read");
        }
        let (started, mut attempts) = (Instant::now(), Attempts::default());
        loop {
            let sent = self.client.send(request).await;
            let status = sent.as_ref().map_or(NOT_ANSWERED, |reply| reply.head.status.as_u16());
            let given = (200..300).contains(&status);
            self.last.store(if given { GIVEN } else { status }, Ordering::Relaxed);
            if given {
                self.given.store(true, Ordering::Relaxed);
                return sent;
            }
            let outlook = match &sent {
                Ok(reply) => Failure::status(status, &reply.head.headers, None, &self.statuses).outlook,
                // Most machines have nobody to ask.
                Err(fault) if fault.kind() == FaultKind::Connect && !self.given.load(Ordering::Relaxed) => {
                    Outlook::Final
                }
                Err(fault) => Failure::from(fault.clone()).outlook,
            };
            match self.policy.decide(outlook, &mut attempts, started.elapsed(), fastrand::f64()) {
                Decision::GiveUp(_) => return sent,
                Decision::Wait(wait) => {
                    tracing::debug!(status, ?wait, "credentials are asked for again");
                    if let Ok(reply) = sent {
                        // So that the connection is kept.
                        reply.body.error_text(MAX_ERROR).await;
                    }
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    /// Whether none were given when they were last asked for.
    pub(super) fn are_missing(&self) -> bool {
        self.last.load(Ordering::Relaxed) != GIVEN
    }

    /// Why there are none, where there is somebody who gives them. That there is nobody, or that a machine is given
    /// none, is for others to tell.
    pub(super) fn refusal(&self) -> Option<Error> {
        let status = self.last.load(Ordering::Relaxed);
        let (kind, how) = match StatusCode::from_u16(status) {
            Err(_) if status == NOT_ANSWERED && self.given.load(Ordering::Relaxed) => {
                (ErrorKind::Unavailable, "does not answer".to_owned())
            }
            Ok(StatusCode::NOT_FOUND) | Err(_) => return None,
            Ok(name) if self.statuses.contains(&status) || name.is_server_error() => {
                (ErrorKind::Unavailable, format!("answers {name}"))
            }
            Ok(name) => (ErrorKind::PermissionDenied, format!("answers {name}")),
        };
        let message = format!("no new credentials are given: the server that is asked for them {how}");
        Some(Error::new(kind).with_message(message))
    }
}

/// Whether everybody on the way could read who asks, and the answer. Forms hold a client's secret. Who asks nearby needs
/// none, or one that is good for that alone.
fn shows_secrets(request: &Request) -> bool {
    let asks = !request.body.is_empty() || request.exposes_credentials();
    asks && !request.url.tls && !request.url.is_near()
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method, header};

    use super::*;
    use crate::http::HttpUrl;

    #[test]
    fn what_others_could_read_is_told_from_what_is_asked_nearby() {
        let request = |url: &str, form: bool| {
            let mut request = Request::new(Method::POST, HttpUrl::parse(url).unwrap());
            match form {
                true => request.body.push("client_secret=x".into()),
                false => drop(request.headers.insert(header::AUTHORIZATION, HeaderValue::from_static("x"))),
            }
            shows_secrets(&request)
        };
        for form in [true, false] {
            assert!(request("http://login.example/token", form));
            assert!(!request("https://login.example/token", form));
            assert!(!request("http://169.254.170.23/v1/credentials", form));
        }
        let url = HttpUrl::parse("http://metadata.example/x").unwrap();
        assert!(!shows_secrets(&Request::new(Method::GET, url)), "it says nothing");
    }

    #[test]
    fn a_refusal_is_told_by_its_status() {
        let settings = RemoteSettings::default();
        let credentials = Credentials::new(&Client::new(&settings).unwrap(), &settings);
        let kind = |status| {
            credentials.last.store(status, Ordering::Relaxed);
            credentials.refusal().map(|error| error.kind())
        };
        assert_eq!((kind(GIVEN), kind(NOT_ANSWERED), kind(404)), (None, None, None));
        credentials.given.store(true, Ordering::Relaxed);
        assert_eq!((kind(GIVEN), kind(NOT_ANSWERED), kind(404)), (None, Some(ErrorKind::Unavailable), None));
        assert_eq!((kind(400), kind(401)), (Some(ErrorKind::PermissionDenied), Some(ErrorKind::PermissionDenied)));
        assert_eq!((kind(429), kind(500)), (Some(ErrorKind::Unavailable), Some(ErrorKind::Unavailable)));
        assert!(credentials.refusal().unwrap().to_string().contains("500 Internal Server Error"));
    }
}
