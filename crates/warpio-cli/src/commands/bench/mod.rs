//! `warpio bench`: how fast it goes.

mod clock;
mod limit;
mod pattern;
mod scrub;
mod seq;
mod subject;

use crate::args::BenchCommand;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) async fn run(command: BenchCommand, output: &Output) -> Result<(), Failure> {
    match command {
        BenchCommand::Seq(args) => seq::run(&args, output).await,
    }
}
