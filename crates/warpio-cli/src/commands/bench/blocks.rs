//! Reading a file block by block, many at a time.

use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use warpio::{AsyncDeviceRead, DeviceBytesMut, Moved, Scattered, Source, Transfer};

use super::latency::Latencies;
use super::plan::Blocks;
use crate::failure::Failure;
use crate::progress::Progress;

/// More would take more memory for the bookkeeping than for the bytes.
const MOST: u64 = 1 << 24;

/// How many blocks are read between two looks at the world: at the bar, and at whether the user wants to stop.
const PACE: usize = 256;

/// The numbers of the blocks of a file of `size` bytes, in the order in which they are read.
pub(super) fn order(blocks: &Blocks, size: u64, seed: u64) -> Result<Vec<u32>, Failure> {
    let count = blocks.count(size);
    if count > MOST {
        return Err(Failure::new(format!("{count} blocks are too many; choose a larger --block, or a smaller file")));
    }
    let mut order: Vec<u32> = (0..count as u32).collect();
    if blocks.random {
        shuffle(&mut order, seed);
    }
    Ok(order)
}

/// Fisher and Yates's, with SplitMix64.
fn shuffle(order: &mut [u32], seed: u64) {
    let mut state = seed;
    let mut random = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    for last in (1..order.len()).rev() {
        order.swap(last, (random() % (last as u64 + 1)) as usize);
    }
}

/// The memory of a whole file, cut into its blocks.
pub(super) struct Pieces(Vec<Option<DeviceBytesMut>>);

impl Pieces {
    pub(super) fn cut(mut buffer: DeviceBytesMut, len: u64) -> Self {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let mut pieces = Vec::new();
        while buffer.len() > len {
            pieces.push(Some(buffer.split_to(len)));
        }
        pieces.push(Some(buffer));
        Self(pieces)
    }

    /// The memory in one again.
    pub(super) fn join(self) -> Result<DeviceBytesMut, Failure> {
        let lost = || Failure::new("a read gave other memory back than it was given; please report this");
        let mut pieces = self.0.into_iter();
        let first = pieces.next().flatten().ok_or_else(lost)?;
        pieces.try_fold(first, |whole, piece| whole.unsplit(piece.ok_or_else(lost)?).map_err(|_| lost()))
    }
}

/// What reading came to.
pub(super) struct BlocksRead {
    pub(super) pieces: Pieces,
    pub(super) times: Vec<Duration>,
    /// Bytes that arrived.
    pub(super) bytes: u64,
}

impl BlocksRead {
    pub(super) fn latencies(&mut self) -> Latencies {
        std::mem::take(&mut self.times).into()
    }
}

/// Reads the blocks of `source` in this order, each into its own piece: as many as a batch has in one read, and `depth`
/// reads at a time.
pub(super) async fn read(
    source: &Source,
    blocks: &Blocks,
    order: &[u32],
    mut pieces: Pieces,
    progress: &Progress,
) -> Result<BlocksRead, Failure> {
    let mut reading = FuturesUnordered::new();
    let mut times = Vec::with_capacity(order.len().div_ceil(blocks.batch));
    let (mut bytes, mut shown) = (0, 0);
    let mut next = order.chunks(blocks.batch);
    loop {
        while reading.len() < blocks.depth
            && let Some(batch) = next.next()
        {
            let started = Instant::now();
            // It is under way from here on.
            let transfer = start(source, blocks, batch, &mut pieces);
            reading.push(async move { (batch, transfer.finish().await, started.elapsed()) });
        }
        let Some((batch, result, took)) = reading.next().await else { break };
        times.push(took);
        let mut arrived = |block: &u32, n: usize, buffer| {
            bytes += n as u64;
            pieces.0[*block as usize] = Some(buffer);
        };
        match result? {
            Ended::One(Moved { n, buffer }) => arrived(&batch[0], n, buffer),
            Ended::Many(Scattered { results, buffers }) => {
                for ((block, n), buffer) in batch.iter().zip(results).zip(buffers) {
                    arrived(block, n?, buffer);
                }
            }
        }
        if times.len() % PACE == 0 || blocks.batch > 1 {
            progress.add(bytes - shown);
            shown = bytes;
            tokio::task::yield_now().await;
        }
    }
    progress.add(bytes - shown);
    Ok(BlocksRead { pieces, times, bytes })
}

/// A read that was started.
enum Started {
    One(Transfer),
    Many(Transfer<Scattered>),
}

fn start(source: &Source, blocks: &Blocks, batch: &[u32], pieces: &mut Pieces) -> Started {
    let mut take = |block: &u32| {
        // Every block is in the order once, and each piece there until its turn.
        let piece = pieces.0.get_mut(*block as usize).and_then(Option::take);
        (u64::from(*block) * blocks.len, piece.unwrap_or_else(|| Vec::new().into()))
    };
    match batch {
        [block] if blocks.batch == 1 => {
            let (offset, piece) = take(block);
            Started::One(source.read_at(offset, piece))
        }
        _ => Started::Many(source.read_scatter(batch.iter().map(take).collect())),
    }
}

enum Ended {
    One(Moved<DeviceBytesMut>),
    Many(Scattered),
}

impl Started {
    async fn finish(self) -> Result<Ended, Failure> {
        match self {
            Self::One(transfer) => Ok(Ended::One(transfer.await?)),
            Self::Many(transfer) => Ok(Ended::Many(transfer.await?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use warpio::Device;

    use super::super::pattern;
    use super::*;
    use crate::output::Output;
    use crate::runtime;

    fn blocks(len: u64, depth: usize, random: bool) -> Blocks {
        Blocks { len, batch: 1, depth, random }
    }

    #[test]
    fn a_random_order_has_every_block_once_and_is_not_the_order_of_the_file() {
        let ordered: Vec<u32> = (0..1000).collect();
        assert_eq!(order(&blocks(10, 1, false), 10_000, 7).unwrap(), ordered);
        let mut random = order(&blocks(10, 1, true), 9_999, 7).unwrap();
        assert_ne!(random, ordered);
        assert_ne!(random, order(&blocks(10, 1, true), 9_999, 8).unwrap(), "another seed, another order");
        let stayed = random.iter().zip(&ordered).filter(|(a, b)| a == b).count();
        assert!(stayed < 20, "{stayed} of 1000 blocks are where they were");
        random.sort_unstable();
        assert_eq!(random, ordered);
    }

    #[test]
    fn too_many_blocks_are_refused_before_there_is_memory_for_them() {
        let failure = order(&blocks(1, 1, true), 1 << 40, 0).unwrap_err().to_string();
        assert!(failure.contains("--block"), "{failure}");
        assert_eq!(order(&blocks(4096, 1, true), 0, 0).unwrap(), [0; 0]);
    }

    #[test]
    fn pieces_come_together_again_and_a_missing_one_is_noticed() {
        for len in [1, 7, 100, 101, 1 << 40] {
            let pieces = Pieces::cut(Device::host().alloc(100).unwrap(), len);
            assert_eq!(pieces.0.len() as u64, 100u64.div_ceil(len));
            assert_eq!(pieces.join().unwrap().len(), 100);
        }
        let mut pieces = Pieces::cut(Device::host().alloc(100).unwrap(), 30);
        pieces.0[2] = None;
        assert!(pieces.join().is_err());
        assert_eq!(Pieces::cut(Device::host().alloc(0).unwrap(), 30).join().unwrap().len(), 0);
    }

    #[tokio::test]
    async fn every_byte_arrives_in_its_place_whatever_the_order() {
        let rt = runtime::start_on_host().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut content = vec![0; 1_000_003];
        pattern::fill(0, &mut content);
        std::fs::write(dir.path().join("file"), &content).unwrap();
        let source = rt.open(dir.path().join("file")).await.unwrap();
        let progress = Progress::new(&Output::new(true), "", 0);
        let read = async |blocks: Blocks, size: usize| {
            let order = order(&blocks, size as u64, 42).unwrap();
            let pieces = Pieces::cut(Device::host().alloc(size).unwrap(), blocks.len);
            let read = read(&source, &blocks, &order, pieces, &progress).await.unwrap();
            assert_eq!(read.times.len(), order.len().div_ceil(blocks.batch));
            read
        };
        for (len, depth, random) in [(4096, 64, true), (999, 3, true), (100_000, 1, false), (1 << 30, 5, true)] {
            let mut read = read(blocks(len, depth, random), content.len()).await;
            assert_eq!(read.bytes, content.len() as u64);
            assert!(read.latencies().summary().max > 0.0);
            assert!(read.pieces.join().unwrap().as_slice().unwrap() == content, "{len} {depth} {random}");
        }
        for (batch, depth) in [(7, 3), (100, 1), (1 << 20, 2)] {
            let mut read = read(Blocks { batch, ..blocks(4096, depth, true) }, content.len()).await;
            assert_eq!(read.bytes, content.len() as u64);
            assert!(read.latencies().summary().max > 0.0);
            assert!(read.pieces.join().unwrap().as_slice().unwrap() == content, "{batch} in one read");
        }
        let longer = read(blocks(4096, 4, true), 1_100_000).await;
        assert_eq!(longer.bytes, content.len() as u64, "what arrived is counted, not what was asked for");
    }
}
