//! Remote stores as a program meets them: through `warpio::Runtime`.

use std::time::Duration;

use warpio::remote::{Kind, RemoteSettings};
use warpio::{
    AsyncDeviceRead, AsyncDeviceReadExt, AsyncDeviceWriteExt, DeviceSpec, ErrorKind, Runtime, RuntimeBuilder,
};
use warpio_tests::servers::fault::{Answer, FaultServer};
use warpio_tests::servers::hdfs::Hdfs;

use crate::support::pattern;

fn builder() -> RuntimeBuilder {
    Runtime::builder().device(DeviceSpec::Host).ignore_environment()
}

async fn honest() -> FaultServer {
    let object = pattern(1_000_003);
    FaultServer::start(move |seen| Answer::of(&object, seen).send(&seen.method)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_created_at_a_url_is_opened_by_it() {
    let rt = builder().build().unwrap();
    let hdfs = Hdfs::start(None).await;
    let url = hdfs.url("/data/a file");
    let sink = rt.create(&url).await.unwrap();
    sink.write_all_at(0, rt.device().upload(&pattern(9_000_000)).await.unwrap().freeze()).await.unwrap();
    assert_eq!(rt.open(&url).await.unwrap_err().kind(), ErrorKind::NotFound, "it does not show yet");
    sink.finish().await.unwrap();

    let source = rt.open(&url).await.unwrap();
    let mut chunks = source.chunks(1 << 20).depth(3).start();
    let mut read = Vec::new();
    while let Some(chunk) = chunks.try_next().await.unwrap() {
        read.extend_from_slice(chunk.as_slice().unwrap());
    }
    assert!(read == pattern(9_000_000));
    assert_eq!(rt.stats().transfers.in_flight, 0);

    // A local one is finished in the same way.
    let folder = tempfile::tempdir().unwrap();
    let sink = rt.create(folder.path().join("file")).await.unwrap();
    sink.write_all_at(0, rt.device().upload(b"local").await.unwrap().freeze()).await.unwrap();
    sink.finish().await.unwrap();
    assert_eq!(std::fs::read(folder.path().join("file")).unwrap(), b"local");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_kinds_that_are_allowed_are_opened() {
    let server = honest().await;
    let mut settings = RemoteSettings::default();
    settings.kinds = vec![Kind::Presigned];
    let rt = builder().remote(settings).build().unwrap();
    let signed = rt.open(server.url("/x?X-Amz-Signature=abc")).await.unwrap();
    assert_eq!(signed.describe().kind, "presigned");
    let seen = server.seen().len();
    for other in ["/x", "/webhdfs/v1/x?op=OPEN"].map(|path| server.url(path)).iter().chain(&["s3://b/k".to_owned()]) {
        let error = rt.open(other).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{other}");
        assert!(error.to_string().contains("do not allow"), "{error}");
        assert_eq!(rt.create(other).await.unwrap_err().kind(), ErrorKind::Unsupported, "{other}");
    }
    assert_eq!(server.seen().len(), seen, "nothing was asked");
    assert_eq!(rt.open("ftp://host/x").await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_the_builder_reach_the_requests() {
    let busy = FaultServer::start(|_| Answer::new("503 Slow Down").body(b"").send("GET")).await;
    let mut settings = RemoteSettings::default();
    settings.backoff = Duration::from_millis(1);
    // The builder's own key beats it.
    settings.attempts = 9;
    let rt = builder().remote(settings.clone()).http_attempts(2).build().unwrap();
    assert_eq!(rt.open(busy.url("/x")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(busy.seen().len(), 2);
    let rt = builder().remote(settings).http_statuses([500]).build().unwrap();
    rt.open(busy.url("/x")).await.unwrap_err();
    assert_eq!(busy.seen().len(), 2 + 2, "a HEAD that is refused, and one byte: neither is sent again");
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_remote_sources_too() {
    let server = honest().await;
    let rt = builder().build().unwrap();
    let source = rt.open(server.url("/x")).await.unwrap();
    assert!(source.read_all().await.unwrap().as_slice().unwrap() == pattern(1_000_003));
    rt.shutdown(Duration::from_secs(30)).await.unwrap();
    assert_eq!(source.read_all().await.unwrap_err().kind(), ErrorKind::Gone);
    assert_eq!(rt.open(server.url("/x")).await.unwrap_err().kind(), ErrorKind::Gone);
}
