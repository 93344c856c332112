//! Google Cloud Storage, by a double of what its XML interface has in common with S3's.

use std::sync::Arc;

use warpio_core::{AsyncDeviceWrite, Device, ErrorKind};
use warpio_remote::{Bucket, Gcs};
use warpio_tests::servers::s3::{Objects, start};

use crate::support::{gpu, host, pattern, read_all};

async fn write(bucket: &Bucket, key: &str, bytes: &[u8], new: bool) -> warpio_core::Result<()> {
    let sink = if new { bucket.create_new(key) } else { bucket.create(key) }?;
    sink.write_at(0, Device::host().upload(bytes).await?.freeze()).await?;
    sink.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_written_read_listed_and_deleted() {
    let objects = Arc::new(Objects::default());
    let server = start(&objects, |_| None).await;
    let context = gpu(|settings| {
        settings.write_part_size = Some(5 << 20);
        settings.stall_timeout = std::time::Duration::from_secs(30);
    });
    let bucket = Gcs::builder().endpoint(server.url("")).bearer_token("a-token").bucket(&context, "bucket").unwrap();
    // Exactly one object each; the library encodes every sign that is no letter or digit.
    for (key, path) in [
        ("a b", "/bucket/a%20b"),
        ("what?x=1", "/bucket/what%3Fx%3D1"),
        ("hash#mark", "/bucket/hash%23mark"),
        ("100%", "/bucket/100%25"),
        ("ü/+", "/bucket/%C3%BC%2F%2B"),
        ("a//b", "/bucket/a%2F%2Fb"),
    ] {
        write(&bucket, key, key.as_bytes(), false).await.unwrap_or_else(|error| panic!("{key}: {error}"));
        assert_eq!(objects.get(path).as_deref(), Some(key.as_bytes()), "{key}: {:?}", objects.paths());
        assert_eq!(read_all(&bucket.open(key).await.unwrap()).await.unwrap(), key.as_bytes());
        assert_eq!(bucket.stat(key).await.unwrap().key, key);
        bucket.delete(key).await.unwrap();
        assert_eq!(objects.get(path), None);
    }
    write(&bucket, "large", &pattern(12 << 20), false).await.unwrap();
    assert!(read_all(&bucket.open("large").await.unwrap()).await.unwrap() == pattern(12 << 20));
    assert!(server.seen().iter().all(|seen| seen.header("authorization") == "Bearer a-token"));

    write(&bucket, "list/a b", b"1", false).await.unwrap();
    write(&bucket, "list/c/d", b"22", false).await.unwrap();
    let mut listing = bucket.list("list").unwrap();
    let mut keys = Vec::new();
    while let Some(entry) = listing.try_next().await.unwrap() {
        keys.push((entry.key, entry.size));
    }
    assert_eq!(keys, [("list/a b".to_owned(), 1), ("list/c/d".to_owned(), 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_that_it_cannot_keep_is_unsupported() {
    let objects = Arc::new(Objects::default());
    let server = start(&objects, |_| None).await;
    let context = host(|settings| settings.write_part_size = Some(5 << 20));
    let bucket = Gcs::builder().endpoint(server.url("")).bearer_token("a-token").bucket(&context, "bucket").unwrap();
    write(&bucket, "new", b"first", true).await.unwrap();
    assert_eq!(write(&bucket, "new", b"second", true).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(objects.get("/bucket/new").as_deref(), Some(&b"first"[..]));
    let error = write(&bucket, "large", &pattern(6 << 20), true).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(objects.get("/bucket/large"), None);
}
