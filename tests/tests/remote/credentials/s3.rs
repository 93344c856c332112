//! S3: what an instance or a container is given, and web identities.

use tempfile::NamedTempFile;
use warpio_core::ErrorKind;
use warpio_remote::{Remote, S3, S3Builder};
use warpio_tests::servers::fault::{Act, Answer, FaultServer, Seen};
use warpio_tests::servers::nginx::Nginx;

use super::{Revoked, SECRET, expect_kind, expect_refusal, no};
use crate::support::{host, pattern, read_all, read_at, store};

/// Credentials number `n`, which are as good as over, so that each request needs new ones.
fn short_lived(n: usize) -> Answer {
    let text = format!(
        "{{\"Code\":\"Success\",\"Type\":\"AWS-HMAC\",\"AccessKeyId\":\"id-{n}\",\"SecretAccessKey\":\"secret-{n}\",\
         \"Token\":\"token-{n}\",\"LastUpdated\":\"2020-01-01T00:00:00Z\",\"Expiration\":\"2020-01-01T00:00:01Z\"}}"
    );
    Answer::new("200 OK").header("Content-Type", "application/json").body(text.as_bytes())
}

/// A file that says `text`.
fn file(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

/// Settings of object_store's, by name.
fn with(store: &FaultServer, options: &[(&str, &str)]) -> S3Builder {
    let s3 = S3::builder().endpoint(store.url(""));
    options.iter().fold(s3, |s3, (name, value)| s3.option(name, *value).unwrap())
}

/// What a container is given by `agent`, for the token in a file.
fn by_container(store: &FaultServer, agent: &str, token: &NamedTempFile) -> S3Builder {
    with(
        store,
        &[
            ("aws_container_credentials_full_uri", agent),
            ("aws_container_authorization_token_file", token.path().to_str().unwrap()),
        ],
    )
}

/// What `sts` gives for the web identity in a file.
fn by_web_identity(store: &FaultServer, sts: &str, token: &NamedTempFile) -> S3Builder {
    with(
        store,
        &[
            ("aws_web_identity_token_file", token.path().to_str().unwrap()),
            ("aws_role_arn", "arn:aws:iam::1:role/x"),
            ("aws_endpoint_url_sts", sts),
        ],
    )
}

/// The ids and tokens that the requests to a store were signed with, in order.
fn signed_with(store: &FaultServer) -> Vec<(String, String)> {
    let id = |seen: &Seen| {
        let (_, rest) = seen.header("authorization").split_once("Credential=")?;
        Some(rest.split('/').next()?.to_owned())
    };
    store
        .seen()
        .iter()
        .map(|seen| (id(seen).expect("a signature"), seen.header("x-amz-security-token").to_owned()))
        .collect()
}

/// Reads an opened source twice, each request with credentials of its own.
async fn read_with_renewed(source: &Remote, store: &FaultServer) {
    assert_eq!(read_all(source).await.unwrap(), pattern(1000));
    let before = store.seen().len();
    assert_eq!(read_at(source, 500, 100).await.unwrap(), pattern(1000)[500..600]);
    assert!(store.seen().len() > before, "a later read is a request of its own");
    let expected: Vec<_> = (0..store.seen().len()).map(|n| (format!("id-{n}"), format!("token-{n}"))).collect();
    assert_eq!(signed_with(store), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_of_an_instance_are_renewed() {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let metadata = FaultServer::start(move |seen| {
        let answer = match (seen.method.as_str(), seen.target.as_str()) {
            ("PUT", "/latest/api/token") => Answer::new("200 OK").body(b"metadata-token"),
            _ if seen.header("x-aws-ec2-metadata-token") != "metadata-token" => {
                Answer::new("401 Unauthorized").body(b"")
            }
            ("GET", "/latest/meta-data/iam/security-credentials/") => Answer::new("200 OK").body(b"a-role"),
            ("GET", "/latest/meta-data/iam/security-credentials/a-role") => {
                short_lived(count.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
            }
            _ => Answer::new("404 Not Found").body(b""),
        };
        answer.send(&seen.method)
    })
    .await;
    let store = store().await;
    let s3 = with(&store, &[("aws_metadata_endpoint", &metadata.url(""))]);
    let source = s3.bucket(&host(|_| {}), "bucket").unwrap().open("object").await.unwrap();
    read_with_renewed(&source, &store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_of_a_container_are_renewed() {
    let agent = FaultServer::start(|seen| match seen.header("authorization") {
        "a-pods-token" => short_lived(seen.number).send(&seen.method),
        _ => Answer::new("401 Unauthorized").body(b"").send(&seen.method),
    })
    .await;
    let token = file("a-pods-token");
    let store = store().await;
    let s3 = by_container(&store, &agent.url("/v1/credentials"), &token);
    let source = s3.bucket(&host(|_| {}), "bucket").unwrap().open("object").await.unwrap();
    read_with_renewed(&source, &store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_refused_new_ones_says_so() {
    let agent = FaultServer::start(|seen| match seen.number {
        0 => short_lived(0).send(&seen.method),
        1 => no(seen, "500 Internal Server Error"),
        2 => short_lived(1).send(&seen.method),
        _ => no(seen, "403 Forbidden"),
    })
    .await;
    let token = file(SECRET);
    let store = store().await;
    let s3 = by_container(&store, &agent.url("/x"), &token);
    let source = s3.bucket(&host(|_| {}), "bucket").unwrap().open("object").await.unwrap();
    assert_eq!(read_at(&source, 0, 100).await.unwrap(), pattern(100));
    assert_eq!(agent.seen().len(), 3, "one that failed was asked for again");
    let error = read_at(&source, 0, 100).await.unwrap_err();
    expect_kind(&error, ErrorKind::PermissionDenied, "the server that is asked for them answers 403 Forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_store_says_is_over_is_told_as_that() {
    static REVOKED: Revoked = Revoked::not_yet();
    let store = REVOKED.store().await;
    let s3 = S3::builder().endpoint(store.url("")).credentials("the-id", format!("{SECRET}-key")).session_token(SECRET);
    let source = s3.bucket(&host(|_| {}), "bucket").unwrap().open("object").await.unwrap();
    assert_eq!(read_at(&source, 0, 100).await.unwrap(), pattern(100));
    // Amazon says it with a 400, others with a 403.
    for status in ["400 Bad Request", "403 Forbidden"] {
        REVOKED.now(status, "ExpiredToken");
        expect_refusal(&source, "the session token has expired").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_is_given_none_says_what_to_do() {
    let metadata = FaultServer::start(|_| vec![Act::Reset]).await;
    let store = store().await;
    let s3 = with(&store, &[("aws_metadata_endpoint", &metadata.url(""))]);
    let error = s3.bucket(&host(|_| {}), "bucket").unwrap().open("object").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("AWS_SKIP_SIGNATURE"), "{error}");
    assert!(store.seen().is_empty(), "nothing is asked for without a signature");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_a_web_identity_are_not_sent_in_the_clear() {
    let sts = FaultServer::start(|_| vec![Act::Reset]).await;
    let token = file("hidden-token");
    let store = store().await;
    let s3 = by_web_identity(&store, &sts.url(""), &token);
    let error = s3.bucket(&host(|_| {}), "bucket").unwrap().open("object").await.unwrap_err();
    assert!(sts.seen().is_empty(), "{:?}", sts.seen());
    assert!(!format!("{error} {error:?}").contains("hidden"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn those_of_a_web_identity_are_renewed_over_tls() {
    let answer = "location = /sts { return 200 '<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult>\
                  <Credentials><AccessKeyId>id-$request_id</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>\
                  <SessionToken>of-$arg_WebIdentityToken</SessionToken>\
                  <Expiration>2020-01-01T00:00:01Z</Expiration></Credentials>\
                  </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>'; }";
    let Some(sts) = Nginx::start_with(1, answer) else { return };
    let token = file("proof-one");
    let store = store().await;
    let s3 = by_web_identity(&store, &sts.https("/sts"), &token);
    let context = host(|settings| settings.root_certificates = vec![sts.root_certificate()]);
    let source = s3.bucket(&context, "bucket").unwrap().open("object").await.unwrap();
    let before = store.seen().len();
    std::fs::write(token.path(), "proof-two").unwrap();
    assert_eq!(read_all(&source).await.unwrap(), pattern(1000));
    let signed = signed_with(&store);
    assert!(signed.len() > before && before > 0, "{signed:?}");
    for (n, (id, token)) in signed.iter().enumerate() {
        assert!(id.starts_with("id-") && signed[..n].iter().all(|(earlier, _)| earlier != id), "{signed:?}");
        assert_eq!(token, if n < before { "of-proof-one" } else { "of-proof-two" });
    }
}
