//! What a round reads, and how.

use std::num::NonZeroU64;

use warpio::config::DirectIo;

use crate::args::{BenchArgs, SeqArgs};

/// As much as keeps a disk busy in one read.
const SEQUENTIAL_BLOCK: u64 = 1 << 20;
const SEQUENTIAL_DEPTH: u16 = 32;

/// What databases and indices read.
const RANDOM_BLOCK: u64 = 4 << 10;
const RANDOM_DEPTH: u16 = 64;

/// What every round does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) bench: &'static str,
    /// `None` reads the whole file at once.
    pub(super) blocks: Option<Blocks>,
    pub(super) cold: bool,
    pub(super) direct: DirectIo,
    /// Whether the machine's limit is measured too.
    pub(super) limit: bool,
}

/// A file read block by block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) len: u64,
    /// How many are in flight.
    pub(super) depth: usize,
    pub(super) random: bool,
}

impl Plan {
    pub(super) fn sequential(args: &SeqArgs) -> Self {
        let SeqArgs { bench: args, limit } = args;
        let in_blocks = args.block.is_some() || args.depth.is_some();
        let blocks = in_blocks.then(|| Blocks::of(args, SEQUENTIAL_BLOCK, SEQUENTIAL_DEPTH, false));
        Self { bench: "seq", blocks, cold: args.cold, direct: args.direct.unwrap_or_default(), limit: *limit }
    }

    pub(super) fn random(args: &BenchArgs) -> Self {
        let blocks = Some(Blocks::of(args, RANDOM_BLOCK, RANDOM_DEPTH, true));
        Self { bench: "rand", blocks, cold: args.cold, direct: args.direct.unwrap_or_default(), limit: false }
    }

    /// The blocks that a program reads which knows no other way.
    pub(super) fn blocks_for_others(&self) -> Blocks {
        self.blocks.unwrap_or(Blocks { len: SEQUENTIAL_BLOCK, depth: SEQUENTIAL_DEPTH.into(), random: false })
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
        Self { len, depth: args.depth.unwrap_or(depth).into(), random }
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
            command => panic!("{command:?}"),
        }
    }

    #[test]
    fn what_is_not_said_is_what_is_usually_measured() {
        assert_eq!(plan("seq").blocks, None);
        let rand = Blocks { len: 4096, depth: 64, random: true };
        assert_eq!(plan("rand").blocks, Some(rand));
        assert_eq!(plan("rand --block 8KiB --depth 3").blocks, Some(Blocks { len: 8192, depth: 3, random: true }));
        let seq = Blocks { len: 1 << 20, depth: 32, random: false };
        assert_eq!(plan("seq").blocks_for_others(), seq);
        assert_eq!(plan("seq --depth 8").blocks, Some(Blocks { depth: 8, ..seq }));
        assert_eq!(plan("seq --block 1M").blocks, Some(seq));
    }

    #[test]
    fn others_go_past_the_cache_where_warpio_would() {
        for (arguments, past) in
            [("rand", false), ("rand --cold", true), ("seq --direct", true), ("seq --cold --direct=never", false)]
        {
            assert_eq!(plan(arguments).goes_past_the_cache(), past, "{arguments}");
        }
    }

    #[test]
    fn a_part_of_a_block_is_one_too() {
        let blocks = Blocks { len: 4096, depth: 1, random: true };
        assert_eq!([0, 1, 4096, 4097].map(|size| blocks.count(size)), [0, 1, 1, 2]);
    }
}
