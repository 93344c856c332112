//! The command line.

use std::num::{NonZeroU32, NonZeroU64};
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};
use tracing_subscriber::filter::LevelFilter;
use warpio::DeviceSpec;
use warpio::config::{CompatMode, DirectIo, EngineChoice, parse_bytes};
use warpio::core::parse_decimal;

use crate::failure::Failure;
use crate::output::shown_path;

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
    /// Read a file or an object of a store into device memory.
    Read(ReadArgs),
    /// Copy a file or an object; the copy appears whole or not at all.
    Cp(CpArgs),
    /// Show, drop or warm what the page cache holds of a file.
    #[command(subcommand)]
    Cache(CacheCommand),
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
    /// A path, or a URL: file://, s3://, gs://, az://, https://, http://, webhdfs://.
    #[arg(value_name = "SRC")]
    pub(crate) source: PathBuf,

    #[command(flatten)]
    pub(crate) device: DeviceArgs,

    /// Read the bytes back from the device and show their CRC-32C.
    #[arg(long)]
    pub(crate) checksum: bool,

    /// Map the file into memory, and read out of the map.
    #[arg(long)]
    pub(crate) mmap: bool,

    #[command(flatten)]
    pub(crate) range: RangeArgs,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RangeArgs {
    /// Where to begin, such as 4096 or 1MiB.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "0")]
    pub(crate) offset: u64,

    /// How much at most; all of the rest by default.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) length: Option<u64>,
}

impl RangeArgs {
    /// The part that is meant of a file of `size` bytes.
    pub(crate) fn within(&self, size: u64, path: &Path) -> Result<Range<u64>, Failure> {
        let (start, path) = (self.offset, shown_path(path));
        if start > size {
            return Err(Failure::new(format!(
                "{path} has {size} bytes, so that nothing is at {start}; lower --offset"
            )));
        }
        let len = self.length.unwrap_or(u64::MAX).min(size - start);
        Ok(start..start + len)
    }
}

#[derive(Debug, Args)]
pub(crate) struct CpArgs {
    /// A path, or a URL: file://, s3://, gs://, az://, https://, http://, webhdfs://.
    #[arg(value_name = "SRC")]
    pub(crate) source: PathBuf,

    /// The name of the copy, or the directory to put it in: for URLs, one that ends with a slash.
    #[arg(value_name = "DST")]
    pub(crate) destination: PathBuf,

    /// Copy all that is below SRC, a directory or the beginning of keys, to the same names below DST.
    #[arg(short, long)]
    pub(crate) recursive: bool,

    /// Read both files again afterwards and compare their CRC-32C.
    #[arg(long)]
    pub(crate) verify: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Show how much of a file is cached.
    Show(CacheArgs),
    /// Drop a file from the cache, its dirty pages written first; needs no privileges.
    Drop(CacheDropArgs),
    /// Read a file into the cache.
    Warm(CacheArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// A path or file:// URL.
    pub(crate) path: PathBuf,

    #[command(flatten)]
    pub(crate) range: RangeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CacheDropArgs {
    /// A path or file:// URL.
    #[arg(required_unless_present = "system")]
    pub(crate) path: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) range: RangeArgs,

    /// Drop the clean pages of every file of the machine, for all who use it: needs root, and slows everybody down.
    #[arg(long, conflicts_with_all = ["path", "offset", "length"])]
    pub(crate) system: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Read a file into device memory, as fast as it goes, and verify what arrived.
    Seq(SeqArgs),
    /// Read every block of a file once, in random order, and verify what arrived.
    Rand(RandArgs),
    /// The same, thousands of blocks in one read.
    Gather(GatherArgs),
    /// Read a file through a memory map, and verify what arrived.
    Mmap(MmapArgs),
}

#[derive(Debug, Args)]
pub(crate) struct GatherArgs {
    /// With --depth, how many reads are in flight: by default 1; with --block, the length of each range: by default 4KiB.
    #[command(flatten)]
    pub(crate) bench: BenchArgs,

    #[command(flatten)]
    pub(crate) uncached: UncachedArgs,

    /// How many ranges are one read.
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "16384")]
    pub(crate) batch: NonZeroU32,
}

#[derive(Debug, Args)]
pub(crate) struct MmapArgs {
    #[command(flatten)]
    pub(crate) bench: BenchArgs,

    /// Let the device read the mapped pages by itself: they are pinned once, before the rounds.
    #[arg(long, conflicts_with = "cold")]
    pub(crate) pin: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RandArgs {
    #[command(flatten)]
    pub(crate) bench: BenchArgs,

    #[command(flatten)]
    pub(crate) uncached: UncachedArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SeqArgs {
    #[command(flatten)]
    pub(crate) bench: BenchArgs,

    #[command(flatten)]
    pub(crate) uncached: UncachedArgs,

    /// Measure beside it what the machine allows: pinned copies, and a bare loop of threads, reads and copies.
    #[arg(long)]
    pub(crate) limit: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// The file to read; without it, one is made and removed afterwards.
    pub(crate) file: Option<PathBuf>,

    /// The size of the file that is made.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "256MiB", conflicts_with = "file")]
    pub(crate) size: u64,

    /// Where to make it; the system's temporary directory by default.
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    pub(crate) dir: Option<PathBuf>,

    /// How often to read it, after one round that does not count. The median counts.
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "5")]
    pub(crate) rounds: NonZeroU32,

    /// Read it in blocks of so many bytes: rand and gather by default 4KiB, mmap 16MiB; seq all at once, or 1MiB with
    /// --depth.
    #[arg(long, value_name = "BYTES", value_parser = parse_block)]
    pub(crate) block: Option<NonZeroU64>,

    /// How many reads are in flight: rand by default 64, seq 32, mmap 8, gather 1.
    #[arg(long, value_name = "N", value_parser = parse_depth)]
    pub(crate) depth: Option<u16>,

    /// Drop the file from the page cache before each round.
    #[arg(long)]
    pub(crate) cold: bool,

    /// Run another program beside it, a round of each in turn.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) compare: Option<Peer>,

    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

/// How bytes are read that are not cached. Maps know but one way.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct UncachedArgs {
    /// Go past the page cache: always, where no value is given, or auto or never.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "always")]
    pub(crate) direct: Option<DirectIo>,

    /// What reads the bytes that are not cached: auto, io-uring, tokio-uring or posix.
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine: Option<EngineChoice>,
}

/// A program to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Peer {
    /// The flexible I/O tester, which has to be installed.
    Fio,
}

/// As [`parse_bytes`], at least one and no more than fits into one read.
fn parse_block(text: &str) -> Result<NonZeroU64, String> {
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    match NonZeroU64::new(bytes) {
        Some(block) if bytes <= 1 << 30 => Ok(block),
        _ => Err(format!("{text} is not between 1 byte and 1GiB")),
    }
}

/// How often, or how many: digits without a sign.
fn parse_count(text: &str) -> Result<NonZeroU32, String> {
    parse_decimal(text).ok_or_else(|| format!("{text} is not a whole number between 1 and {}", u32::MAX))
}

fn parse_depth(text: &str) -> Result<u16, String> {
    let depth = parse_decimal(text).filter(|depth| (1..=4096).contains(depth));
    depth.ok_or_else(|| format!("{text} is not a whole number between 1 and 4096"))
}

#[derive(Debug, Args)]
pub(crate) struct DeviceArgs {
    /// Where to read to: auto (the first GPU, or host memory where there is none), host, or cuda:N.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<DeviceSpec>,

    /// GPUDirect Storage: auto (where it is on), off (it or an error) or on (never, always through host memory).
    #[arg(long, value_name = "MODE")]
    pub(crate) compat_mode: Option<CompatMode>,
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
        assert_eq!((read.source, read.range.offset, read.range.length), (PathBuf::from("--json"), 0, None));
    }

    #[test]
    fn direct_takes_no_file_for_its_value() {
        let bench = |arguments: &[&str]| {
            let cli = Cli::try_parse_from([&["warpio", "bench", "rand"], arguments].concat()).unwrap();
            let Command::Bench(BenchCommand::Rand(bench)) = cli.command else { panic!("{cli:?}") };
            (bench.uncached.direct, bench.bench.file)
        };
        assert_eq!(bench(&["--direct", "file"]), (Some(DirectIo::Always), Some("file".into())));
        assert_eq!(bench(&["--direct=never"]), (Some(DirectIo::Never), None));
        assert_eq!(bench(&[]), (None, None));
    }

    #[test]
    fn a_range_ends_with_the_file() {
        let range = |offset, length| RangeArgs { offset, length }.within(100, Path::new("x"));
        assert_eq!(range(0, None).unwrap(), 0..100);
        assert_eq!(range(90, Some(50)).unwrap(), 90..100);
        assert_eq!(range(100, Some(0)).unwrap(), 100..100);
        assert_eq!(range(7, Some(u64::MAX)).unwrap(), 7..100);
        assert!(range(101, None).unwrap_err().to_string().contains("--offset"));
    }
}
