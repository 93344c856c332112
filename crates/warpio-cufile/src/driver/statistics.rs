//! What the library counted. It has to be told to count: [`Driver::start_statistics`].

use std::ffi::c_void;

use warpio_core::{Error, Result};

use super::open::Driver;
use crate::error::CuFileError;
use crate::sys::{LibraryVersion, STATISTICS_LEN, Status};

/// Operations that went well, and that did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpCounter {
    /// Well.
    pub ok: u64,
    /// Not.
    pub failed: u64,
}

/// What was counted since statistics were started or reset. Which members are filled depends on the level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Reads.
    pub reads: OpCounter,
    /// Writes.
    pub writes: OpCounter,
    /// Registrations of files.
    pub handle_registrations: OpCounter,
    /// Registrations of memory.
    pub buffer_registrations: OpCounter,
    /// Bytes read, batches not included.
    pub read_bytes: u64,
    /// Bytes written, batches not included.
    pub written_bytes: u64,
    /// The mean time of a read, in microseconds.
    pub read_latency_us: u64,
    /// The mean time of a write, in microseconds.
    pub write_latency_us: u64,
    /// Batches submitted.
    pub batch_submissions: OpCounter,
    /// Entries of batches completed.
    pub batch_completions: OpCounter,
    /// Bytes read by batches.
    pub batch_read_bytes: u64,
    /// Bytes written by batches.
    pub batch_written_bytes: u64,
    /// Level 2 and 3.
    pub histograms: Option<Histograms>,
    /// Level 3: per GPU.
    pub gpus: Vec<GpuStatistics>,
}

/// How many requests there were of each size: of 0 KiB up to below 1, then each class is twice as large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histograms {
    /// Reads.
    pub reads: [u64; 32],
    /// Writes.
    pub writes: [u64; 32],
}

/// What was counted for one GPU: the way that requests truly took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GpuStatistics {
    /// The GPU's identifier.
    pub uuid: [u8; 16],
    /// Bytes read.
    pub read_bytes: u64,
    /// Reads by peer-to-peer DMA.
    pub peer_to_peer_reads: u64,
    /// Reads through nvidia-fs.
    pub nvidia_fs_reads: u64,
    /// Reads through host memory: compatibility mode.
    pub posix_reads: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Writes by peer-to-peer DMA.
    pub peer_to_peer_writes: u64,
    /// Writes through nvidia-fs.
    pub nvidia_fs_writes: u64,
    /// Writes through host memory: compatibility mode.
    pub posix_writes: u64,
    /// Bytes of GPU memory that are registered.
    pub registered_bytes: u64,
}

/// The lengths of the first level in words of 8 bytes, before 1.19 and since, when counters were added at its end.
const BASIC_WORDS: usize = 64;
const BASIC_WORDS_SINCE_1_19: usize = 78;
const HISTOGRAM_WORDS: usize = 32;
const GPU_WORDS: usize = 31;
const MAX_GPUS: usize = 16;

impl Statistics {
    /// Reads the library's structure of `level` 1 to 3.
    pub(crate) fn parse(words: &[u64], level: u8, version: LibraryVersion) -> Self {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let counter = |at| OpCounter { ok: word(at), failed: word(at + 1) };
        let since_1_19 = version >= LibraryVersion { major: 1, minor: 19 };
        let basic = if since_1_19 { BASIC_WORDS_SINCE_1_19 } else { BASIC_WORDS };
        let histogram = |at: usize| std::array::from_fn(|class| word(at + class));
        let gpus_at = basic + 2 * HISTOGRAM_WORDS;
        // The number of GPUs is 32 bits, and padding follows.
        let gpus = if level >= 3 { (word(gpus_at) as u32 as usize).min(MAX_GPUS) } else { 0 };
        Self {
            reads: counter(0),
            writes: counter(2),
            handle_registrations: counter(4),
            buffer_registrations: counter(8),
            read_bytes: word(12),
            written_bytes: word(13),
            read_latency_us: word(16),
            write_latency_us: word(17),
            batch_submissions: counter(22),
            batch_completions: counter(24),
            batch_read_bytes: word(52),
            batch_written_bytes: word(53),
            histograms: (level >= 2)
                .then(|| Histograms { reads: histogram(basic), writes: histogram(basic + HISTOGRAM_WORDS) }),
            gpus: (0..gpus).map(|gpu| GpuStatistics::parse(&word, gpus_at + 1 + gpu * GPU_WORDS)).collect(),
        }
    }
}

impl GpuStatistics {
    fn parse(word: &impl Fn(usize) -> u64, at: usize) -> Self {
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&word(at).to_ne_bytes());
        uuid[8..].copy_from_slice(&word(at + 1).to_ne_bytes());
        Self {
            uuid,
            read_bytes: word(at + 2),
            peer_to_peer_reads: word(at + 7),
            nvidia_fs_reads: word(at + 8),
            posix_reads: word(at + 9),
            written_bytes: word(at + 15),
            peer_to_peer_writes: word(at + 20),
            nvidia_fs_writes: word(at + 21),
            posix_writes: word(at + 22),
            registered_bytes: word(at + 30),
        }
    }
}

/// The ways that requests took between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) peer_to_peer: u64,
    pub(crate) nvidia_fs: u64,
    pub(crate) posix: u64,
}

impl Observed {
    fn of(statistics: &Statistics) -> Self {
        let sum = |count: fn(&GpuStatistics) -> u64| statistics.gpus.iter().map(count).sum();
        Self {
            peer_to_peer: sum(|gpu| gpu.peer_to_peer_reads + gpu.peer_to_peer_writes),
            nvidia_fs: sum(|gpu| gpu.nvidia_fs_reads + gpu.nvidia_fs_writes),
            posix: sum(|gpu| gpu.posix_reads + gpu.posix_writes),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            peer_to_peer: self.peer_to_peer.saturating_sub(before.peer_to_peer),
            nvidia_fs: self.nvidia_fs.saturating_sub(before.nvidia_fs),
            posix: self.posix.saturating_sub(before.posix),
        }
    }
}

impl Driver {
    /// Begins to count, at level 1 (operations and bytes), 2 (and sizes) or 3 (and per GPU, which way they took).
    ///
    /// # Errors
    /// [`Unsupported`](warpio_core::ErrorKind::Unsupported) before 1.15; what the library answers.
    pub fn start_statistics(&self, level: u8) -> Result<()> {
        let _alone = self.statistics_lock();
        self.start(level)
    }

    fn start(&self, level: u8) -> Result<()> {
        let library = self.library();
        let set = self.function(library.cuFileSetStatsLevel)?;
        let start = self.function(library.cuFileStatsStart)?;
        // SAFETY: the library checks the level.
        call(unsafe { set(level.into()) }, "cuFileSetStatsLevel")?;
        // SAFETY: takes nothing.
        call(unsafe { start() }, "cuFileStatsStart")
    }

    /// The level at which is counted; 0 for not at all.
    ///
    /// # Errors
    /// As for [`start_statistics`](Self::start_statistics).
    pub fn statistics_level(&self) -> Result<u8> {
        let get = self.function(self.library().cuFileGetStatsLevel)?;
        let mut level = 0;
        // SAFETY: a valid place for the result.
        call(unsafe { get(&mut level) }, "cuFileGetStatsLevel")?;
        Ok(u8::try_from(level).unwrap_or(0))
    }

    /// Counts no more.
    ///
    /// # Errors
    /// As for [`start_statistics`](Self::start_statistics).
    pub fn stop_statistics(&self) -> Result<()> {
        let _alone = self.statistics_lock();
        self.stop()
    }

    fn stop(&self) -> Result<()> {
        let library = self.library();
        // SAFETY: takes nothing.
        call(unsafe { self.function(library.cuFileStatsStop)?() }, "cuFileStatsStop")?;
        // SAFETY: the library checks the level.
        call(unsafe { self.function(library.cuFileSetStatsLevel)?(0) }, "cuFileSetStatsLevel")
    }

    /// Counts from zero again.
    ///
    /// # Errors
    /// As for [`start_statistics`](Self::start_statistics).
    pub fn reset_statistics(&self) -> Result<()> {
        let _alone = self.statistics_lock();
        // SAFETY: takes nothing.
        call(unsafe { self.function(self.library().cuFileStatsReset)?() }, "cuFileStatsReset")
    }

    /// What was counted, as far as the level goes.
    ///
    /// # Errors
    /// As for [`start_statistics`](Self::start_statistics); the library answers
    /// [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) where nothing is counted.
    pub fn statistics(&self) -> Result<Statistics> {
        let level = self.statistics_level()?;
        let library = self.library();
        let (get, name) = match level {
            0 | 1 => (library.cuFileGetStatsL1, "cuFileGetStatsL1"),
            2 => (library.cuFileGetStatsL2, "cuFileGetStatsL2"),
            _ => (library.cuFileGetStatsL3, "cuFileGetStatsL3"),
        };
        let get = self.function(get)?;
        // Newer libraries write more than is known here.
        let mut words = vec![0u64; STATISTICS_LEN / size_of::<u64>()];
        // SAFETY: a place that is three times as long as the largest structure known.
        call(unsafe { get(words.as_mut_ptr().cast::<c_void>()) }, name)?;
        Ok(Statistics::parse(&words, level.max(1), library.version()))
    }

    /// Runs `work` and says which way its requests took, together with those of everybody else meanwhile. `None` where
    /// the library does not count.
    pub(crate) fn observe<T>(&self, work: impl FnOnce() -> T) -> (T, Option<Observed>) {
        let _alone = self.statistics_lock();
        let counted_before = self.statistics_level();
        let (started, before) = match counted_before {
            Ok(3) => (false, self.statistics()),
            Ok(0) => match self.start(3) {
                Ok(()) => (true, self.statistics()),
                Err(error) => (false, Err(error)),
            },
            // Somebody counts at another level, and is not to be disturbed.
            Ok(_) => (false, Err(Error::unsupported("statistics of another level"))),
            Err(error) => (false, Err(error)),
        };
        let result = work();
        let after = before.and_then(|before| Ok((before, self.statistics()?)));
        if started && let Err(error) = self.stop() {
            tracing::debug!(%error, "cuFile goes on to count");
        }
        (result, after.ok().map(|(before, after)| Observed::of(&after).since(Observed::of(&before))))
    }

    fn function<F>(&self, function: Option<F>) -> Result<F> {
        self.check_process()?;
        function.ok_or_else(|| {
            let version = self.library().version();
            Error::unsupported(format!("libcufile {version} has no statistics; 1.15 and newer do"))
        })
    }
}

fn call(status: Status, call: &'static str) -> Result<()> {
    CuFileError::check(status, call).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: LibraryVersion = LibraryVersion { major: 1, minor: 16 };
    const NEW: LibraryVersion = LibraryVersion { major: 1, minor: 20 };

    /// Words that hold their own place.
    fn words() -> Vec<u64> {
        (0..2048).collect()
    }

    #[test]
    fn the_lengths_are_those_of_the_structures() {
        assert_eq!((BASIC_WORDS * 8, BASIC_WORDS_SINCE_1_19 * 8), (512, 624));
        assert_eq!((BASIC_WORDS + 2 * HISTOGRAM_WORDS) * 8, 1024);
        assert_eq!((BASIC_WORDS + 2 * HISTOGRAM_WORDS + 1 + MAX_GPUS * GPU_WORDS) * 8, 5000);
        assert_eq!((BASIC_WORDS_SINCE_1_19 + 2 * HISTOGRAM_WORDS + 1 + MAX_GPUS * GPU_WORDS) * 8, 5112);
    }

    #[test]
    fn levels_fill_what_they_have() {
        let one = Statistics::parse(&words(), 1, OLD);
        assert_eq!((one.reads, one.read_bytes), (OpCounter { ok: 0, failed: 1 }, 12));
        assert!(one.histograms.is_none() && one.gpus.is_empty());
        let two = Statistics::parse(&words(), 2, OLD);
        assert_eq!(two.histograms.map(|h| (h.reads[0], h.writes[31])), Some((64, 127)));
        assert!(two.gpus.is_empty());
    }

    #[test]
    fn newer_libraries_have_more_in_front() {
        let mut words = words();
        words[142] = 2 | 7 << 32;
        let three = Statistics::parse(&words, 3, NEW);
        assert_eq!(three.histograms.map(|h| h.reads[0]), Some(78));
        // As libcufile 1.20 was seen to fill it: the first GPU begins at word 143, its POSIX reads are word 152.
        assert_eq!(three.gpus.len(), 2);
        assert_eq!((three.gpus[0].read_bytes, three.gpus[0].posix_reads), (145, 152));
        assert_eq!(three.gpus[1].read_bytes, 145 + 31);
    }

    #[test]
    fn a_number_of_gpus_that_cannot_be_is_cut() {
        let mut words = words();
        words[128] = u64::MAX;
        assert_eq!(Statistics::parse(&words, 3, OLD).gpus.len(), MAX_GPUS);
        assert_eq!(
            Statistics::parse(&[], 3, OLD),
            Statistics { histograms: Some(Histograms::default()), ..Default::default() }
        );
    }

    #[test]
    fn what_happened_between_two_looks_is_a_difference() {
        let gpu = |posix, nvfs| GpuStatistics { posix_reads: posix, nvidia_fs_writes: nvfs, ..Default::default() };
        let of = |gpus: &[GpuStatistics]| Observed::of(&Statistics { gpus: gpus.to_vec(), ..Default::default() });
        let seen = of(&[gpu(5, 2), gpu(1, 0)]).since(of(&[gpu(4, 2), gpu(0, 0)]));
        assert_eq!(seen, Observed { peer_to_peer: 0, nvidia_fs: 0, posix: 2 });
    }
}
