//! `warpio cache show`.

use super::file::CachedFile;
use super::report::{CacheReport, Done};
use crate::args::CacheArgs;
use crate::failure::Failure;
use crate::output::Output;

pub(super) async fn run(args: &CacheArgs, output: &Output) -> Result<(), Failure> {
    let file = CachedFile::open(&args.path, &args.range).await?;
    let now = file.residency().await?;
    output.print(&CacheReport { file: &file, now, done: Done::Looked })
}
