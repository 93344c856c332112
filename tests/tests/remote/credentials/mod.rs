//! Credentials that are given for a while, and renewed: each kind of store asks another kind of server for them.

mod azure;
mod gcs;
mod s3;

use std::sync::Mutex;

use warpio_core::{Error, ErrorKind};
use warpio_remote::Remote;
use warpio_tests::servers::fault::{Act, Answer, FaultServer, Seen};

use crate::support::{pattern, read_all, read_at};

/// Part of every secret here, and of nothing else.
const SECRET: &str = "s3cr3t";

/// How a store refuses what it let in before. It serves its object until then.
struct Revoked(Mutex<Option<Answer>>);

impl Revoked {
    const fn not_yet() -> Self {
        Self(Mutex::new(None))
    }

    /// A store that says no from the moment on at which it is told to.
    async fn store(&'static self) -> FaultServer {
        let object = pattern(1000);
        FaultServer::start(move |seen| match &*self.0.lock().unwrap() {
            None => Answer::of(&object, seen).send(&seen.method),
            // Stores repeat what was sent.
            Some(refusal) => refusal.clone().header("X-Echo", seen.header("authorization")).send(&seen.method),
        })
        .await
    }

    fn now(&self, status: &str, code: &str) {
        let body = format!("<Error><Code>{code}</Code><Message>{SECRET}</Message></Error>");
        *self.0.lock().unwrap() = Some(Answer::new(status).body(body.as_bytes()));
    }
}

/// Reads a source whose credentials are over before each request, and the bearer tokens that went along.
async fn read_with_renewed_tokens(source: &Remote, store: &FaultServer) {
    assert_eq!(read_all(source).await.unwrap(), pattern(1000));
    let before = store.seen().len();
    assert_eq!(read_at(source, 500, 100).await.unwrap(), pattern(1000)[500..600]);
    assert!(store.seen().len() > before, "a later read is a request of its own");
    let expected: Vec<_> = (0..store.seen().len()).map(|n| format!("Bearer {SECRET}-{n}")).collect();
    assert_eq!(bearers(store), expected);
}

fn bearers(store: &FaultServer) -> Vec<String> {
    store.seen().iter().map(|seen| seen.header("authorization").to_owned()).collect()
}

/// Reads a source that has been read before, and must fail now: access is refused, and no secret repeated.
async fn expect_refusal(source: &Remote, word: &str) {
    let error = read_at(source, 500, 100).await.unwrap_err();
    expect_kind(&error, ErrorKind::PermissionDenied, word);
}

fn expect_kind(error: &Error, kind: ErrorKind, word: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(word), "{error}");
    assert!(!format!("{error} {error:?}").contains(SECRET), "{error:?}");
}

/// A refusal of the server that gives credentials, which repeats what was sent.
fn no(seen: &Seen, status: &str) -> Vec<Act> {
    let body = format!("{} {SECRET}", String::from_utf8_lossy(&seen.body));
    Answer::new(status).body(body.as_bytes()).send(&seen.method)
}
