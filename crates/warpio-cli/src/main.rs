//! The `warpio` program: reads, copies and measures files and device memory.
//!
//! [`commands`] holds one module for each command; what they share stands beside it. A command is a future that is
//! dropped when the user interrupts it, and dropping it leaves nothing behind.

mod args;
mod commands;
mod failure;
mod figures;
mod log;
mod output;
mod progress;
mod readback;
mod runtime;
mod signal;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::args::Cli;
use crate::failure::Failure;
use crate::output::Output;

/// How long a store may take to throw away what was begun and not finished.
const CLEANUP: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let cli = Cli::parse();
    log::start(cli.log);
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    runtime::check_descriptors()?;
    let interruption = signal::listen()?;
    let output = Output::new(cli.json);
    let tokio = runtime::tokio()?;
    let result = tokio.block_on(async {
        tokio::select! {
            biased;
            signal = interruption.wait() => Err(Failure::interrupted(signal)),
            result = commands::run(cli.command, &output) => result,
        }
    });
    // When it is dropped, tokio waits for the threads that remove temporary files.
    drop(tokio);
    if !warpio::remote::wait_for_cleanup(CLEANUP) {
        eprintln!("warpio: parts of an object that was not finished may be left at its store");
    }
    result
}
