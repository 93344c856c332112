//! `warpio cache warm`.

use std::time::Instant;

use warpio::local::page_cache;

use super::file::CachedFile;
use super::report::{CacheReport, Change, Done};
use crate::args::CacheArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;

/// How much is warmed at a time, so that the bar moves and an interruption is heard.
const PIECE: u64 = 64 << 20;

pub(super) async fn run(args: &CacheArgs, output: &Output) -> Result<(), Failure> {
    let file = CachedFile::open(&args.path, &args.range).await?;
    let before = file.residency().await?;
    let started = Instant::now();
    let (mut at, end) = (file.range.start, file.range.end);
    let progress = Progress::new(output, "warming", end - at);
    while at < end {
        let next = end.min(at + PIECE);
        file.ask(at..next, |fd, range| page_cache::warm_range(fd, range)).await?;
        progress.add(next - at);
        at = next;
    }
    drop(progress);
    let elapsed = started.elapsed();
    let now = file.residency().await?;
    output.print(&CacheReport { file: &file, now, done: Done::Warmed(Change { before, elapsed }) })
}
