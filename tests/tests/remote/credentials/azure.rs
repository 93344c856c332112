//! Azure: a client's secret, a workload's file, and what a machine is given.

use std::sync::atomic::{AtomicUsize, Ordering};

use warpio_core::ErrorKind;
use warpio_remote::{Azure, AzureBuilder, Remote, RemoteContext};
use warpio_tests::servers::fault::{Act, Answer, FaultServer};

use super::{Revoked, SECRET, bearers, expect_kind, expect_refusal, no, read_with_renewed_tokens};
use crate::support::{host, pattern, read_all, read_at, store};

/// Token number `n`, good for so many seconds.
fn token(n: usize, seconds: u64) -> Answer {
    let text = format!("{{\"token_type\":\"Bearer\",\"access_token\":\"{SECRET}-{n}\",\"expires_in\":{seconds}}}");
    Answer::new("200 OK").header("Content-Type", "application/json").body(text.as_bytes())
}

fn account(store: &FaultServer) -> AzureBuilder {
    Azure::builder().endpoint(store.url("/account")).account("account")
}

/// Settings of object_store's, by name.
fn with(azure: AzureBuilder, options: &[(&str, &str)]) -> AzureBuilder {
    options.iter().fold(azure, |azure, (name, value)| azure.option(name, *value).unwrap())
}

fn by_secret(store: &FaultServer, authority: &FaultServer) -> AzureBuilder {
    let secret = format!("{SECRET}-of-the-client");
    with(
        account(store),
        &[
            ("azure_client_id", "the-client"),
            ("azure_client_secret", &secret),
            ("azure_tenant_id", "the-tenant"),
            ("azure_authority_host", &authority.url("")),
        ],
    )
}

async fn open(context: &RemoteContext, azure: &AzureBuilder) -> Remote {
    azure.bucket(context, "container").unwrap().open("blob").await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_for_a_client_with_a_secret_are_renewed() {
    let authority = FaultServer::start(|seen| token(seen.number, 0).send(&seen.method)).await;
    let store = store().await;
    let source = open(&host(|_| {}), &by_secret(&store, &authority)).await;
    read_with_renewed_tokens(&source, &store).await;
    for seen in authority.seen() {
        assert_eq!((seen.method.as_str(), seen.target.as_str()), ("POST", "/the-tenant/oauth2/v2.0/token"));
        let form = String::from_utf8(seen.body).unwrap();
        assert!(form.contains("client_id=the-client&client_secret=s3cr3t-of-the-client&"), "{form}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_used_as_long_as_it_is_good() {
    let authority = FaultServer::start(|seen| token(seen.number, 3600).send(&seen.method)).await;
    let store = store().await;
    let source = open(&host(|_| {}), &by_secret(&store, &authority)).await;
    for _ in 0..3 {
        assert_eq!(read_all(&source).await.unwrap(), pattern(1000));
    }
    assert_eq!(authority.seen().len(), 1);
    assert!(store.seen().len() > 3 && bearers(&store).iter().all(|bearer| bearer == "Bearer s3cr3t-0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_machine_is_given_is_renewed() {
    let metadata = FaultServer::start(|seen| {
        if seen.header("metadata") != "true" {
            return no(seen, "400 Bad Request");
        }
        let text = format!("{{\"access_token\":\"{SECRET}-{}\",\"expires_on\":\"1577836800\"}}", seen.number);
        Answer::new("200 OK").body(text.as_bytes()).send(&seen.method)
    })
    .await;
    let store = store().await;
    let azure = with(account(&store), &[("azure_msi_endpoint", &metadata.url("/metadata/identity/oauth2/token"))]);
    let source = open(&host(|_| {}), &azure).await;
    read_with_renewed_tokens(&source, &store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_shows_what_its_file_says_now() {
    let authority = FaultServer::start(|seen| token(seen.number, 0).send(&seen.method)).await;
    let store = store().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "proof-one").unwrap();
    let azure = with(
        account(&store),
        &[
            ("azure_client_id", "the-client"),
            ("azure_tenant_id", "the-tenant"),
            ("azure_federated_token_file", file.path().to_str().unwrap()),
            ("azure_authority_host", &authority.url("")),
        ],
    );
    let source = open(&host(|_| {}), &azure).await;
    let before = authority.seen().len();
    std::fs::write(file.path(), "proof-two").unwrap();
    read_with_renewed_tokens(&source, &store).await;
    for (n, seen) in authority.seen().iter().enumerate() {
        let form = String::from_utf8_lossy(&seen.body);
        let proof = if n < before { "client_assertion=proof-one" } else { "client_assertion=proof-two" };
        assert!(form.contains(proof), "{n}: {form}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_the_store_refuses_is_told_as_that() {
    let authority = FaultServer::start(|seen| token(seen.number, 3600).send(&seen.method)).await;
    static REVOKED: Revoked = Revoked::not_yet();
    let store = REVOKED.store().await;
    let source = open(&host(|_| {}), &by_secret(&store, &authority)).await;
    assert_eq!(read_at(&source, 0, 100).await.unwrap(), pattern(100));
    REVOKED.now("401 Unauthorized", "InvalidAuthenticationInfo");
    expect_refusal(&source, "has expired").await;
    REVOKED.now("403 Forbidden", "AuthenticationFailed");
    expect_refusal(&source, "has expired").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_shows_its_secret_to_nobody_else() {
    let elsewhere = store().await;
    let location = elsewhere.url("/token");
    let authority = FaultServer::start(move |seen| {
        Answer::new("307 Temporary Redirect").header("Location", &location).body(b"").send(&seen.method)
    })
    .await;
    let store = store().await;
    let azure = by_secret(&store, &authority);
    let error = azure.bucket(&host(|_| {}), "container").unwrap().open("blob").await.unwrap_err();
    expect_kind(&error, ErrorKind::PermissionDenied, "answers 307 Temporary Redirect");
    assert!(!authority.seen().is_empty());
    assert!(elsewhere.seen().is_empty() && store.seen().is_empty());
}

/// An authority that gives a token good for no time, and does as it is told from the second request on.
async fn open_with(then: impl Fn(usize) -> Option<&'static str> + Send + Sync + 'static) -> (Remote, [FaultServer; 2]) {
    let count = AtomicUsize::new(0);
    let authority = FaultServer::start(move |seen| match then(seen.number) {
        Some("reset") => vec![Act::Reset],
        Some(status) => no(seen, status),
        // Each over a connection of its own.
        None => token(count.fetch_add(1, Ordering::SeqCst), 0).header("Connection", "close").send(&seen.method),
    })
    .await;
    let store = store().await;
    let source = open(&host(|_| {}), &by_secret(&store, &authority)).await;
    (source, [authority, store])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_not_given_at_once_is_asked_for_again() {
    let (source, [authority, store]) = open_with(|n| match n {
        1 => Some("503 Service Unavailable"),
        2 => Some("reset"),
        4 => Some("429 Too Many Requests"),
        _ => None,
    })
    .await;
    read_with_renewed_tokens(&source, &store).await;
    assert!(authority.seen().len() >= store.seen().len() + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_never_given_is_an_error_of_its_own() {
    for (status, kind) in [
        ("503 Service Unavailable", ErrorKind::Unavailable),
        ("reset", ErrorKind::Unavailable),
        ("401 Unauthorized", ErrorKind::PermissionDenied),
        ("400 Bad Request", ErrorKind::PermissionDenied),
    ] {
        let (source, [authority, store]) = open_with(move |n| (n > 0).then_some(status)).await;
        let before = store.seen().len();
        let error = read_at(&source, 0, 100).await.unwrap_err();
        let how = if status == "reset" { "does not answer".to_owned() } else { format!("answers {status}") };
        expect_kind(&error, kind, &format!("no new credentials are given: the server that is asked for them {how}"));
        assert_eq!(store.seen().len(), before, "{status}: nothing is asked for without a token");
        // Four tries where it may pass, and one where it will not; the first token came before.
        let tries = if kind == ErrorKind::Unavailable { 4 } else { 1 };
        assert_eq!(authority.seen().len(), 1 + tries, "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gave_the_first_token_may_be_gone() {
    let (source, [authority, _store]) = open_with(|_| None).await;
    assert_eq!(read_at(&source, 0, 100).await.unwrap(), pattern(100));
    authority.end().await;
    let error = read_at(&source, 0, 100).await.unwrap_err();
    expect_kind(&error, ErrorKind::Unavailable, "the server that is asked for them does not answer");
}
