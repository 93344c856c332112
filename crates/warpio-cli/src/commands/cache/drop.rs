//! `warpio cache drop`.

use std::time::Instant;

use warpio::local::page_cache;

use super::file::CachedFile;
use super::report::{CacheReport, Change, Done};
use super::system;
use crate::args::CacheDropArgs;
use crate::failure::Failure;
use crate::output::Output;

pub(super) async fn run(args: &CacheDropArgs, output: &Output) -> Result<(), Failure> {
    let Some(path) = &args.path else { return system::drop_all(output).await };
    let file = CachedFile::open(path, &args.range).await?;
    let before = file.residency().await?;
    let started = Instant::now();
    let now = file.ask(file.range.clone(), |fd, range| page_cache::drop_range(fd, range)).await?;
    let done = Done::Dropped(Change { before, elapsed: started.elapsed() });
    output.print(&CacheReport { file: &file, now, done })
}
