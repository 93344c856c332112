//! Many small reads, and memory maps, into the memory of whatever device `auto` takes, with default settings. One JSON
//! row a line; offsets are drawn anew at every run, and what the device holds is compared with the file after every row.
//!
//!     many gather FILE [SIZE_MIB]     16,384 random ranges, cached: packed, scattered, of 4 KiB and of 64 KiB
//!     many cold FILE [SIZE_MIB]       4 KiB past the page cache, beside fio at depth 256 where it is installed
//!     many half FILE [SIZE_MIB]       a file of which a half is cached, beside the time that its other half takes
//!     many mmap FILE [SIZE_MIB]       a memory map: mapped anew, mapped once, pinned
//!
//! FILE is made where it does not exist with that size: 4096 MiB by default.

mod cold;
mod gather;
mod half;
mod mmap;
mod random;

use std::error::Error;
use std::path::Path;

use serde_json::json;
use warpio::Runtime;
use warpio_benches::file;
use warpio_benches::row::emit;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const MIB: u64 = 1 << 20;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (job, path, size) = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [job, path] => (job, Path::new(path), 4096 * MIB),
        [job, path, mib] => (job, Path::new(path), mib.parse::<u64>()? * MIB),
        _ => return Err("usage: many gather|cold|half|mmap FILE [SIZE_MIB]".into()),
    };
    file::make(path, size)?;
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    tokio.block_on(async {
        let rt = Runtime::new()?;
        emit(json!({"job": "machine", "device": rt.device().to_string(), "engine": rt.engine(), "file": path,
            "size": size, "settings": rt.config().rows().iter().map(|row| (row.key.name, row.value.clone())).collect::<Vec<_>>()}));
        match job {
            "gather" => gather::run(&rt, path, size).await,
            "cold" => cold::run(&rt, path, size).await,
            "half" => half::run(&rt, path, size).await,
            "mmap" => mmap::run(&rt, path, size).await,
            other => Err(format!("no such job: {other}").into()),
        }
    })
}
