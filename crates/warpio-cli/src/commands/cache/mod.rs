//! `warpio cache`: what the page cache holds of a file.

mod drop;
mod file;
mod report;
mod show;
mod system;
mod warm;

use crate::args::CacheCommand;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) async fn run(command: CacheCommand, output: &Output) -> Result<(), Failure> {
    match command {
        CacheCommand::Show(args) => show::run(&args, output).await,
        CacheCommand::Drop(args) => drop::run(&args, output).await,
        CacheCommand::Warm(args) => warm::run(&args, output).await,
    }
}
