//! Credentials that are given to a machine for a while, and renewed.

use warpio_core::ErrorKind;
use warpio_remote::S3;
use warpio_tests::servers::fault::{Act, Answer, FaultServer, Seen};

use crate::support::{host, pattern, read_all};

/// Credentials number `n`, which are as good as over, so that each request needs new ones.
fn short_lived(n: usize) -> Answer {
    let text = format!(
        "{{\"Code\":\"Success\",\"Type\":\"AWS-HMAC\",\"AccessKeyId\":\"id-{n}\",\"SecretAccessKey\":\"secret-{n}\",\
         \"Token\":\"token-{n}\",\"LastUpdated\":\"2020-01-01T00:00:00Z\",\"Expiration\":\"2020-01-01T00:00:01Z\"}}"
    );
    Answer::new("200 OK").header("Content-Type", "application/json").body(text.as_bytes())
}

async fn store() -> FaultServer {
    let object = pattern(1000);
    FaultServer::start(move |seen| Answer::of(&object, seen).send(&seen.method)).await
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

fn expect_renewed(store: &FaultServer) {
    let expected: Vec<_> = (0..store.seen().len()).map(|n| (format!("id-{n}"), format!("token-{n}"))).collect();
    assert!(expected.len() > 1, "one request cannot show it");
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
    let s3 = S3::builder().endpoint(store.url("")).option("aws_metadata_endpoint", metadata.url("")).unwrap();
    let source = s3.bucket(&host(|_| {}), "bucket").unwrap().open("object").await.unwrap();
    assert_eq!(read_all(&source).await.unwrap(), pattern(1000));
    expect_renewed(&store);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_of_a_container_are_renewed() {
    let agent = FaultServer::start(|seen| match seen.header("authorization") {
        "a-pods-token" => short_lived(seen.number).send(&seen.method),
        _ => Answer::new("401 Unauthorized").body(b"").send(&seen.method),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "a-pods-token").unwrap();
    let store = store().await;
    let s3 = S3::builder()
        .endpoint(store.url(""))
        .option("aws_container_credentials_full_uri", agent.url("/v1/credentials"))
        .and_then(|s3| s3.option("aws_container_authorization_token_file", token.to_str().unwrap()))
        .unwrap();
    let source = s3.bucket(&host(|_| {}), "bucket").unwrap().open("object").await.unwrap();
    assert_eq!(read_all(&source).await.unwrap(), pattern(1000));
    expect_renewed(&store);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_is_given_none_says_what_to_do() {
    let metadata = FaultServer::start(|_| vec![Act::Reset]).await;
    let store = store().await;
    let s3 = S3::builder().endpoint(store.url("")).option("aws_metadata_endpoint", metadata.url("")).unwrap();
    let error = s3.bucket(&host(|_| {}), "bucket").unwrap().open("object").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("AWS_SKIP_SIGNATURE"), "{error}");
    assert!(store.seen().is_empty(), "nothing is asked for without a signature");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_a_web_identity_are_not_sent_in_the_clear() {
    let sts = FaultServer::start(|_| vec![Act::Reset]).await;
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "hidden-token").unwrap();
    let store = store().await;
    let s3 = S3::builder()
        .endpoint(store.url(""))
        .option("aws_web_identity_token_file", token.to_str().unwrap())
        .and_then(|s3| s3.option("aws_role_arn", "arn:aws:iam::1:role/x"))
        .and_then(|s3| s3.option("aws_endpoint_url_sts", sts.url("")))
        .unwrap();
    let error = s3.bucket(&host(|_| {}), "bucket").unwrap().open("object").await.unwrap_err();
    assert!(sts.seen().is_empty(), "{:?}", sts.seen());
    assert!(!format!("{error} {error:?}").contains("hidden"), "{error}");
}
