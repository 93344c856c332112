//! Secrets: nothing that is printed, logged or told holds one, at any level of the log.

use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};

use tracing_subscriber::filter::LevelFilter;
use warpio_core::{AsyncDeviceRead, AsyncDeviceWrite, Device};
use warpio_remote::{Azure, Gcs, Http, RemoteContext, S3, WebHdfs};
use warpio_tests::servers::fault::{Act, Answer, FaultServer, Seen};

use crate::support::{host, pattern};

/// Part of every secret here, and of nothing else.
const SECRET: &str = "s3cr3t";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The log of this whole process, at the finest level: network threads write it, too.
fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Log::default();
        let writer = log.clone();
        tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(move || writer.clone()).init();
        log
    })
}

fn check(what: &str, text: &str) {
    assert!(!text.contains(SECRET), "{what}: {text}");
}

/// Refuses in every way in turn, and repeats what was sent, as stores do.
fn refuse(seen: &Seen) -> Vec<Act> {
    let echo = format!(
        "<Error><Code>SignatureDoesNotMatch</Code><Message>{target} {authorization}</Message></Error>",
        target = seen.target,
        authorization = seen.header("authorization"),
    );
    let answer =
        |status: &str| Answer::new(status).header("X-Echo", &seen.target).body(echo.as_bytes()).send(&seen.method);
    match seen.number % 6 {
        0 => answer("403 Forbidden"),
        1 => answer("503 Slow Down"),
        2 => vec![
            Act::Send(format!("HTTP/1.1 206 {SECRET}\r\nContent-Range: {SECRET}\r\n\r\n").into_bytes()),
            Act::Close,
        ],
        3 => vec![Act::Reset],
        4 => Answer::new("302 Found").header("Location", &format!("ftp://x/?{SECRET}")).body(b"").send(&seen.method),
        _ => answer("400 Bad Request"),
    }
}

/// Reads and writes what will fail, and looks at all that is told about it.
async fn look(what: &str, source: warpio_core::Result<warpio_remote::Remote>) {
    let source = match source {
        Ok(source) => source,
        Err(error) => return check(what, &format!("{error} {error:?}")),
    };
    check(what, &format!("{source:?} {:?} {}", source.describe(), source.describe().name));
    for _ in 0..6 {
        if let Err(error) = source.size().await {
            check(what, &format!("{error} {error:?} {}", std::io::Error::from(error.clone())));
        }
        let transfer = source.read_at(0, Device::host().alloc(100).unwrap());
        check(what, &format!("{transfer:?}"));
        if let Err(failed) = transfer.await {
            check(what, &format!("{failed} {failed:?} {} {:?}", failed.error, failed.error));
        }
    }
}

async fn exercise(context: &RemoteContext, server: &FaultServer) {
    let secret = |name: &str| format!("{SECRET}-{name}");

    let s3 = S3::builder().endpoint(server.url("")).credentials("the-id", secret("key")).session_token(secret("token"));
    check("S3Builder", &format!("{s3:?}"));
    let bucket = s3.bucket(context, "bucket").unwrap();
    check("Bucket", &format!("{bucket:?}"));
    look("S3", bucket.source("object")).await;
    let sink = bucket.create("object").unwrap();
    check("RemoteSink", &format!("{sink:?} {:?}", sink.describe()));
    let _ = sink.write_at(0, Device::host().upload(&pattern(10)).await.unwrap().freeze()).await;
    let error = sink.finish().await.unwrap_err();
    check("RemoteSink", &format!("{error} {error:?}"));
    for error in [bucket.stat("x").await.unwrap_err(), bucket.list("x").unwrap().try_next().await.unwrap_err()] {
        check("Bucket", &format!("{error} {error:?}"));
    }

    let azure = Azure::builder().endpoint(server.url("/account")).account("account");
    let with_key = azure.clone().access_key("czNjcjN0LXMzY3IzdA==");
    check("AzureBuilder", &format!("{with_key:?}"));
    look("Azure", with_key.bucket(context, "container").and_then(|bucket| bucket.source("blob"))).await;
    let signed = azure.shared_access_signature(&format!("sv=2020&sig={SECRET}%2F&se=2030")).unwrap();
    look("Azure by signature", signed.bucket(context, "container").and_then(|bucket| bucket.source("blob"))).await;

    let gcs = Gcs::builder().endpoint(server.url("")).bearer_token(secret("bearer"));
    check("GcsBuilder", &format!("{gcs:?}"));
    look("GCS", gcs.bucket(context, "bucket").and_then(|bucket| bucket.source("object"))).await;
    let broken = Gcs::builder().service_account_key(format!("{{\"private_key\": \"{SECRET}\""));
    let error = broken.bucket(context, "bucket").unwrap_err();
    check("a key that cannot be read", &format!("{error} {error:?}"));

    let url = format!("{}?X-Amz-Signature={SECRET}&x={SECRET}", server.url("/presigned"));
    let url = url.replace("http://", &format!("http://me:{SECRET}@"));
    let http = Http::builder(&url).unwrap().bearer_token(&secret("bearer")).unwrap();
    check("HttpBuilder", &format!("{http:?}"));
    look("HTTP", http.source(context)).await;
    let location = context.at(&url).unwrap();
    check("Location", &format!("{location:?} {}", location.name()));
    let error = location.open().await.unwrap_err();
    check("Location", &format!("{error} {error:?}"));

    let hdfs =
        WebHdfs::builder(&format!("webhdfs://{}/x", server.address())).unwrap().delegation_token(secret("delegation"));
    check("WebHdfsBuilder", &format!("{hdfs:?}"));
    look("WebHDFS", hdfs.source(context)).await;
    check("RemoteContext", &format!("{context:?} {:?}", context.settings()));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_told_or_logged_holds_a_secret() {
    let log = log();
    let refusing = FaultServer::start(refuse).await;
    exercise(&host(|_| {}), &refusing).await;
    // The same with requests that are repeated, and with success.
    exercise(&host(|settings| settings.attempts = 2), &refusing).await;
    let object = pattern(100);
    let honest = FaultServer::start(move |seen| Answer::of(&object, seen).send(&seen.method)).await;
    let url = format!("{}?sig={SECRET}&se=1", honest.url("/x"));
    look("success", host(|_| {}).open(&url).await).await;

    let text = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(text.contains("credentials are sent over http://"), "the log was not looked at");
    assert!(text.contains("the request is sent again"), "repetitions are logged");
    for line in text.lines() {
        check("the log", line);
    }
    // What the server saw is what must not be seen elsewhere.
    let sent = format!("{:?}", refusing.seen());
    assert!(sent.matches(SECRET).count() > 20, "the secrets were sent");
}
