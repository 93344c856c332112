//! Every fault of the table in `docs/faults-remote.md`, over every way to read: the bytes are right, or the error has
//! the kind that the table says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use warpio_core::ErrorKind;
use warpio_remote::{Azure, Gcs, Remote, RemoteContext};
use warpio_tests::servers::fault::{Act, Answer, FaultServer, Seen};

use crate::support::{by_http, by_s3, gpu, host, pattern, read_all};

type Script = Box<dyn Fn(&Seen) -> Vec<Act> + Send + Sync>;

struct Row {
    /// As it stands in the table.
    name: &'static str,
    outcome: Outcome,
    /// What differs for S3.
    s3: Outcome,
    script: fn(Arc<Vec<u8>>) -> Script,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Bytes,
    Error(ErrorKind),
}

use Outcome::{Bytes, Error};

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bytes => f.write_str("the right bytes"),
            Error(kind) => write!(f, "`{kind:?}`"),
        }
    }
}

const LEN: usize = 300_007;

fn row(name: &'static str, outcome: Outcome, script: fn(Arc<Vec<u8>>) -> Script) -> Row {
    Row { name, outcome, s3: outcome, script }
}

/// Answers every GET by `fault`, and everything else honestly.
fn gets(object: Arc<Vec<u8>>, fault: impl Fn(&Seen, Answer) -> Vec<Act> + Send + Sync + 'static) -> Script {
    Box::new(move |seen| {
        let honest = Answer::of(&object, seen);
        if seen.method == "GET" { fault(seen, honest) } else { honest.send(&seen.method) }
    })
}

/// As [`gets`], but only the first GET meets the fault.
fn first(object: Arc<Vec<u8>>, fault: impl Fn(Answer) -> Vec<Act> + Send + Sync + 'static) -> Script {
    let count = AtomicUsize::new(0);
    gets(object, move |_, honest| match count.fetch_add(1, Ordering::SeqCst) {
        0 => fault(honest),
        _ => honest.send("GET"),
    })
}

fn reply(change: impl Fn(Answer) -> Answer + Send + Sync + 'static, object: Arc<Vec<u8>>) -> Script {
    gets(object, move |_, honest| change(honest).send("GET"))
}

/// An honest reply with all of the object, whatever range was asked for.
fn whole(object: &[u8], seen: &Seen) -> Answer {
    let seen = Seen { headers: Default::default(), ..seen.clone() };
    Answer::of(object, &seen)
}

fn rows() -> Vec<Row> {
    let integrity = Error(ErrorKind::Integrity);
    let unavailable = Error(ErrorKind::Unavailable);
    let changed = Error(ErrorKind::Changed);
    vec![
        row("none", Bytes, |object| gets(object, |_, honest| honest.send("GET"))),
        row("`Content-Range` of another place", integrity, |o| {
            reply(|a| a.header("Content-Range", "bytes 1-300006/300007"), o)
        }),
        row("`Content-Range` of a shorter part, and a body to match", integrity, |o| {
            reply(|a| a.header("Content-Range", "bytes 0-99/300007").body(&[7; 100]), o)
        }),
        row("`Content-Range` that cannot be read", integrity, |o| reply(|a| a.header("Content-Range", "bytes x"), o)),
        row("`Content-Range` up to 2⁶⁴", integrity, |o| {
            reply(|a| a.header("Content-Range", "bytes 0-18446744073709551615/*"), o)
        }),
        row("206 without `Content-Range`", integrity, |o| reply(|a| a.without("Content-Range"), o)),
        row("206 with several parts", integrity, |o| {
            reply(|a| a.header("Content-Type", "multipart/byteranges; boundary=x"), o)
        }),
        row("`Content-Length` that contradicts `Content-Range`", integrity, |o| {
            gets(o, |_, honest| vec![Act::Send(honest.header("Content-Length", "5").head()), Act::Silence])
        }),
        row("`Content-Length` and `Transfer-Encoding` at once", integrity, |o| {
            reply(|a| a.header("Transfer-Encoding", "chunked"), o)
        }),
        row("body that ends early, once", Bytes, |o| first(o, |a| vec![a.cut(1000), Act::Close])),
        row("body that always ends early", unavailable, |o| gets(o, |_, a| vec![a.cut(10), Act::Close])),
        row("reset in mid-body, once", Bytes, |o| first(o, |a| vec![a.cut(40_000), Act::Reset])),
        row("reset before every reply", unavailable, |o| gets(o, |_, _| vec![Act::Reset])),
        row("no reply and a closed connection, once", Bytes, |o| first(o, |_| vec![Act::Close])),
        row("silence in mid-body, once", Bytes, |o| first(o, |a| vec![a.cut(1000), Act::Silence])),
        row("silence instead of every reply", unavailable, |o| gets(o, |_, _| vec![Act::Silence])),
        row("one byte at a time", Bytes, |o| gets(o, |_, a| vec![Act::Send(a.head()), Act::Drip(a.tail())])),
        row("the head one byte at a time", Bytes, |o| gets(o, |_, a| vec![Act::Drip(a.head()), Act::Send(a.tail())])),
        row("200 with all of the object for a part of it", Bytes, |object| {
            let all = object.clone();
            gets(object, move |seen, _| whole(&all, seen).send("GET"))
        }),
        row("the same, in chunks, without a length", Error(ErrorKind::Unsupported), |object| {
            let all = object.clone();
            Box::new(move |seen| whole(&all, seen).chunked(9999).send(&seen.method))
        }),
        row("the same, with neither length nor end", Error(ErrorKind::Unsupported), |object| {
            Box::new(move |seen| {
                let answer = whole(&object, seen).without("Content-Length");
                [answer.send(&seen.method), vec![Act::Close]].concat()
            })
        }),
        row("204", integrity, |o| reply(|a| a.status("204 No Content").without("Content-Range"), o)),
        row("404", Error(ErrorKind::NotFound), |_| {
            Box::new(|seen| Answer::new("404 Not Found").body(b"").send(&seen.method))
        }),
        row("403", Error(ErrorKind::PermissionDenied), |_| {
            Box::new(|seen| Answer::new("403 Forbidden").body(b"").send(&seen.method))
        }),
        row("416 within the object", integrity, |o| {
            reply(|a| a.status("416 Range Not Satisfiable").header("Content-Range", "bytes */300007").body(b""), o)
        }),
        Row {
            s3: Error(ErrorKind::Unsupported),
            ..row("redirect", Bytes, |object| {
                gets(object, |seen, honest| match seen.target.as_str() {
                    "/elsewhere" => honest.send("GET"),
                    _ => Answer::new("307 Temporary Redirect").header("Location", "/elsewhere").body(b"").send("GET"),
                })
            })
        },
        Row {
            s3: Error(ErrorKind::Unsupported),
            ..row("redirects without end", integrity, |object| {
                gets(object, |_, _| Answer::new("302 Found").header("Location", "?again").body(b"").send("GET"))
            })
        },
        Row {
            s3: Error(ErrorKind::Unsupported),
            ..row("redirect to `ftp://`", integrity, |object| {
                gets(object, |_, _| Answer::new("302 Found").header("Location", "ftp://x/").body(b"").send("GET"))
            })
        },
        row("429 with `Retry-After`, once", Bytes, |o| {
            first(o, |_| Answer::new("429 Too Many Requests").header("Retry-After", "1").body(b"").send("GET"))
        }),
        row("503, once", Bytes, |o| first(o, |_| Answer::new("503 Slow Down").body(b"").send("GET"))),
        row("503 always", unavailable, |o| gets(o, |_, _| Answer::new("503 Slow Down").body(b"").send("GET"))),
        row("503 with a `Retry-After` beyond all patience", unavailable, |o| {
            gets(o, |_, _| Answer::new("503 Slow Down").header("Retry-After", "86400").body(b"").send("GET"))
        }),
        row("HEAD refused with 403", Bytes, |object| {
            Box::new(move |seen| match seen.method.as_str() {
                "GET" => Answer::of(&object, seen).send("GET"),
                method => Answer::new("403 Forbidden").body(b"").send(method),
            })
        }),
        row("HEAD that says 0 bytes", Bytes, |object| {
            Box::new(move |seen| match seen.method.as_str() {
                "GET" => Answer::of(&object, seen).send("GET"),
                method => Answer::of(&object, seen).header("Content-Length", "0").send(method),
            })
        }),
        row("HEAD that says another length", changed, |object| {
            Box::new(move |seen| match seen.method.as_str() {
                "GET" => Answer::of(&object, seen).send("GET"),
                method => Answer::of(&object, seen).header("Content-Length", "300006").send(method),
            })
        }),
        row("no `Content-Length`, but chunks", Bytes, |o| reply(|a| a.chunked(5000), o)),
        row("chunks that end early, once", Bytes, |o| first(o, |a| vec![a.chunked(5000).cut(20_000), Act::Close])),
        row("no `Content-Length`, and a connection that ends", Bytes, |o| {
            gets(o, |_, a| [a.without("Content-Length").send("GET"), vec![Act::Close]].concat())
        }),
        row("another `ETag` than before", changed, |object| {
            let count = AtomicUsize::new(0);
            Box::new(move |seen| {
                let etag = format!("\"{}\"", count.fetch_add(1, Ordering::SeqCst));
                Answer::of(&object, seen).header("ETag", &etag).send(&seen.method)
            })
        }),
        row("an `ETag` at first, and none later", changed, |o| reply(|a| a.without("ETag"), o)),
        row("another total length than before", changed, |o| {
            gets(o, |seen, honest| {
                let range = seen.range().unwrap_or(0..LEN);
                honest.header("Content-Range", &format!("bytes {}-{}/300008", range.start, range.end - 1)).send("GET")
            })
        }),
        row("headers of a megabyte", integrity, |o| reply(|a| a.header("X-Long", &"y".repeat(1 << 20)), o)),
        row("thousands of headers", integrity, |o| {
            gets(o, |_, a| {
                let mut head = a.head();
                head.truncate(head.len() - 2);
                (0..3000).for_each(|n| head.extend(format!("x-{n}: y\r\n").bytes()));
                vec![Act::Send([head, b"\r\n".to_vec(), a.tail()].concat())]
            })
        }),
        // A store's objects may be compressed themselves, and are then sent as they are.
        Row {
            s3: Bytes,
            ..row("compressed, unasked", integrity, |o| reply(|a| a.header("Content-Encoding", "gzip"), o))
        },
        row("chunks behind the end of the range", integrity, |o| {
            gets(o, |_, a| {
                let chunked = a.chunked(5000);
                let mut tail = chunked.tail();
                tail.truncate(tail.len() - 5);
                let more = vec![b"5\r\nextra\r\n".to_vec(); 100].concat();
                vec![Act::Send([chunked.head(), tail].concat()), Act::Endless(more)]
            })
        }),
        row("a body without length and end", Bytes, |o| {
            gets(o, |_, a| {
                let (tail, head) = (a.tail(), a.without("Content-Length").head());
                vec![Act::Send([head, tail].concat()), Act::Endless(vec![b'x'; 5000])]
            })
        }),
        row("a head without end", integrity, |o| {
            gets(o, |_, _| vec![Act::Send(b"HTTP/1.1 206 OK\r\n".to_vec()), Act::Endless(b"X: y\r\n".to_vec())])
        }),
        row("no HTTP at all", integrity, |o| {
            gets(o, |_, _| vec![Act::Send(b"SSH-2.0-OpenSSH_9\r\n\r\n".to_vec()), Act::Close])
        }),
        row("chunks that are none", integrity, |o| {
            gets(o, |_, a| vec![Act::Send([a.chunked(9).head(), b"zz\r\nhello".to_vec()].concat()), Act::Silence])
        }),
    ]
}

async fn meet(
    row: &Row,
    context: &RemoteContext,
    expected: Outcome,
    open: fn(&RemoteContext, &FaultServer) -> warpio_core::Result<Remote>,
) -> Result<(), String> {
    let object = Arc::new(pattern(LEN));
    let server = FaultServer::start((row.script)(object.clone())).await;
    let source = open(context, &server).expect("a source");
    let result = read_all(&source).await;
    let wrong = |what: String| Err(format!("{}: {what}", row.name));
    match (result, expected) {
        (Ok(bytes), Bytes) if bytes == *object => Ok(()),
        (Ok(bytes), _) => {
            wrong(format!("{} bytes, which are {}", bytes.len(), if bytes == *object { "right" } else { "WRONG" }))
        }
        (Err(error), Error(kind)) if error.kind() == kind => Ok(()),
        (Err(error), _) => wrong(format!("{:?}: {error}", error.kind())),
    }
}

async fn meet_all(
    context: impl Fn() -> RemoteContext,
    open: fn(&RemoteContext, &FaultServer) -> warpio_core::Result<Remote>,
    s3: bool,
) {
    let mut wrong = Vec::new();
    for row in rows() {
        let expected = if s3 { row.s3 } else { row.outcome };
        // One of its own for each, so that no server has a part in what another is known for.
        if let Err(what) = meet(&row, &context(), expected, open).await {
            wrong.push(what);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_into_host_memory() {
    meet_all(|| host(|_| {}), by_http, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_into_a_device() {
    meet_all(|| gpu(|_| {}), by_http, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_s3_in_small_parts() {
    meet_all(|| host(|settings| settings.part_size = Some(100_000)), by_s3, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_gcs() {
    let open = |context: &RemoteContext, server: &FaultServer| {
        Gcs::builder().endpoint(server.url("")).bearer_token("x").bucket(context, "bucket")?.source("object")
    };
    meet_all(|| host(|_| {}), open, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_azure() {
    let open = |context: &RemoteContext, server: &FaultServer| {
        let azure = Azure::builder().endpoint(server.url("/account")).account("account").bearer_token("x");
        azure.bucket(context, "container")?.source("object")
    };
    meet_all(|| host(|_| {}), open, true).await;
}

#[test]
fn the_table_in_the_documentation_is_this_one() {
    let table = include_str!("../../../docs/faults-remote.md");
    let expected: Vec<String> = rows()
        .iter()
        .map(|row| match row.outcome == row.s3 {
            true => format!("| {} | {} |", row.name, row.outcome),
            false => format!("| {} | {}; for S3 {} |", row.name, row.outcome, row.s3),
        })
        .collect();
    let found: Vec<&str> =
        table.lines().skip_while(|line| !line.starts_with("|---")).skip(1).take_while(|l| l.starts_with('|')).collect();
    assert_eq!(found, expected, "docs/faults-remote.md should hold\n{}", expected.join("\n"));
}
