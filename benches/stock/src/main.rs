//! object_store with its own client, over a server on loopback: one JSON row per number of ranges at once.
//!
//!     stock --url URL [--size BYTES] [--rounds N] [--ranges N,N...]
//!
//! The object is what `http make` of warpio's benchmarks makes, and the server runs already. Ranges of 8 MiB are read as
//! streams, and each piece is copied into the host memory that it is for, as a program must that wants the bytes in a
//! place of its own. That memory is as large as the object, and verified after the first round, which does not count.

#[path = "../../src/clock.rs"]
#[allow(dead_code)]
mod clock;
#[path = "../../src/content.rs"]
mod content;
#[path = "../../src/row.rs"]
#[allow(dead_code)]
mod row;

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use clock::{Clock, Cost};
use futures::StreamExt;
use object_store::http::{HttpBuilder, HttpStore};
use object_store::path::Path;
use object_store::{ClientOptions, GetOptions, GetRange, ObjectStore};
use row::{Rounds, emit};
use serde_json::json;
use tokio::runtime::Runtime;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const RANGE: u64 = 8 << 20;

struct Args {
    url: String,
    size: u64,
    rounds: usize,
    ranges: Vec<usize>,
}

impl Args {
    fn parse() -> Result<Self> {
        let mut parsed = Self { url: String::new(), size: 2 << 30, rounds: 5, ranges: vec![2, 4, 8, 16] };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
            match arg.as_str() {
                "--url" => parsed.url = value,
                "--size" => parsed.size = value.parse()?,
                "--rounds" => parsed.rounds = value.parse()?,
                "--ranges" => parsed.ranges = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
                _ => return Err(format!("there is no {arg}").into()),
            }
        }
        match parsed.url.is_empty() {
            true => Err("--url says which object to read".into()),
            false => Ok(parsed),
        }
    }
}

/// A piece of the object, and the memory for it.
struct Part {
    offset: u64,
    memory: Vec<u8>,
}

fn main() -> Result<()> {
    let args = Args::parse()?;
    rustls::crypto::ring::default_provider().install_default().map_err(|_| "TLS has a provider already")?;
    let (base, path) = args.url.rsplit_once('/').ok_or("no URL")?;
    let options = ClientOptions::new().with_allow_http(true).with_timeout_disabled();
    let store = HttpBuilder::new().with_url(base).with_client_options(options).build()?;
    let source = Arc::new(Source { store, path: Path::parse(path)? });
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut parts: Vec<Part> = (0..args.size)
        .step_by(RANGE as usize)
        .map(|offset| Part { offset, memory: vec![0; RANGE.min(args.size - offset) as usize] })
        .collect();
    for &ranges in &args.ranges {
        let mut rounds = Rounds::default();
        for n in 0..=args.rounds {
            let (cost, read) = round(&tokio, &source, parts, ranges)?;
            parts = read;
            match n {
                0 => verify(&mut parts)?,
                _ => rounds.add(cost),
            }
        }
        let contender = format!("object_store's own client, {ranges} ranges at once, to host");
        emit(rounds.row("loopback", args.size, json!({"contender": contender})));
    }
    Ok(())
}

/// Reads all parts, so many at once.
fn round(tokio: &Runtime, source: &Arc<Source>, parts: Vec<Part>, ranges: usize) -> Result<(Cost, Vec<Part>)> {
    let count = parts.len();
    let waiting = Arc::new(Mutex::new(parts.into_iter()));
    let clock = Clock::start();
    let read = tokio.block_on(async {
        let workers: Vec<_> = (0..ranges).map(|_| tokio::spawn(work(source.clone(), waiting.clone()))).collect();
        let mut read = Vec::with_capacity(count);
        for worker in workers {
            read.extend(worker.await??);
        }
        Ok::<_, Box<dyn Error + Send + Sync>>(read)
    })?;
    Ok((clock.stop(), read))
}

async fn work(source: Arc<Source>, waiting: Arc<Mutex<std::vec::IntoIter<Part>>>) -> Result<Vec<Part>> {
    let mut read = Vec::new();
    loop {
        let part = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(mut part) = part else { return Ok(read) };
        source.read(&mut part).await?;
        read.push(part);
    }
}

struct Source {
    store: HttpStore,
    path: Path,
}

impl Source {
    async fn read(&self, part: &mut Part) -> Result<()> {
        let range = part.offset..part.offset + part.memory.len() as u64;
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        let mut pieces = self.store.get_opts(&self.path, options).await?.into_stream();
        let mut at = 0;
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            let place = part.memory.get_mut(at..at + piece.len()).ok_or("a body is long")?;
            place.copy_from_slice(&piece);
            at += piece.len();
        }
        if at != part.memory.len() {
            return Err("a body is short".into());
        }
        Ok(())
    }
}

/// A rate of wrong bytes is none. What is right is wiped, so that nothing old counts for the next.
fn verify(parts: &mut [Part]) -> Result<()> {
    if !parts.iter().all(|part| content::holds(part.offset, &part.memory)) {
        return Err("the bytes are wrong".into());
    }
    parts.iter_mut().for_each(|part| part.memory.fill(0));
    Ok(())
}
