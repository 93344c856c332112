//! The least that a program around a library's client does: threads that ask for ranges and copy the bodies into
//! memory of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use warpio_benches::clock::Clock;

use super::{Contender, Result};

const RANGE: u64 = 8 << 20;

pub(crate) fn threads(url: &str, size: u64, threads: usize) -> Result<Contender> {
    let (authority, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).ok_or("no URL")?;
    let (authority, path) = (authority.to_owned(), format!("/{path}"));
    let mut memory = vec![vec![0u8; RANGE as usize]; threads];
    let run = move || {
        let next = Arc::new(AtomicU64::new(0));
        let clock = Clock::start();
        std::thread::scope(|scope| {
            let workers: Vec<_> = memory
                .iter_mut()
                .map(|memory| {
                    let (authority, path, next) = (&authority, &path, next.clone());
                    scope.spawn(move || -> Result<()> {
                        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                        tokio.block_on(read(authority, path, size, &next, memory))
                    })
                })
                .collect();
            workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a worker panicked")?)
        })?;
        Ok(clock.stop())
    };
    Ok(Contender { name: format!("hyper, {threads} threads"), run: Box::new(run) })
}

async fn read(authority: &str, path: &str, size: u64, next: &AtomicU64, memory: &mut [u8]) -> Result<()> {
    let stream = TcpStream::connect(authority).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    loop {
        let start = next.fetch_add(RANGE, Ordering::Relaxed);
        if start >= size {
            return Ok(());
        }
        let end = (start + RANGE).min(size);
        let request = hyper::Request::get(path)
            .header("host", authority)
            .header("range", format!("bytes={start}-{}", end - 1))
            .body(Empty::<Bytes>::new())?;
        let mut body = sender.send_request(request).await?.into_body();
        let mut at = 0;
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                memory[at..at + data.len()].copy_from_slice(&data);
                at += data.len();
            }
        }
        if at as u64 != end - start {
            return Err("a body is short".into());
        }
        sender.ready().await?;
    }
}
