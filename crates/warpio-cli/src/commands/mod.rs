//! One module for each command.

mod bench;
mod cache;
mod cp;
mod info;
mod read;

use crate::args::Command;
use crate::failure::Failure;
use crate::output::Output;

/// Carries out a command and prints its result. Dropped at any await, it leaves nothing behind.
pub(crate) async fn run(command: Command, output: &Output) -> Result<(), Failure> {
    match command {
        Command::Info(args) => info::run(&args, output),
        Command::Read(args) => read::run(&args, output).await,
        Command::Cp(args) => cp::run(&args, output).await,
        Command::Cache(command) => cache::run(command, output).await,
        Command::Bench(command) => bench::run(command, output).await,
    }
}
