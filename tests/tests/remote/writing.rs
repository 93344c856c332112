//! How objects are written.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use warpio_core::testing::FakeGpu;
use warpio_core::{AsyncDeviceWrite, Device, DeviceBytes, ErrorKind};
use warpio_remote::{Bucket, RemoteContext, RemoteSettings};
use warpio_tests::servers::fault::{Act, Answer, FaultServer, Seen};
use warpio_tests::servers::s3::{Objects, start};

use crate::support::{gpu, host, pattern, s3, settings, small_pool};

const MIB: usize = 1 << 20;

fn bucket(context: &RemoteContext, server: &FaultServer) -> Bucket {
    s3(server).bucket(context, "b").unwrap()
}

/// Parts of the least length that stores take.
fn small_parts(settings: &mut RemoteSettings) {
    settings.write_part_size = Some(5 << 20);
    settings.stall_timeout = std::time::Duration::from_secs(30);
}

async fn upload(device: &Device, bytes: &[u8]) -> DeviceBytes {
    device.upload(bytes).await.unwrap().freeze()
}

fn is_part(seen: &Seen) -> bool {
    seen.method == "PUT" && seen.target.contains("partNumber=")
}

#[tokio::test(flavor = "multi_thread")]
async fn small_objects_are_sent_at_once_and_large_ones_in_parts() {
    let objects = Arc::new(Objects::default());
    let server = start(&objects, |_| None).await;
    for context in [host(small_parts), gpu(small_parts)] {
        let bucket = bucket(&context, &server);
        for len in [0, 1, 5 * MIB - 1, 5 * MIB, 5 * MIB + 1, 17 * MIB + 3] {
            let before = server.seen().len();
            let sink = bucket.create("object").unwrap();
            let bytes = pattern(len);
            if len > 0 {
                sink.write_at(0, upload(context.device(), &bytes).await).await.unwrap();
            }
            sink.finish().await.unwrap();
            assert!(objects.get("/b/object").unwrap() == bytes, "{len} bytes");
            let parts = server.seen()[before..].iter().filter(|seen| is_part(seen)).count();
            assert_eq!(parts, if len < 5 * MIB { 0 } else { len.div_ceil(5 * MIB) }, "{len} bytes");
        }
    }
    assert_eq!(objects.open_uploads(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_follow_each_other_and_need_not_wait() {
    let objects = Arc::new(Objects::default());
    let server = start(&objects, |_| None).await;
    let context = gpu(small_parts);
    let sink = bucket(&context, &server).create("a b=%+").unwrap();
    let bytes = pattern(12 * MIB + 7);
    let (mut offset, mut writes) = (0, Vec::new());
    // Of all lengths, empty ones too, from both kinds of memory.
    for (n, len) in [1, 70_000, 0, 3 * MIB, 999, 6 * MIB, MIB].into_iter().cycle().enumerate() {
        let end = (offset + len).min(bytes.len());
        let device = if n % 2 == 0 { context.device().clone() } else { Device::host() };
        writes.push(sink.write_at(offset as u64, upload(&device, &bytes[offset..end]).await));
        offset = end;
        if offset == bytes.len() {
            break;
        }
    }
    for write in writes {
        write.await.unwrap();
    }
    sink.finish().await.unwrap();
    // Encoded as S3 wants it, and no other object.
    assert_eq!(objects.paths(), ["/b/a%20b%3D%25%2B"]);
    assert!(objects.get("/b/a%20b%3D%25%2B").unwrap() == bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_store_cannot_do_is_unsupported() {
    let objects = Arc::new(Objects::default());
    let server = start(&objects, |_| None).await;
    let context = host(small_parts);
    let sink = bucket(&context, &server).create("object").unwrap();
    let byte = || async { upload(&Device::host(), b"x").await };
    sink.write_at(0, byte().await).await.unwrap();
    for offset in [0, 2, u64::MAX] {
        let failed = sink.write_at(offset, byte().await).await.unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Unsupported, "{offset}");
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(1), "the buffer comes back");
    }
    assert_eq!(sink.append(byte().await).await.unwrap_err().error.kind(), ErrorKind::Unsupported);
    assert_eq!(sink.set_len(5).await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(sink.sync().await.unwrap_err().kind(), ErrorKind::Unsupported);
    let (other, _) = FakeGpu::device(7, small_pool());
    let foreign = upload(&other, b"x").await;
    assert_eq!(sink.write_at(1, foreign).await.unwrap_err().error.kind(), ErrorKind::InvalidInput);
    // None of it did any harm.
    sink.write_at(1, byte().await).await.unwrap();
    sink.finish().await.unwrap();
    assert_eq!(objects.get("/b/object").as_deref(), Some(&b"xx"[..]));
    assert_eq!(sink.write_at(2, byte().await).await.unwrap_err().error.kind(), ErrorKind::InvalidInput);
    assert_eq!(sink.finish().await.unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_shows_of_an_object_that_is_dropped() {
    let objects = Arc::new(Objects::default());
    let server = start(&objects, |_| None).await;
    for context in [host(small_parts), gpu(small_parts)] {
        let before = objects.aborted();
        let sink = bucket(&context, &server).create("object").unwrap();
        sink.write_at(0, upload(context.device(), &pattern(11 * MIB)).await).await.unwrap();
        drop(sink);
        aborted(&server, before + 1).await;
    }
    assert!(objects.paths().is_empty());
    assert_eq!((objects.open_uploads(), objects.aborted()), (0, 2));

    // One that was not begun leaves nothing to abort.
    let requests = server.seen().len();
    let context = host(small_parts);
    let sink = bucket(&context, &server).create("object").unwrap();
    sink.write_at(0, upload(&Device::host(), b"x").await).await.unwrap();
    drop(sink);
    assert_eq!(server.seen().len(), requests);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_may_be_dropped_while_it_waits_for_memory() {
    let objects = Arc::new(Objects::default());
    // Parts are never acknowledged.
    let server = start(&objects, |seen| is_part(seen).then(|| vec![Act::Silence])).await;
    for context in [host(small_parts), gpu(small_parts)] {
        let mut settings = context.settings().clone();
        settings.write_memory = 10 << 20;
        settings.stall_timeout = std::time::Duration::from_secs(3600);
        let context = RemoteContext::with_settings(context.device().clone(), settings);
        let (requests, before) = (server.seen().len(), objects.aborted());
        let sink = bucket(&context, &server).create("object").unwrap();
        let write = sink.write_at(0, upload(context.device(), &pattern(12 * MIB)).await);
        // The beginning of the upload and two parts; what is left waits for their memory, and never fills a part.
        server.requests(requests + 3).await;
        drop(sink);
        assert_eq!(write.await.unwrap_err().error.kind(), ErrorKind::Cancelled);
        aborted(&server, before + 1).await;
    }
    assert!(objects.paths().is_empty());
}

/// Waits until so many uploads have been aborted.
async fn aborted(server: &FaultServer, n: usize) {
    let is_abort = |seen: &Seen| seen.method == "DELETE" && seen.target.contains("uploadId=");
    let mut requests = 0;
    while server.seen().iter().filter(|seen| is_abort(seen)).count() < n {
        requests += 1;
        server.requests(requests).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_write_leaves_a_hole_that_is_never_published() {
    let objects = Arc::new(Objects::default());
    let server = start(&objects, |_| None).await;
    let (device, control) = FakeGpu::device(0, small_pool());
    let context = RemoteContext::with_settings(device.clone(), settings(small_parts));
    let sink = bucket(&context, &server).create("object").unwrap();
    let bytes = upload(&device, &pattern(100_000)).await;
    control.hold();
    drop(sink.write_at(0, bytes));
    control.release();
    assert_eq!(sink.finish().await.unwrap_err().kind(), ErrorKind::Cancelled);
    let after = sink.write_at(100_000, upload(&device, b"x").await).await.unwrap_err();
    assert!(matches!(after.error.kind(), ErrorKind::Cancelled | ErrorKind::InvalidInput), "{}", after.error);
    drop(sink);
    assert!(objects.paths().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_that_fail_are_sent_again() {
    let objects = Arc::new(Objects::default());
    let failures = AtomicUsize::new(0);
    // Every request fails once, in one of several ways.
    let server = start(&objects, move |seen| {
        let first_time = seen.number % 2 == 0;
        first_time.then(|| match failures.fetch_add(1, Ordering::SeqCst) % 4 {
            0 => Answer::new("503 Slow Down").body(b"<Error><Code>SlowDown</Code></Error>").send(&seen.method),
            1 => vec![Act::Reset],
            2 => vec![Act::Close],
            _ => Answer::new("500 Internal Server Error").body(b"").send(&seen.method),
        })
    })
    .await;
    let context = gpu(|settings| {
        small_parts(settings);
        settings.attempts = 8;
    });
    let sink = bucket(&context, &server).create("object").unwrap();
    let bytes = pattern(23 * MIB);
    sink.write_at(0, upload(context.device(), &bytes).await).await.unwrap();
    sink.finish().await.unwrap();
    assert!(objects.get("/b/object").unwrap() == bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_whose_last_reply_is_lost_is_there() {
    let objects = Arc::new(Objects::default());
    let (served, lost, looks) = (objects.clone(), AtomicUsize::new(0), AtomicUsize::new(0));
    let server = start(&objects, move |seen| {
        let completes = seen.method == "POST" && seen.target.contains("uploadId=");
        if completes && lost.fetch_add(1, Ordering::SeqCst) == 0 {
            // Carried out, but not told.
            served.answer(seen);
            return Some(vec![Act::Reset]);
        }
        // Nor does it say at once what is there.
        let looked = seen.method == "HEAD" && looks.fetch_add(1, Ordering::SeqCst) == 0;
        looked.then_some(vec![Act::Reset])
    })
    .await;
    let context = host(small_parts);
    let sink = bucket(&context, &server).create("object").unwrap();
    sink.write_at(0, upload(&Device::host(), &pattern(11 * MIB)).await).await.unwrap();
    sink.finish().await.unwrap();
    assert!(objects.get("/b/object").unwrap() == pattern(11 * MIB));
    assert_eq!(objects.aborted(), 0);
}

/// An upload that the store has thrown away is no object, though there is one as long, from before.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_gone_is_not_taken_for_the_object_of_before() {
    let objects = Arc::new(Objects::default());
    let tries = Arc::new(AtomicUsize::new(0));
    let (expiring, counted) = (objects.clone(), tries.clone());
    let server = start(&objects, move |seen| {
        let completes = seen.method == "POST" && seen.target.contains("uploadId=");
        let first = completes && counted.fetch_add(1, Ordering::SeqCst) == 0;
        if first {
            expiring.expire_uploads();
        }
        None
    })
    .await;
    let context = host(small_parts);
    objects.put("/b/object", vec![1; 11 * MIB]);
    let sink = bucket(&context, &server).create("object").unwrap();
    sink.write_at(0, upload(&Device::host(), &pattern(11 * MIB)).await).await.unwrap();
    let error = sink.finish().await.unwrap_err();
    assert_eq!((error.kind(), tries.load(Ordering::SeqCst)), (ErrorKind::NotFound, 1), "{error}");
    assert!(objects.get("/b/object").unwrap() == vec![1; 11 * MIB]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_refuses_is_told_and_leaves_nothing() {
    let objects = Arc::new(Objects::default());
    let server = start(&objects, |seen| {
        let refused = Answer::new("507 Insufficient Storage").body(b"<Error><Code>QuotaExceeded</Code></Error>");
        is_part(seen).then(|| refused.send(&seen.method))
    })
    .await;
    let context = host(small_parts);
    let sink = bucket(&context, &server).create("object").unwrap();
    let written = sink.write_at(0, upload(&Device::host(), &pattern(17 * MIB)).await).await;
    let error = match written {
        Err(failed) => failed.error,
        Ok(_) => sink.finish().await.unwrap_err(),
    };
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    assert_eq!(sink.finish().await.unwrap_err().kind(), ErrorKind::StorageFull);
    drop(sink);
    aborted(&server, 1).await;
    assert!(objects.paths().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_object_does_not_replace_one() {
    let objects = Arc::new(Objects::default());
    let server = start(&objects, |_| None).await;
    let context = host(small_parts);
    let bucket = bucket(&context, &server);
    for len in [10, 11 * MIB] {
        let key = format!("of-{len}");
        let write = |bytes: Vec<u8>, new: bool| {
            let (bucket, key) = (bucket.clone(), key.clone());
            async move {
                let sink = if new { bucket.create_new(&key) } else { bucket.create(&key) }.unwrap();
                sink.write_at(0, upload(&Device::host(), &bytes).await).await.unwrap();
                sink.finish().await
            }
        };
        write(pattern(len), true).await.unwrap();
        let error = write(vec![1; len], true).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        assert!(objects.get(&format!("/b/{key}")).unwrap() == pattern(len));
        write(vec![2; len], false).await.unwrap();
        assert!(objects.get(&format!("/b/{key}")).unwrap() == vec![2; len]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_bounded_while_the_store_is_slow() {
    let objects = Arc::new(Objects::default());
    let gated = objects.clone();
    let server = start(&objects, move |seen| {
        is_part(seen).then(|| [vec![Act::Gate], gated.answer(seen).send(&seen.method)].concat())
    })
    .await;
    let context = gpu(|settings| {
        small_parts(settings);
        settings.write_memory = 10 << 20;
    });
    let sink = Arc::new(bucket(&context, &server).create("object").unwrap());
    let bytes = pattern(40 * MIB);
    let data = upload(context.device(), &bytes).await;
    let writer = sink.clone();
    let write = tokio::spawn(async move { writer.write_at(0, data).await.map(drop).map_err(|failed| failed.error) });
    // The beginning of the upload, and two parts: there is no memory for a third, though nothing is answered.
    server.requests(3).await;
    assert_eq!(server.seen().iter().filter(|seen| is_part(seen)).count(), 2);
    assert!(!write.is_finished(), "the write waits for memory");
    server.open_gate();
    write.await.unwrap().unwrap();
    sink.finish().await.unwrap();
    assert!(objects.get("/b/object").unwrap() == bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn checksums_are_sent_where_they_are_asked_for() {
    let objects = Arc::new(Objects::default());
    let server = start(&objects, |_| None).await;
    let context = host(small_parts);
    let bucket = s3(&server).checksums().bucket(&context, "b").unwrap();
    for len in [10, 11 * MIB] {
        let sink = bucket.create("object").unwrap();
        sink.write_at(0, upload(&Device::host(), &pattern(len)).await).await.unwrap();
        sink.finish().await.unwrap();
        assert!(objects.get("/b/object").unwrap() == pattern(len));
    }
    let puts: Vec<_> = server.seen().into_iter().filter(|seen| seen.method == "PUT").collect();
    assert_eq!(puts.len(), 1 + 3);
    // The SHA-256 of each, in base 64.
    assert!(puts.iter().all(|seen| seen.header("x-amz-checksum-sha256").len() == 44), "{:?}", puts[0].headers);
    let sums: std::collections::BTreeSet<_> = puts.iter().map(|seen| seen.header("x-amz-checksum-sha256")).collect();
    assert_eq!(sums.len(), 4, "each has its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_looked_up_and_deleted() {
    let objects = Arc::new(Objects::default());
    let server = start(&objects, |_| None).await;
    objects.put("/b/object", pattern(1234));
    let context = host(|_| {});
    let bucket = bucket(&context, &server);
    let entry = bucket.stat("object").await.unwrap();
    assert_eq!((entry.key.as_str(), entry.size, entry.etag.as_deref()), ("object", 1234, Some("\"first\"")));
    bucket.delete("object").await.unwrap();
    assert_eq!(bucket.stat("object").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(bucket.open("object").await.unwrap_err().kind(), ErrorKind::NotFound);
}
