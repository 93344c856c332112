//! The command line.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tracing_subscriber::filter::LevelFilter;
use warpio::DeviceSpec;
use warpio::config::parse_bytes;

/// Move bytes between storage and device memory, and measure it.
#[derive(Debug, Parser)]
#[command(name = "warpio", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Print one JSON object per line instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Write a log to stderr: off, error, warn, info, debug or trace. RUST_LOG takes finer filters.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log: Option<LevelFilter>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the machine, its devices and the effective configuration.
    Info(InfoArgs),
    /// Read a file into device memory.
    Read(ReadArgs),
    /// Copy a file; the copy appears whole or not at all.
    Cp(CpArgs),
    /// Measure.
    #[command(subcommand)]
    Bench(BenchCommand),
}

#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// A file or directory: show where it lies and what direct I/O on it asks for.
    pub(crate) path: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// A path or file:// URL.
    #[arg(value_name = "SRC")]
    pub(crate) source: PathBuf,

    #[command(flatten)]
    pub(crate) device: DeviceArg,

    /// Read the bytes back from the device and show their CRC-32C.
    #[arg(long)]
    pub(crate) checksum: bool,

    /// Where to begin, such as 4096 or 1MiB.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "0")]
    pub(crate) offset: u64,

    /// How much to read at most; all of the rest by default.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) length: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct CpArgs {
    /// A path or file:// URL.
    #[arg(value_name = "SRC")]
    pub(crate) source: PathBuf,

    /// The name of the copy, or the directory to put it in.
    #[arg(value_name = "DST")]
    pub(crate) destination: PathBuf,

    /// Read both files again afterwards and compare their CRC-32C.
    #[arg(long)]
    pub(crate) verify: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Read a file into device memory, as fast as it goes, and verify what arrived.
    Seq(SeqArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SeqArgs {
    /// The file to read; without it, one is made and removed afterwards.
    pub(crate) file: Option<PathBuf>,

    /// The size of the file that is made.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "256MiB", conflicts_with = "file")]
    pub(crate) size: u64,

    /// Where to make it; the system's temporary directory by default.
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    pub(crate) dir: Option<PathBuf>,

    /// How often to read it, after one round that does not count. The median counts.
    #[arg(long, value_name = "N", default_value = "5")]
    pub(crate) rounds: NonZeroU32,

    /// Measure beside it what the machine allows: pinned copies, and a bare loop of threads, reads and copies.
    #[arg(long)]
    pub(crate) limit: bool,

    #[command(flatten)]
    pub(crate) device: DeviceArg,
}

#[derive(Debug, Args)]
pub(crate) struct DeviceArg {
    /// Where to read to: auto (the first GPU, or host memory where there is none), host, or cuda:N.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<DeviceSpec>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_name_that_begins_with_a_dash_can_be_given() {
        let cli = Cli::try_parse_from(["warpio", "read", "--", "--json"]).unwrap();
        let Command::Read(read) = cli.command else { panic!("{cli:?}") };
        assert!(!cli.json);
        assert_eq!((read.source, read.offset, read.length), (PathBuf::from("--json"), 0, None));
    }
}
