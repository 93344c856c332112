//! HTTP beside curl and a loop around hyper, round by round, over a server on loopback: one JSON row per contender.
//!
//!     http [JOB ...] [--size BYTES] [--rounds N] [--workers N] [--threads N] [--only NAME] [--url URL]
//!     http make FILE [--size BYTES]
//!
//! Jobs: `loopback` (nginx, as fast as it goes) and `latency` (a server that thinks for 50 ms and sends 100 MB/s over
//! each connection). Without any, both. warpio reads to the device that WARPIO_DEVICE names, the others into host memory.
//! With `--url`, `loopback` asks a server that runs already, for a file that `make` made; otherwise nginx must be
//! installed. Without curl, its rows are left out.

mod curl;
mod hyper_loop;
mod slow;
mod warpio_http;

use std::error::Error;

use serde_json::{Value, json};
use warpio_benches::clock::Cost;
use warpio_benches::file;
use warpio_benches::row::{Rounds, emit, round};
use warpio_tests::servers::nginx::Nginx;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// One of those compared. A run reads all of the object.
struct Contender {
    name: String,
    run: Box<dyn FnMut() -> Result<Cost>>,
}

struct Args {
    jobs: Vec<String>,
    size: u64,
    rounds: usize,
    workers: usize,
    threads: usize,
    only: Option<String>,
    url: Option<String>,
}

impl Args {
    fn parse() -> Result<Self> {
        let cores = std::thread::available_parallelism()?.get();
        let mut parsed = Self {
            jobs: Vec::new(),
            size: 2 << 30,
            rounds: 7,
            workers: 8,
            threads: cores.min(12),
            only: None,
            url: None,
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--size" => parsed.size = value()?.parse()?,
                "--rounds" => parsed.rounds = value()?.parse()?,
                "--workers" => parsed.workers = value()?.parse()?,
                "--threads" => parsed.threads = value()?.parse()?,
                "--only" => parsed.only = Some(value()?),
                "--url" => parsed.url = Some(value()?),
                _ => parsed.jobs.push(arg),
            }
        }
        Ok(parsed)
    }

    fn wants(&self, job: &str) -> bool {
        self.jobs.is_empty() || self.jobs.iter().any(|wanted| wanted == job)
    }
}

fn main() -> Result<()> {
    let args = Args::parse()?;
    if let [make, path] = args.jobs.as_slice()
        && make == "make"
    {
        return Ok(file::make(path.as_ref(), args.size)?);
    }
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if args.wants("loopback") {
        match &args.url {
            Some(url) => loopback(&tokio, url, &args)?,
            None => {
                let nginx = Nginx::start(args.workers).ok_or("nginx is not installed")?;
                file::make(&nginx.files().join("object"), args.size)?;
                loopback(&tokio, &nginx.http("/object"), &args)?;
            }
        }
    }
    if args.wants("latency") {
        for connections in [4, 8] {
            let server = slow::Server::start(args.size)?;
            let fastest = connections as f64 * slow::RATE / 1e9;
            let contenders = vec![warpio_http::fixed(&tokio, server.url(), args.size, connections)?];
            let extra = json!({"connections": connections, "latency_ms": 50, "fastest_gb_per_s": fastest});
            measure("latency", args.size, contenders, &args, &extra)?;
        }
    }
    Ok(())
}

fn loopback(tokio: &tokio::runtime::Runtime, url: &str, args: &Args) -> Result<()> {
    let mut contenders = vec![warpio_http::defaults(tokio, url, args.size)?];
    if curl::is_installed() {
        contenders.extend([2, 4, 8, 16].map(|connections| curl::parallel(url, args.size, connections)));
    } else {
        eprintln!("curl is not installed: its rows are left out");
    }
    contenders.push(hyper_loop::threads(url, args.size, args.threads)?);
    measure("loopback", args.size, contenders, args, &json!({"workers": args.workers}))
}

fn measure(job: &str, size: u64, mut contenders: Vec<Contender>, args: &Args, extra: &Value) -> Result<()> {
    if let Some(only) = &args.only {
        contenders.retain(|contender| contender.name.contains(only.as_str()));
    }
    let mut rounds = vec![Rounds::default(); contenders.len()];
    // The first round does not count.
    for n in 0..=args.rounds {
        for (contender, rounds) in contenders.iter_mut().zip(&mut rounds) {
            let cost = (contender.run)()?;
            if n > 0 {
                rounds.add(cost);
            }
        }
    }
    for (contender, rounds) in contenders.iter().zip(&rounds) {
        let mut row = rounds.row(job, size, extra.clone());
        row["contender"] = json!(contender.name);
        if let (Some(fastest), Some(speed)) = (row["fastest_gb_per_s"].as_f64(), row["median_gb_per_s"].as_f64()) {
            row["share_of_fastest"] = json!(round(speed / fastest));
        }
        emit(row);
    }
    Ok(())
}
