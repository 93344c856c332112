//! `warpio bench`: how fast it goes.

mod blocks;
mod clock;
mod cold;
mod fio;
mod latency;
mod limit;
mod measure;
mod pattern;
mod plan;
mod report;
mod scrub;
mod subject;

use crate::args::{BenchCommand, UncachedArgs};
use crate::failure::Failure;
use crate::output::Output;
use plan::Plan;

pub(crate) async fn run(command: BenchCommand, output: &Output) -> Result<(), Failure> {
    match command {
        BenchCommand::Seq(args) => measure::run(&args.bench, args.uncached, Plan::sequential(&args), output).await,
        BenchCommand::Rand(args) => measure::run(&args.bench, args.uncached, Plan::random(&args), output).await,
        BenchCommand::Gather(args) => measure::run(&args.bench, args.uncached, Plan::gather(&args), output).await,
        BenchCommand::Mmap(args) => measure::run(&args.bench, UncachedArgs::default(), Plan::mmap(&args), output).await,
    }
}
