//! What a round reads, and how.

use std::num::NonZeroU64;

use warpio::config::DirectIo;

use crate::args::{BenchArgs, GatherArgs, MmapArgs, RandArgs, SeqArgs, UncachedArgs};

/// As much as keeps a disk busy in one read.
const SEQUENTIAL_BLOCK: u64 = 1 << 20;
const SEQUENTIAL_DEPTH: u16 = 32;

/// What databases and indices read.
const RANDOM_BLOCK: u64 = 4 << 10;
const RANDOM_DEPTH: u16 = 64;

/// More than any disk tells apart.
const MOST_IN_FLIGHT: usize = 256;

/// Several of the copies that a map is read by, and several of those.
const MAPPED_BLOCK: u64 = 16 << 20;
const MAPPED_DEPTH: u16 = 8;

/// What every round does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) bench: &'static str,
    pub(super) way: Way,
    /// `None` reads the whole file at once.
    pub(super) blocks: Option<Blocks>,
    pub(super) cold: bool,
    pub(super) direct: DirectIo,
    /// Whether the machine's limit is measured too.
    pub(super) limit: bool,
}

/// How the file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    File,
    /// Mapped anew for each round.
    Map,
    /// Mapped and pinned once.
    PinnedMap,
}

/// A file read block by block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) len: u64,
    /// How many are one read.
    pub(super) batch: usize,
    /// How many reads are in flight.
    pub(super) depth: usize,
    pub(super) random: bool,
}

impl Plan {
    pub(super) fn sequential(args: &SeqArgs) -> Self {
        let SeqArgs { bench: args, uncached, limit } = args;
        let in_blocks = args.block.is_some() || args.depth.is_some();
        let blocks = in_blocks.then(|| Blocks::of(args, SEQUENTIAL_BLOCK, SEQUENTIAL_DEPTH, false));
        Self { limit: *limit, ..Self::of_file("seq", blocks, args, *uncached) }
    }

    fn of_file(bench: &'static str, blocks: Option<Blocks>, args: &BenchArgs, uncached: UncachedArgs) -> Self {
        let direct = uncached.direct.unwrap_or_default();
        Self { bench, way: Way::File, blocks, cold: args.cold, direct, limit: false }
    }

    pub(super) fn random(args: &RandArgs) -> Self {
        let blocks = Blocks::of(&args.bench, RANDOM_BLOCK, RANDOM_DEPTH, true);
        Self::of_file("rand", Some(blocks), &args.bench, args.uncached)
    }

    pub(super) fn gather(args: &GatherArgs) -> Self {
        let blocks = Blocks::of(&args.bench, RANDOM_BLOCK, 1, true);
        let batch = usize::try_from(args.batch.get()).unwrap_or(usize::MAX);
        Self::of_file("gather", Some(Blocks { batch, ..blocks }), &args.bench, args.uncached)
    }

    pub(super) fn mmap(args: &MmapArgs) -> Self {
        let way = if args.pin { Way::PinnedMap } else { Way::Map };
        let blocks = Blocks::of(&args.bench, MAPPED_BLOCK, MAPPED_DEPTH, false);
        // What is mapped is the page cache.
        let direct = DirectIo::Never;
        Self { bench: "mmap", way, blocks: Some(blocks), cold: args.bench.cold, direct, limit: false }
    }

    /// The blocks that a program reads which knows no other way.
    pub(super) fn blocks_for_others(&self) -> Blocks {
        self.blocks.unwrap_or(Blocks { len: SEQUENTIAL_BLOCK, batch: 1, depth: SEQUENTIAL_DEPTH.into(), random: false })
    }

    /// Whether a program that has to be told goes past the page cache to read as this does.
    pub(super) fn goes_past_the_cache(&self) -> bool {
        match self.direct {
            DirectIo::Always => true,
            DirectIo::Never => false,
            DirectIo::Auto => self.cold,
        }
    }
}

impl Blocks {
    fn of(args: &BenchArgs, len: u64, depth: u16, random: bool) -> Self {
        let len = args.block.map_or(len, NonZeroU64::get);
        Self { len, batch: 1, depth: args.depth.unwrap_or(depth).into(), random }
    }

    /// How many blocks are in flight for a program that reads each by itself.
    pub(super) fn in_flight(&self) -> usize {
        match self.batch {
            1 => self.depth,
            batch => batch.saturating_mul(self.depth).min(MOST_IN_FLIGHT),
        }
    }

    /// How many there are in a file of `size` bytes; the last may be shorter.
    pub(super) fn count(&self, size: u64) -> u64 {
        size.div_ceil(self.len)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{BenchCommand, Cli, Command};

    fn plan(arguments: &str) -> Plan {
        let cli = Cli::try_parse_from(["warpio", "bench"].into_iter().chain(arguments.split(' '))).unwrap();
        match cli.command {
            Command::Bench(BenchCommand::Seq(args)) => Plan::sequential(&args),
            Command::Bench(BenchCommand::Rand(args)) => Plan::random(&args),
            Command::Bench(BenchCommand::Gather(args)) => Plan::gather(&args),
            Command::Bench(BenchCommand::Mmap(args)) => Plan::mmap(&args),
            command => panic!("{command:?}"),
        }
    }

    #[test]
    fn what_is_not_said_is_what_is_usually_measured() {
        assert_eq!(plan("seq").blocks, None);
        let rand = Blocks { len: 4096, batch: 1, depth: 64, random: true };
        assert_eq!(plan("rand").blocks, Some(rand));
        assert_eq!(plan("rand --block 8KiB --depth 3").blocks, Some(Blocks { len: 8192, depth: 3, ..rand }));
        let seq = Blocks { len: 1 << 20, batch: 1, depth: 32, random: false };
        assert_eq!(plan("seq").blocks_for_others(), seq);
        assert_eq!(plan("seq --depth 8").blocks, Some(Blocks { depth: 8, ..seq }));
        assert_eq!(plan("seq --block 1M").blocks, Some(seq));
        let gather = Blocks { batch: 16_384, depth: 1, ..rand };
        assert_eq!(plan("gather").blocks, Some(gather));
        assert_eq!(plan("gather --batch 7 --depth 2").blocks, Some(Blocks { batch: 7, depth: 2, ..gather }));
        assert_eq!([plan("mmap").way, plan("mmap --pin").way, plan("seq").way], [Way::Map, Way::PinnedMap, Way::File]);
        assert_eq!(plan("mmap").blocks, Some(Blocks { len: 16 << 20, batch: 1, depth: 8, random: false }));
    }

    #[test]
    fn others_go_past_the_cache_where_warpio_would() {
        for (arguments, past) in [
            ("rand", false),
            ("rand --cold", true),
            ("seq --direct", true),
            ("seq --cold --direct=never", false),
            ("mmap --cold", false),
        ] {
            assert_eq!(plan(arguments).goes_past_the_cache(), past, "{arguments}");
        }
    }

    #[test]
    fn a_part_of_a_block_is_one_too() {
        let blocks = Blocks { len: 4096, batch: 1, depth: 1, random: true };
        assert_eq!([0, 1, 4096, 4097].map(|size| blocks.count(size)), [0, 1, 1, 2]);
    }
}
