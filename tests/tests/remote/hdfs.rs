//! WebHDFS.

use warpio_core::testing::read_contract;
use warpio_core::{AsyncDeviceWrite, ErrorKind};
use warpio_remote::WebHdfs;
use warpio_tests::servers::fault::Act;
use warpio_tests::servers::hdfs::Hdfs;
use warpio_tests::servers::nginx::Nginx;

use crate::support::{gpu, host, pattern, read_all, read_at};

const LEN: usize = 1_000_003;

#[tokio::test(flavor = "multi_thread")]
async fn the_contract() {
    let hdfs = Hdfs::start(None).await;
    hdfs.files().put("/data/a file", pattern(LEN));
    for context in [host(|_| {}), gpu(|settings| settings.part_size = Some(300_000))] {
        let source = context.open(&hdfs.url("/data/a file")).await.unwrap();
        assert_eq!(source.describe().kind, "webhdfs");
        read_contract(&source, LEN).await;
        let source = context.open(&hdfs.http("/data/a%20file?op=OPEN")).await.unwrap();
        assert_eq!(read_at(&source, 7, 100).await.unwrap(), pattern(107)[7..]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_tokens_are_named_in_every_request() {
    let hdfs = Hdfs::start(Some("a+token/=")).await;
    hdfs.files().put("/x", pattern(100));
    let context = host(|_| {});
    let error = context.open(&hdfs.url("/x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("Kerberos"), "{error}");

    let builder = WebHdfs::builder(&hdfs.url("/x")).unwrap().user("me").delegation_token("a+token/=");
    let source = builder.open(&context).await.unwrap();
    assert_eq!(read_all(&source).await.unwrap(), pattern(100));
    let seen = hdfs.data_node().seen();
    assert!(seen.iter().all(|seen| seen.target.contains("user.name=me&delegation=a%2Btoken%2F%3D")), "{seen:?}");
    let url = hdfs.http("/x?user.name=me&delegation=a%2Btoken%2F%3D");
    assert_eq!(read_all(&context.open(&url).await.unwrap()).await.unwrap(), pattern(100));
}

#[tokio::test(flavor = "multi_thread")]
async fn by_tls() {
    let hdfs = Hdfs::start(Some("token")).await;
    let (name, data) = (hdfs.name_node().url(""), hdfs.data_node().url(""));
    // What a cluster's own TLS does: both kinds of nodes behind it, and redirects that lead there.
    let nodes = format!(
        "location /webhdfs/ {{ proxy_pass {name}; proxy_redirect {data}/ https://$http_host/data/; }}
         location /data/ {{ proxy_pass {data}/; }}"
    );
    let Some(nginx) = Nginx::start_with(1, &nodes) else { return };
    let context = gpu(|settings| {
        settings.stall_timeout = std::time::Duration::from_secs(30);
        settings.root_certificates = vec![nginx.root_certificate()];
    });
    let url = nginx.https("/a file").replace("https://", "swebhdfs://");
    let file = WebHdfs::builder(&url).unwrap().delegation_token("token");
    let sink = file.create(&context).unwrap();
    let data = context.device().upload(&pattern(LEN)).await.unwrap().freeze();
    sink.write_at(0, data).await.unwrap();
    sink.finish().await.unwrap();
    assert_eq!(hdfs.files().get("/a file").unwrap(), pattern(LEN));
    read_contract(&file.open(&context).await.unwrap(), LEN).await;

    // A node that leads out of it is not followed: everybody could read the token.
    let plain = format!("location /webhdfs/ {{ proxy_pass {name}; proxy_redirect off; }}");
    let Some(nginx) = Nginx::start_with(1, &plain) else { return };
    let context = host(|settings| settings.root_certificates = vec![nginx.root_certificate()]);
    let url = nginx.https("/a file").replace("https://", "swebhdfs://");
    let file = WebHdfs::builder(&url).unwrap().delegation_token("token");
    let source = file.open(&context).await.unwrap();
    let seen = hdfs.data_node().seen().len();
    assert_eq!(read_all(&source).await.unwrap_err().kind(), ErrorKind::Integrity);
    assert_eq!(hdfs.data_node().seen().len(), seen);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_written_anew_is_noticed() {
    let hdfs = Hdfs::start(None).await;
    hdfs.files().put("/x", pattern(5000));
    let source = host(|_| {}).open(&hdfs.url("/x")).await.unwrap();
    read_all(&source).await.unwrap();
    // As long as before, at another time.
    hdfs.files().put("/x", vec![9; 5000]);
    assert_eq!(read_all(&source).await.unwrap_err().kind(), ErrorKind::Changed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_node_that_breaks_off_is_asked_again() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    let count = AtomicUsize::new(0);
    let hdfs = Hdfs::with_faults(None, move |seen| {
        let first = seen.method == "GET" && count.fetch_add(1, Ordering::SeqCst) == 0;
        let (_, len) = seen.target.split_once("length=").unwrap_or_default();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n");
        first.then(|| vec![Act::Send(head.into_bytes()), Act::Reset])
    })
    .await;
    hdfs.files().put("/x", pattern(200_000));
    let source = gpu(|_| {}).open(&hdfs.url("/x")).await.unwrap();
    assert_eq!(read_all(&source).await.unwrap(), pattern(200_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn exceptions_are_told_by_their_meaning() {
    let hdfs = Hdfs::start(None).await;
    hdfs.files().put("/folder/x", pattern(10));
    let context = host(|_| {});
    assert_eq!(context.open(&hdfs.url("/missing")).await.unwrap_err().kind(), ErrorKind::NotFound);
    let error = context.open(&hdfs.url("/folder")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("directory"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_written_beside_their_place_and_moved_there() {
    let hdfs = Hdfs::start(None).await;
    hdfs.files().put("/data/out", b"old".to_vec());
    for context in [host(|_| {}), gpu(|_| {})] {
        for len in [0, 10, 13 << 20] {
            let location = context.at(&hdfs.url("/data/out")).unwrap();
            let sink = location.create().unwrap();
            let bytes = pattern(len);
            if len > 0 {
                let data = context.device().upload(&bytes).await.unwrap().freeze();
                sink.write_at(0, data).await.unwrap();
            }
            sink.finish().await.unwrap();
            assert!(hdfs.files().get("/data/out").unwrap() == bytes, "{len} bytes");
            assert_eq!(hdfs.files().paths(), ["/data/out"], "nothing else is left");
        }
    }
    let location = host(|_| {}).at(&hdfs.url("/data/out")).unwrap();
    let sink = location.create_new().unwrap();
    assert_eq!(sink.finish().await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(hdfs.files().get("/data/out").unwrap().len(), 13 << 20);
    let entry = location.stat().await.unwrap();
    assert_eq!((entry.key.as_str(), entry.size), ("/data/out", 13 << 20));
    location.delete().await.unwrap();
    assert_eq!(location.stat().await.unwrap_err().kind(), ErrorKind::NotFound);
}

/// The first try has moved it, and only its reply was lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_whose_last_reply_is_lost_is_there() {
    let context = host(|_| {});
    for (len, new) in [(10, false), (10, true), (13 << 20, false), (13 << 20, true)] {
        let hdfs = Hdfs::start(None).await;
        let location = context.at(&hdfs.url("/out")).unwrap();
        let sink = if new { location.create_new() } else { location.create() }.unwrap();
        let bytes = pattern(len);
        sink.write_at(0, context.device().upload(&bytes).await.unwrap().freeze()).await.unwrap();
        hdfs.files().lose_reply("RENAME");
        sink.finish().await.unwrap();
        assert!(hdfs.files().get("/out").unwrap() == bytes, "{len} bytes, new: {new}");
        assert_eq!(hdfs.files().paths(), ["/out"]);
    }
}

/// HDFS may go on with an append whose sender has given up, and has tried again.
#[tokio::test(flavor = "multi_thread")]
async fn a_last_part_that_was_written_twice_does_not_show() {
    let hdfs = Hdfs::start(None).await;
    hdfs.files().put("/out", b"old".to_vec());
    let context = host(|_| {});
    let sink = context.at(&hdfs.url("/out")).unwrap().create().unwrap();
    sink.write_at(0, context.device().upload(&pattern(13 << 20)).await.unwrap().freeze()).await.unwrap();
    hdfs.files().lose_reply("APPEND");
    let error = sink.finish().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
    assert_eq!(hdfs.files().get("/out").unwrap(), b"old");
}

/// A file that somebody has deleted under its temporary name is not the one of before, though that is as long.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_deleted_meanwhile_is_not_taken_for_the_one_of_before() {
    let hdfs = Hdfs::start(None).await;
    let context = host(|_| {});
    let sink = context.at(&hdfs.url("/out")).unwrap().create().unwrap();
    sink.write_at(0, context.device().upload(&pattern(8 << 20)).await.unwrap().freeze()).await.unwrap();
    let temporary = hdfs.files().paths().pop().unwrap();
    context.at(&hdfs.url(&temporary)).unwrap().delete().await.unwrap();
    hdfs.files().put("/out", vec![1; 8 << 20]);
    let error = sink.finish().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_dropped_leaves_nothing() {
    let hdfs = Hdfs::start(None).await;
    let context = host(|_| {});
    let sink = context.at(&hdfs.url("/out")).unwrap().create().unwrap();
    let data = context.device().upload(&pattern(9 << 20)).await.unwrap().freeze();
    sink.write_at(0, data).await.unwrap();
    assert_eq!(hdfs.files().paths().len(), 1, "it has been begun, under another name");
    drop(sink);
    let mut requests = 0;
    while !hdfs.files().paths().is_empty() {
        requests += 1;
        hdfs.name_node().requests(requests).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_could_not_get_its_name_leaves_nothing() {
    let hdfs = Hdfs::start(None).await;
    hdfs.files().put("/out", b"old".to_vec());
    let context = host(|_| {});
    for len in [0, 10, 9 << 20] {
        let sink = context.at(&hdfs.url("/out")).unwrap().create_new().unwrap();
        sink.write_at(0, context.device().upload(&pattern(len)).await.unwrap().freeze()).await.unwrap();
        assert_eq!(sink.finish().await.unwrap_err().kind(), ErrorKind::AlreadyExists);
        drop(sink);
        let cleanup = || warpio_remote::wait_for_cleanup(std::time::Duration::from_secs(60));
        assert!(tokio::task::spawn_blocking(cleanup).await.unwrap());
        assert_eq!(hdfs.files().paths(), ["/out"], "{len} bytes");
        assert_eq!(hdfs.files().get("/out").unwrap(), b"old");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_are_listed_with_all_that_is_below() {
    let hdfs = Hdfs::start(None).await;
    let paths = ["/d/a", "/d/b c", "/d/e/f/g", "/d/e/h"];
    paths.iter().for_each(|path| hdfs.files().put(path, pattern(path.len())));
    hdfs.files().put("/other", pattern(1));
    let location = host(|_| {}).at(&hdfs.url("/d")).unwrap();
    let mut listing = location.list().unwrap();
    let mut listed = Vec::new();
    while let Some(entry) = listing.try_next().await.unwrap() {
        assert_eq!(entry.size, entry.key.len() as u64);
        listed.push((location.relative(&entry).to_owned(), entry.key));
    }
    listed.sort();
    let names = ["a", "b c", "e/f/g", "e/h"];
    assert_eq!(listed, names.iter().zip(paths).map(|(a, b)| ((*a).to_owned(), b.to_owned())).collect::<Vec<_>>());
    assert_eq!(location.below("b c").name(), hdfs.url("/d/b c"));
}
