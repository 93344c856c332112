//! How objects are asked for.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warpio_core::testing::FakeGpu;
use warpio_core::{AsyncDeviceRead, AsyncDeviceReadExt, Device, ErrorKind, PathKind};
use warpio_remote::{Http, RemoteContext};
use warpio_tests::servers::fault::{Act, Answer, FaultServer, Seen};

use crate::support::{by_http, by_s3, gpu, host, pattern, read_all, read_at, settings, small_pool};

fn ranges(server: &FaultServer) -> Vec<Range<usize>> {
    server.seen().iter().filter_map(Seen::range).collect()
}

fn gets(server: &FaultServer) -> Vec<Seen> {
    server.seen().into_iter().filter(|seen| seen.method == "GET").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_body_is_asked_for_from_where_it_broke() {
    let object = Arc::new(pattern(100_000));
    let served = object.clone();
    let server = FaultServer::start(move |seen| {
        let honest = Answer::of(&served, seen);
        match (seen.method.as_str(), seen.number) {
            ("GET", 1) => vec![honest.cut(30_000), Act::Close],
            ("GET", 2) => vec![honest.cut(0), Act::Reset],
            ("GET", 3) => vec![Act::Send(honest.without("Content-Length").head()), Act::Close],
            _ => honest.send(&seen.method),
        }
    })
    .await;
    assert_eq!(read_all(&by_http(&host(|_| {}), &server).unwrap()).await.unwrap(), *object);
    let ranges = ranges(&server);
    assert_eq!(ranges[0], 0..100_000);
    assert!(ranges[1..].iter().all(|range| *range == (30_000..100_000)), "{ranges:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_breaks_behind_its_last_byte_is_whole() {
    let object = Arc::new(pattern(100_000));
    let served = object.clone();
    // Chunks without the last, empty one: every byte is there, and no empty range may be asked for.
    let server = FaultServer::start(move |seen| match seen.method.as_str() {
        "GET" => {
            let chunked = Answer::of(&served, seen).chunked(1000);
            let tail = chunked.tail();
            vec![Act::Send([chunked.head(), tail[..tail.len() - 5].to_vec()].concat()), Act::Close]
        }
        method => Answer::of(&served, seen).send(method),
    })
    .await;
    assert_eq!(read_all(&by_http(&host(|_| {}), &server).unwrap()).await.unwrap(), *object);
    assert_eq!(ranges(&server).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_are_asked_for_at_once_and_connections_are_used_again() {
    let object = Arc::new(pattern(1_000_000));
    let served = object.clone();
    let server = FaultServer::start(move |seen| match seen.method.as_str() {
        "GET" => [vec![Act::Gate], Answer::of(&served, seen).send("GET")].concat(),
        method => Answer::of(&served, seen).send(method),
    })
    .await;
    let context = host(|settings| {
        settings.part_size = Some(10_000);
        settings.connections = 8;
        settings.stall_timeout = Duration::from_secs(30);
    });
    let source = by_http(&context, &server).unwrap();
    let reading = tokio::spawn(async move { read_all(&source).await });
    // The HEAD, and as many parts as there are connections: none is answered yet.
    server.requests(1 + 8).await;
    server.open_gate();
    assert_eq!(reading.await.unwrap().unwrap(), *object);
    let seen = server.seen();
    assert_eq!(seen.len(), 1 + 100);
    let connections = seen.iter().map(|seen| seen.connection).max().unwrap() + 1;
    assert!(connections <= 9, "{connections} connections for 100 parts");
    let mut ranges = ranges(&server);
    ranges.sort_by_key(|range| range.start);
    assert!(ranges.iter().zip(0..).all(|(range, n)| *range == (n * 10_000..(n + 1) * 10_000)), "{ranges:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_that_lie_near_each_other_are_one_request() {
    let object = Arc::new(pattern(1_000_000));
    let served = object.clone();
    let server = FaultServer::start(move |seen| Answer::of(&served, seen).send(&seen.method)).await;
    let source = by_http(&host(|_| {}), &server).unwrap();
    let wanted = [900_000..900_100, 10..20, 5000..5100, 15..25, 60_000..60_000, 999_999..1_000_000, 20_000..20_001];
    let buffer = Device::host().alloc(wanted.iter().map(|range| (range.end - range.start) as usize).sum()).unwrap();
    let bytes = source.read_ranges_exact(&wanted, buffer).await.unwrap().freeze().to_host().await.unwrap();
    let expected: Vec<u8> =
        wanted.iter().flat_map(|range| &object[range.start as usize..range.end as usize]).copied().collect();
    assert!(bytes == expected[..]);
    let mut asked = ranges(&server);
    asked.sort_by_key(|range| range.start);
    assert_eq!(asked, [10..20_001, 900_000..900_100, 999_999..1_000_000]);
    let place = |offset: u64, len: usize| (offset, Device::host().alloc(len).unwrap());
    let buffers = source.read_scatter(vec![place(7, 3), place(999_990, 20), place(0, 5)]).await.unwrap().buffers;
    assert!(
        buffers
            .into_iter()
            .zip([7..10, 999_990..1_000_000, 0..5])
            .all(|(buffer, range): (_, Range<usize>)| { buffer.as_slice().unwrap()[..range.len()] == object[range] })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_are_on_their_way_to_the_device_before_their_part_is_complete() {
    let (device, control) = FakeGpu::device(0, small_pool());
    let context = RemoteContext::with_settings(
        device.clone(),
        settings(|settings| {
            settings.part_size = Some(1 << 30);
            settings.stall_timeout = Duration::from_secs(30);
        }),
    );
    let object = Arc::new(pattern(256 << 10));
    let served = object.clone();
    let server = FaultServer::start(move |seen| match seen.method.as_str() {
        // Two slots and a half, and the rest when the test has seen those on the device.
        "GET" => {
            let honest = Answer::of(&served, seen);
            let rest = honest.tail()[160 << 10..].to_vec();
            vec![honest.cut(160 << 10), Act::Gate, Act::Send(rest)]
        }
        method => Answer::of(&served, seen).send(method),
    })
    .await;
    let source = by_http(&context, &server).unwrap();
    source.size().await.unwrap();
    let reading = source.read_at(0, device.alloc(256 << 10).unwrap());
    tokio::task::spawn_blocking(move || control.wait_copies(2)).await.unwrap();
    server.open_gate();
    let moved = reading.await.unwrap();
    assert_eq!(moved.n, 256 << 10);
    assert!(moved.buffer.freeze().to_host().await.unwrap() == *object);
    assert_eq!(ranges(&server), vec![Range { start: 0, end: 256 << 10 }], "it was one part");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_without_bytes_is_read_without_a_range() {
    let server = FaultServer::start(|seen| Answer::of(&[], seen).send(&seen.method)).await;
    for context in [host(|_| {}), gpu(|_| {})] {
        for source in [by_http(&context, &server).unwrap(), by_s3(&context, &server).unwrap()] {
            assert_eq!(source.size().await.unwrap(), 0);
            assert_eq!(read_all(&source).await.unwrap(), b"");
            assert_eq!(read_at(&source, 0, 10).await.unwrap(), b"");
            assert_eq!(read_at(&source, 1000, 10).await.unwrap(), b"");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_presigned_url_that_refuses_head_is_sized_by_one_byte() {
    let object = Arc::new(pattern(5000));
    let served = object.clone();
    let server = FaultServer::start(move |seen| match seen.method.as_str() {
        "GET" => Answer::of(&served, seen).send("GET"),
        method => Answer::new("403 Forbidden").body(b"").send(method),
    })
    .await;
    let url = server.url("/b/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=hidden%2Fhidden");
    let source = host(|_| {}).open(&url).await.unwrap();
    assert_eq!(source.describe().kind, "presigned");
    assert_eq!(source.size().await.unwrap(), 5000);
    assert_eq!(read_all(&source).await.unwrap(), *object);
    assert_eq!(Http::builder(&url).unwrap().source(&host(|_| {})).unwrap().describe().kind, "presigned");
    let seen = server.seen();
    assert_eq!(seen[1].range(), Some(0..1));
    assert!(seen.iter().all(|seen| url.ends_with(&seen.target)), "it is sent as it is given");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_length_that_only_the_caller_knows() {
    let object = Arc::new(pattern(50_000));
    let served = object.clone();
    // Neither ranges, nor lengths, nor an end of its own.
    let server = FaultServer::start(move |seen| {
        let mut seen = seen.clone();
        seen.headers.remove("range");
        [Answer::of(&served, &seen).without("Content-Length").send(&seen.method), vec![Act::Close]].concat()
    })
    .await;
    let context = host(|_| {});
    let source = Http::builder(&server.url("/x")).unwrap().len(50_000).open(&context).await.unwrap();
    assert_eq!(source.size().await.unwrap(), 50_000);
    assert_eq!(read_all(&source).await.unwrap(), *object);
    let long = Http::builder(&server.url("/x")).unwrap().len(50_001).source(&context).unwrap();
    assert_eq!(read_all(&long).await.unwrap_err().kind(), ErrorKind::Unavailable, "it ends before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_unknown_length_is_read_to_its_end() {
    let object = Arc::new(pattern(200_000));
    let served = object.clone();
    let server = FaultServer::start(move |seen| {
        let mut seen = seen.clone();
        seen.headers.remove("range");
        Answer::of(&served, &seen).chunked(777).send(&seen.method)
    })
    .await;
    for context in [host(|_| {}), gpu(|_| {})] {
        let before = gets(&server).len();
        let source = context.open(&server.url("/x")).await.unwrap();
        let mut read = Vec::new();
        let mut chunks = source.chunks(30_000).depth(2).start();
        while let Some(chunk) = chunks.try_next().await.unwrap() {
            read.extend(chunk.into_buffer().freeze().to_host().await.unwrap());
        }
        assert!(read == *object);
        assert!(source.is_stream());
        assert_eq!(gets(&server).len() - before, 1, "the reply that told that it is a stream serves all chunks");
        assert_eq!(source.size().await.unwrap(), 200_000, "it is known now");
        // Backwards it is asked for anew.
        assert_eq!(read_at(&source, 10, 5).await.unwrap(), object[10..15]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_is_read_again_up_to_where_it_was() {
    let object = Arc::new(pattern(200_000));
    let served = object.clone();
    let server = FaultServer::start(move |seen| {
        let mut honest = seen.clone();
        honest.headers.remove("range");
        let answer = Answer::of(&served, &honest);
        match seen.number {
            1 => vec![answer.cut(120_000), Act::Reset],
            _ => answer.send(&seen.method),
        }
    })
    .await;
    assert_eq!(read_all(&by_http(&host(|_| {}), &server).unwrap()).await.unwrap(), *object);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rival_is_asked_where_nothing_comes() {
    for stuck_in_body in [false, true] {
        let object = Arc::new(pattern(100_000));
        let served = object.clone();
        let server = FaultServer::start(move |seen| {
            let honest = Answer::of(&served, seen);
            match (seen.method.as_str(), seen.number) {
                ("GET", 1) if stuck_in_body => vec![honest.cut(30_000), Act::Silence],
                ("GET", 1) => vec![Act::Silence],
                _ => honest.send(&seen.method),
            }
        })
        .await;
        let context = host(|settings| {
            // Longer than a busy machine takes to answer, where the answer comes.
            settings.hedge_after = Some(Duration::from_millis(if stuck_in_body { 1000 } else { 20 }));
            settings.stall_timeout = Duration::from_secs(60);
            settings.attempts = 1;
        });
        assert_eq!(read_all(&by_http(&context, &server).unwrap()).await.unwrap(), *object);
        let start = if stuck_in_body { 30_000 } else { 0 };
        assert_eq!(ranges(&server), [0..100_000, start..100_000]);
        // The first was given up.
        server.hung_up(1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_slowest_part_gets_a_rival() {
    let object = Arc::new(pattern(100_000));
    let served = object.clone();
    // There is always a little of it, so that nothing ever stalls.
    let server = FaultServer::start(move |seen| {
        let honest = Answer::of(&served, seen);
        match (seen.method.as_str(), seen.number) {
            ("GET", 1) => vec![honest.cut(30_000), Act::Crawl(honest.tail()[30_000..].to_vec())],
            _ => honest.send(&seen.method),
        }
    })
    .await;
    let context = gpu(|settings| {
        settings.part_size = Some(1 << 30);
        settings.hedge_after = Some(Duration::from_secs(1));
        settings.stall_timeout = Duration::from_secs(60);
        settings.attempts = 1;
    });
    assert_eq!(read_all(&by_http(&context, &server).unwrap()).await.unwrap(), *object);
    let ranges = ranges(&server);
    assert_eq!((ranges.len(), ranges[1].end), (2, 100_000), "{ranges:?}");
    assert!((30_000..100_000).contains(&ranges[1].start), "only what was missing is asked for: {ranges:?}");
    server.hung_up(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn staging_memory_stays_within_its_budget_whatever_the_size() {
    let object = pattern(48 << 20);
    let server = FaultServer::start(move |seen| Answer::of(&object, seen).send(&seen.method)).await;
    let context = gpu(|settings| settings.stall_timeout = Duration::from_secs(60));
    let source = by_http(&context, &server).unwrap();
    assert!(read_all(&source).await.unwrap() == pattern(48 << 20));
    // The pool gives nothing back by itself, so that this is the most that it ever held.
    let staging = context.device().staging().stats();
    assert_eq!((staging.budget, small_pool().budget), (1 << 20, 1 << 20));
    assert!(staging.allocated > 0 && staging.allocated <= staging.budget, "{staging:?}");
    assert!(server.seen().len() > 4, "it is read in parts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_read_leaves_the_server_at_once() {
    let object = pattern(100_000);
    let server = FaultServer::start(move |seen| match seen.method.as_str() {
        "GET" => vec![Answer::of(&object, seen).cut(50_000), Act::Silence],
        method => Answer::of(&object, seen).send(method),
    })
    .await;
    for context in [
        host(|settings| settings.stall_timeout = Duration::from_secs(3600)),
        gpu(|settings| settings.stall_timeout = Duration::from_secs(3600)),
    ] {
        let before = server.seen().len();
        let source = by_http(&context, &server).unwrap();
        let buffer = source.device().alloc(100_000).unwrap();
        let transfer = source.read_at(0, buffer);
        server.requests(before + 1).await;
        transfer.cancel();
        let failed = transfer.await.unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Cancelled);
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(100_000));
    }
    server.hung_up(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_is_obeyed() {
    let object = pattern(1000);
    let server = FaultServer::start(move |seen| match seen.number {
        1 => Answer::new("429 Too Many Requests").header("Retry-After", "1").body(b"").send("GET"),
        _ => Answer::of(&object, seen).send(&seen.method),
    })
    .await;
    let source = by_http(&host(|_| {}), &server).unwrap();
    source.size().await.unwrap();
    let asked = Instant::now();
    read_all(&source).await.unwrap();
    assert!(asked.elapsed() >= Duration::from_secs(1), "{:?}", asked.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn tries_and_time_are_limited() {
    let server = FaultServer::start(|_| Answer::new("503 Slow Down").body(b"").send("GET")).await;
    let context = host(|settings| settings.attempts = 3);
    let error = read_at(&by_http(&context, &server).unwrap(), 0, 10).await.unwrap_err();
    assert_eq!((error.kind(), server.seen().len()), (ErrorKind::Unavailable, 3));
    assert!(error.to_string().contains("failed 3 times"), "{error}");

    let context = host(|settings| settings.statuses = vec![500]);
    let error = read_at(&by_http(&context, &server).unwrap(), 0, 10).await.unwrap_err();
    assert_eq!((error.kind(), server.seen().len()), (ErrorKind::Unavailable, 4));

    let silent = FaultServer::start(|_| vec![Act::Silence]).await;
    let context = host(|settings| {
        settings.stall_timeout = Duration::from_secs(60);
        settings.total_timeout = Some(Duration::from_millis(50));
    });
    let error = read_at(&by_http(&context, &silent).unwrap(), 0, 10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there() {
    // Its port was free a moment ago.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = host(|_| {}).open(&format!("http://{address}/x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("cannot be reached"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_connection_is_given_up_in_time() {
    // The system leaves connections unanswered that nobody accepts, once there are too many.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(connection) =
        tokio::time::timeout(Duration::from_millis(300), tokio::net::TcpStream::connect(address)).await
    {
        waiting.push(connection.unwrap());
        assert!(waiting.len() < 64, "the system takes any number of connections");
    }
    let context = host(|settings| (settings.attempts, settings.connect_timeout) = (2, Duration::from_millis(100)));
    let error = context.open(&format!("http://{address}/x?sig=hidden")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("was not reached within 100ms"), "{error}");
    assert!(!error.to_string().contains("hidden"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_whose_text_never_comes_is_told_all_the_same() {
    let server =
        FaultServer::start(|_| vec![Act::Send(b"HTTP/1.1 404 Not Found\r\n\r\n".to_vec()), Act::Silence]).await;
    // Far longer than this test may take.
    let context = host(|settings| settings.stall_timeout = Duration::from_secs(3600));
    for source in [by_http(&context, &server).unwrap(), by_s3(&context, &server).unwrap()] {
        assert_eq!(read_at(&source, 0, 10).await.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_counted_as_remote() {
    let object = pattern(100_000);
    let server = FaultServer::start(move |seen| Answer::of(&object, seen).send(&seen.method)).await;
    let source = by_http(&gpu(|_| {}), &server).unwrap();
    let transfer = source.read_at(0, source.device().alloc(100_000).unwrap());
    let report = transfer.report();
    transfer.await.unwrap();
    assert_eq!(report.paths().collect::<Vec<_>>(), [(PathKind::Remote, 100_000)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_do_not_follow_a_redirect_to_another_server() {
    let object = pattern(1000);
    let other = FaultServer::start(move |seen| Answer::of(&object, seen).send(&seen.method)).await;
    let to = other.url("/y");
    let server =
        FaultServer::start(move |seen| Answer::new("302 Found").header("Location", &to).body(b"").send(&seen.method))
            .await;
    let url = server.url("/x").replace("http://", "http://me:hidden@");
    let builder = Http::builder(&url).unwrap().header("X-Api-Key", "hidden").unwrap();
    let source = builder.open(&host(|_| {})).await.unwrap();
    read_all(&source).await.unwrap();
    assert!(server.seen().iter().all(|seen| seen.header("authorization").starts_with("Basic ")));
    assert!(server.seen().iter().all(|seen| seen.header("x-api-key") == "hidden"));
    assert!(!other.seen().is_empty());
    for seen in other.seen() {
        assert_eq!((seen.header("authorization"), seen.header("x-api-key")), ("", ""), "{seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_outlives_its_context_and_a_closed_one_refuses() {
    use warpio_core::engine::Stats;

    let object = pattern(1000);
    let server = FaultServer::start(move |seen| Answer::of(&object, seen).send(&seen.method)).await;
    let stats = Stats::default();
    let context = RemoteContext::with_stats(warpio_core::Device::host(), settings(|_| {}), &stats);
    let source = by_http(&context, &server).unwrap();
    drop(context);
    assert_eq!(read_all(&source).await.unwrap(), pattern(1000));
    assert_eq!(stats.snapshot().read, [(PathKind::Remote, 1000)]);
    stats.close();
    assert_eq!(read_at(&source, 0, 10).await.unwrap_err().kind(), ErrorKind::Gone);
}

#[test]
fn reads_may_begin_outside_of_tokio() {
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let server = tokio.block_on(FaultServer::start(|seen| Answer::of(&pattern(5000), seen).send(&seen.method)));
    let source = by_http(&host(|_| {}), &server).unwrap();
    let transfer = source.read_at(5, source.device().alloc(100).unwrap());
    let size = source.size();
    // An executor that knows nothing of tokio.
    let (moved, size) = futures::executor::block_on(async { (transfer.await, size.await) });
    assert_eq!((moved.unwrap().buffer.as_slice().unwrap(), size.unwrap()), (&pattern(5000)[5..105], 5000));
}
