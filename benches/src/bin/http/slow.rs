//! A server far away, on loopback: it thinks before each reply, and sends at a rate of its own over each connection.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::Result;

/// Bytes per second over one connection.
pub(crate) const RATE: f64 = 100e6;
const THINKS: Duration = Duration::from_millis(50);
const PIECE: usize = 128 << 10;

pub(crate) struct Server {
    url: String,
}

impl Server {
    pub(crate) fn start(size: u64) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/object", listener.local_addr()?);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || serve(stream, size));
            }
        });
        Ok(Self { url })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

fn serve(mut stream: TcpStream, size: u64) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut received = Vec::new();
    let mut piece = vec![0; PIECE];
    loop {
        let end = loop {
            if let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            let mut more = [0; 4096];
            let n = stream.read(&mut more).ok().filter(|n| *n > 0)?;
            received.extend_from_slice(&more[..n]);
        };
        let head = String::from_utf8_lossy(&received[..end]).to_ascii_lowercase();
        received.drain(..end);
        let range = head.split_once("range: bytes=").and_then(|(_, rest)| {
            let (first, last) = rest.split_once("\r\n")?.0.split_once('-')?;
            Some(first.parse::<u64>().ok()?..(last.parse::<u64>().ok()? + 1).min(size))
        });
        std::thread::sleep(THINKS);
        let is_head = head.starts_with("head ");
        let (status, extra, range) = match range {
            Some(range) => {
                let content = format!("content-range: bytes {}-{}/{size}\r\n", range.start, range.end - 1);
                ("206 Partial Content", content, range)
            }
            None => ("200 OK", String::new(), 0..size),
        };
        let len = range.end - range.start;
        let text = format!("HTTP/1.1 {status}\r\ncontent-length: {len}\r\netag: \"x\"\r\n{extra}\r\n");
        stream.write_all(text.as_bytes()).ok()?;
        if is_head {
            continue;
        }
        let (start, mut sent) = (Instant::now(), 0);
        while sent < len {
            let n = (len - sent).min(PIECE as u64) as usize;
            fill(&mut piece[..n], range.start + sent);
            let due = Duration::from_secs_f64(sent as f64 / RATE);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
            stream.write_all(&piece[..n]).ok()?;
            sent += n as u64;
        }
    }
}

/// What the test files hold; all that is asked for here begins at a whole word.
fn fill(piece: &mut [u8], offset: u64) {
    for (bytes, n) in piece.chunks_mut(8).zip(offset / 8..) {
        bytes.copy_from_slice(&warpio_benches::file::word(n).to_le_bytes()[..bytes.len()]);
    }
}
