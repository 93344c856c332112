//! Against nginx.

use std::time::Duration;

use warpio_core::testing::read_contract;
use warpio_core::{AsyncDeviceRead, ErrorKind};
use warpio_remote::{Http, RemoteContext};
use warpio_tests::servers::nginx::Nginx;

use crate::support::{gpu, host, pattern, read_all, read_at};

const LEN: usize = 1_000_003;

fn start() -> Option<Nginx> {
    let nginx = Nginx::start(2)?;
    std::fs::write(nginx.files().join("object"), pattern(LEN)).unwrap();
    Some(nginx)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_over_http() {
    let Some(nginx) = start() else { return };
    let patient = |settings: &mut warpio_remote::RemoteSettings| settings.stall_timeout = Duration::from_secs(30);
    for context in [host(patient), gpu(patient)] {
        read_contract(&context.open(&nginx.http("/object")).await.unwrap(), LEN).await;
    }
}

fn trusting(nginx: &Nginx) -> RemoteContext {
    let root = nginx.root_certificate();
    gpu(|settings| {
        settings.stall_timeout = Duration::from_secs(30);
        settings.root_certificates = vec![root];
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_over_tls() {
    let Some(nginx) = start() else { return };
    read_contract(&trusting(&nginx).open(&nginx.https("/object")).await.unwrap(), LEN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_prove_nothing_are_errors() {
    let Some(nginx) = start() else { return };
    let error = host(|_| {}).open(&nginx.https("/object")).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Io, false));
    assert!(error.to_string().contains("certificate is refused"), "{error}");

    // The right authority, but another name: all of 127.0.0.0/8 is this machine.
    let url = nginx.https("/object").replace("127.0.0.1", "localhost");
    trusting(&nginx).open(&url).await.unwrap();
    let url = nginx.https("/object").replace("127.0.0.1", "127.0.0.1.nip.invalid");
    let error = trusting(&nginx).open(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "there is no such name: {error}");

    let bad = host(|settings| settings.root_certificates = vec![b"no certificate".to_vec()]);
    let error = bad.open(&nginx.https("/object")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_on_the_port_of_tls_and_the_other_way_round() {
    let Some(nginx) = start() else { return };
    let error = host(|_| {}).open(&nginx.http("/object").replace("http:", "https:")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let error = host(|_| {}).open(&nginx.https("/object").replace("https:", "http:")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "nginx answers 400: {error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_reach_exactly_their_file() {
    let Some(nginx) = start() else { return };
    let names = [
        ("a b", "/a%20b"),
        ("a%20b", "/a%2520b"),
        ("a=b+c&d", "/a=b+c&d"),
        ("Ä/ö", "/%C3%84/%C3%B6"),
        ("ü", "/ü"),
        ("hash#mark?", "/hash%23mark%3F"),
        ("UPPER", "/UPPER"),
    ];
    let context = host(|_| {});
    for (name, url) in names {
        let path = nginx.files().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, name).unwrap();
        let source = context.open(&nginx.http(url)).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read_all(&source).await.unwrap(), name.as_bytes(), "{url}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_ranges_with_a_password_and_by_a_redirect() {
    let Some(nginx) = start() else { return };
    let context = host(|settings| settings.stall_timeout = Duration::from_secs(30));
    let whole = context.open(&nginx.http("/whole/object")).await.unwrap();
    assert_eq!(read_all(&whole).await.unwrap(), pattern(LEN));
    assert!(!whole.is_stream(), "all of it is one range, too");
    assert_eq!(read_at(&whole, 500_000, 10).await.unwrap(), pattern(500_010)[500_000..]);
    assert!(whole.is_stream());

    let moved = context.open(&nginx.http("/moved/object")).await.unwrap();
    assert_eq!(read_all(&moved).await.unwrap(), pattern(LEN));

    let private = nginx.http("/private/object");
    assert_eq!(context.open(&private).await.unwrap_err().kind(), ErrorKind::PermissionDenied);
    let with_password = private.replace("http://", "http://me:secret@");
    assert_eq!(read_all(&context.open(&with_password).await.unwrap()).await.unwrap(), pattern(LEN));
    let wrong = private.replace("http://", "http://me:wrong@");
    assert_eq!(context.open(&wrong).await.unwrap_err().kind(), ErrorKind::PermissionDenied);

    // nginx compresses for whoever asks for it, and nobody does.
    let zipped = context.open(&nginx.http("/zipped/object")).await.unwrap();
    assert_eq!(read_all(&zipped).await.unwrap(), pattern(LEN));
    let asking = Http::builder(&nginx.http("/zipped/object")).unwrap().header("Accept-Encoding", "gzip").unwrap();
    let result = async { read_all(&asking.open(&context).await?).await }.await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Integrity);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_under_its_reader_is_noticed() {
    let Some(nginx) = start() else { return };
    let source = host(|_| {}).open(&nginx.http("/object")).await.unwrap();
    assert_eq!(source.size().await.unwrap(), LEN as u64);
    // Another length, so that the ETag differs whatever the clock says.
    std::fs::write(nginx.files().join("object"), pattern(LEN + 1)).unwrap();
    assert_eq!(read_all(&source).await.unwrap_err().kind(), ErrorKind::Changed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_file() {
    let Some(nginx) = start() else { return };
    let error = host(|_| {}).open(&nginx.http("/missing?sig=hidden")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let text = format!("{error} {error:?}");
    assert!(text.contains("/missing?…") && !text.contains("hidden"), "{text}");
}
