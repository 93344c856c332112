//! A server that answers as a test tells it to, faults included: bytes on a socket, with no HTTP library.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A request, as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// How many requests came before it, over all connections.
    pub number: usize,
    /// Which connection it came over, counted from 0.
    pub connection: usize,
    /// `GET`, `HEAD`, …
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The headers, their names in lower case.
    pub headers: HashMap<String, String>,
    /// All of the body.
    pub body: Vec<u8>,
}

impl Seen {
    /// A header, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The range that is asked for, if there is one.
    pub fn range(&self) -> Option<Range<usize>> {
        let (first, last) = self.header("range").strip_prefix("bytes=")?.split_once('-')?;
        Some(first.parse().ok()?..last.parse::<usize>().ok()? + 1)
    }
}

/// What the server does about a request, one after another.
#[derive(Clone, Debug)]
pub enum Act {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends bytes one by one.
    Drip(Vec<u8>),
    /// Sends bytes one by one, with a pause after each: a server at the end of a thin line.
    Crawl(Vec<u8>),
    /// Sends the same bytes again and again, until the client has had enough.
    Endless(Vec<u8>),
    /// Ends the connection in the middle, as a machine does that fails.
    Reset,
    /// Ends the connection in order.
    Close,
    /// Sends nothing more, until the client hangs up.
    Silence,
    /// Waits until the test opens the gate.
    Gate,
}

type Script = dyn Fn(&Seen) -> Vec<Act> + Send + Sync;

/// The server. It ends when it is dropped.
pub struct FaultServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: JoinHandle<()>,
}

struct Shared {
    script: Box<Script>,
    seen: Mutex<Vec<Seen>>,
    count: watch::Sender<usize>,
    hung_up: watch::Sender<usize>,
    gate: watch::Sender<bool>,
    requests: AtomicUsize,
}

impl FaultServer {
    /// Starts a server that answers by `script`.
    ///
    /// # Panics
    /// If no socket can be had.
    pub async fn start(script: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            script: Box::new(script),
            seen: Mutex::default(),
            count: watch::Sender::new(0),
            hung_up: watch::Sender::new(0),
            gate: watch::Sender::new(false),
            requests: AtomicUsize::new(0),
        });
        let server = shared.clone();
        let listener = tokio::spawn(async move {
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                tokio::spawn(serve(server.clone(), stream, connection));
            }
        });
        Self { address, shared, listener }
    }

    /// The URL of a path on this server.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until so many requests have come.
    pub async fn requests(&self, n: usize) {
        let mut count = self.shared.count.subscribe();
        count.wait_for(|count| *count >= n).await.expect("the server is there");
    }

    /// Waits until so many connections were left by the client while it was being answered.
    pub async fn hung_up(&self, n: usize) {
        let mut count = self.shared.hung_up.subscribe();
        count.wait_for(|count| *count >= n).await.expect("the server is there");
    }

    /// Listens no more. Connections that there are go on.
    pub async fn end(mut self) {
        self.listener.abort();
        let _ = (&mut self.listener).await;
    }

    /// Lets everything go on that waits at the gate, now and later.
    pub fn open_gate(&self) {
        self.shared.gate.send_replace(true);
    }
}

impl std::fmt::Debug for FaultServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for FaultServer {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

async fn serve(shared: Arc<Shared>, mut stream: TcpStream, connection: usize) {
    let mut received = Vec::new();
    while let Some(mut seen) = read_request(&mut stream, &mut received).await {
        seen.number = shared.requests.fetch_add(1, Ordering::SeqCst);
        seen.connection = connection;
        let acts = (shared.script)(&seen);
        shared.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        shared.count.send_modify(|count| *count += 1);
        for act in acts {
            if !perform(&shared, &mut stream, act).await {
                return;
            }
        }
    }
}

/// Whether the connection goes on.
async fn perform(shared: &Shared, stream: &mut TcpStream, act: Act) -> bool {
    let sent = match act {
        Act::Send(bytes) => stream.write_all(&bytes).await,
        Act::Drip(bytes) => {
            let mut sent = stream.set_nodelay(true);
            for byte in bytes {
                sent = stream.write_all(&[byte]).await;
                tokio::task::yield_now().await;
            }
            sent
        }
        Act::Crawl(bytes) => {
            let mut sent = stream.set_nodelay(true);
            for byte in bytes {
                sent = stream.write_all(&[byte]).await;
                if sent.is_err() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            sent
        }
        Act::Endless(bytes) => loop {
            if let Err(error) = stream.write_all(&bytes).await {
                break Err(error);
            }
        },
        Act::Gate => {
            let mut gate = shared.gate.subscribe();
            return gate.wait_for(|open| *open).await.is_ok();
        }
        Act::Silence => {
            // It comes back when the client is gone.
            let _ = stream.read(&mut [0; 64]).await;
            shared.hung_up.send_modify(|count| *count += 1);
            return false;
        }
        Act::Reset => {
            // Without waiting for what is on its way: the client sees a reset.
            let _ = stream.set_zero_linger();
            return false;
        }
        Act::Close => return false,
    };
    if sent.is_err() {
        shared.hung_up.send_modify(|count| *count += 1);
    }
    sent.is_ok()
}

async fn read_request(stream: &mut TcpStream, received: &mut Vec<u8>) -> Option<Seen> {
    let end = loop {
        if let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(received).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&received[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: HashMap<_, _> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let len = headers.get("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    received.drain(..end + 4);
    while received.len() < len {
        if stream.read_buf(received).await.ok()? == 0 {
            return None;
        }
    }
    let body = received.drain(..len).collect();
    Some(Seen { number: 0, connection: 0, method, target, headers, body })
}

/// A reply, put together by hand.
#[derive(Clone, Debug)]
pub struct Answer {
    status: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    chunk: Option<usize>,
}

impl Answer {
    /// A reply of this status, such as `404 Not Found`.
    pub fn new(status: &str) -> Self {
        Self { status: status.to_owned(), headers: Vec::new(), body: Vec::new(), chunk: None }
    }

    /// What an honest server answers: all of the object, the range of it that is asked for, or that there is none.
    pub fn of(object: &[u8], seen: &Seen) -> Self {
        let len = object.len();
        let answer = match seen.range() {
            Some(range) if range.start >= len => {
                Self::new("416 Range Not Satisfiable").header("Content-Range", &format!("bytes */{len}")).body(b"")
            }
            Some(range) => {
                let range = range.start..range.end.min(len);
                Self::new("206 Partial Content")
                    .header("Content-Range", &format!("bytes {}-{}/{len}", range.start, range.end - 1))
                    .body(&object[range])
            }
            None => Self::new("200 OK").body(object),
        };
        answer.header("ETag", "\"first\"").header("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")
    }

    /// Whether its status begins with a 2.
    pub fn is_success(&self) -> bool {
        self.status.starts_with('2')
    }

    /// Adds a header, or replaces the one of this name.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self = self.without(name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Takes a header out.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// Sets the status and keeps the rest.
    #[must_use]
    pub fn status(mut self, status: &str) -> Self {
        status.clone_into(&mut self.status);
        self
    }

    /// Sets the body, and the length that belongs to it.
    #[must_use]
    pub fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        let len = body.len().to_string();
        self.header("Content-Length", &len)
    }

    /// Sends the body in chunks of so many bytes, which end with an empty one, and does not tell its length.
    #[must_use]
    pub fn chunked(mut self, len: usize) -> Self {
        self.chunk = Some(len);
        self.without("Content-Length").header("Transfer-Encoding", "chunked")
    }

    /// The bytes of its head.
    pub fn head(&self) -> Vec<u8> {
        let mut out = format!("HTTP/1.1 {}\r\n", self.status);
        for (name, value) in &self.headers {
            out += &format!("{name}: {value}\r\n");
        }
        (out + "\r\n").into_bytes()
    }

    /// The bytes of its body, as they are sent.
    pub fn tail(&self) -> Vec<u8> {
        let Some(len) = self.chunk else { return self.body.clone() };
        let mut out = Vec::new();
        for piece in self.body.chunks(len.max(1)) {
            out.extend(format!("{:x}\r\n", piece.len()).bytes());
            out.extend(piece);
            out.extend(b"\r\n");
        }
        out.extend(b"0\r\n\r\n");
        out
    }

    /// All of it, for a request of this method: replies to HEAD have no body.
    pub fn send(&self, method: &str) -> Vec<Act> {
        let body = if method == "HEAD" { Vec::new() } else { self.tail() };
        vec![Act::Send([self.head(), body].concat())]
    }

    /// The head and at most so many bytes of the body, but never all of it.
    pub fn cut(&self, at: usize) -> Act {
        let mut tail = self.tail();
        tail.truncate(at.min(tail.len().saturating_sub(1)));
        Act::Send([self.head(), tail].concat())
    }
}
