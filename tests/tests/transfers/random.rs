use std::collections::VecDeque;

use tokio::task::JoinSet;
use warpio::{AsyncDeviceRead, AsyncDeviceReadExt, AsyncDeviceWriteExt, ErrorKind, Moved, Runtime, Source};

use crate::support::{MIB, Place, content, host, read, runtime, shutdown};

/// A small generator, so that a failure comes again.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    /// Mostly small, sometimes of many segments.
    fn len(&mut self) -> usize {
        match self.below(10) {
            0 => self.below(2 * MIB),
            1..4 => self.below(300_000),
            _ => self.below(9000),
        }
    }
}

async fn transfers(source: Source, rt: Runtime, want: &'static [u8], seed: u64, count: usize) -> usize {
    let mut random = Random(seed);
    let mut flying = VecDeque::new();
    let mut cancelled = 0;
    for _ in 0..count {
        let (offset, len) = (random.below(want.len() + 5000), random.len());
        let transfer = source.read_at(offset as u64, rt.device().alloc(len).unwrap());
        match random.below(8) {
            0 => drop(transfer),
            1 => {
                transfer.cancel();
                flying.push_back((offset, len, transfer));
            }
            _ => flying.push_back((offset, len, transfer)),
        }
        if flying.len() > random.below(12) {
            let (offset, len, transfer) = flying.pop_front().unwrap();
            match transfer.await {
                Ok(Moved { n, buffer }) => {
                    let start = offset.min(want.len());
                    assert_eq!(n, len.min(want.len() - start));
                    assert!(host(&buffer.freeze()).await[..n] == want[start..start + n], "wrong bytes at {offset}");
                }
                Err(failed) => {
                    assert_eq!(failed.error.kind(), ErrorKind::Cancelled);
                    assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(len), "the buffer comes back");
                    cancelled += 1;
                }
            }
        }
    }
    cancelled
}

/// Eight tasks, 4000 reads, an eighth dropped and an eighth cancelled; with random delays on the software GPU.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thousands_of_reads_dropped_and_cancelled_at_random() {
    let place = Place::new();
    if let Some(control) = place.gpu.control() {
        control.ctl("delay_us 50 seed 7");
    }
    let (path, bytes) = place.file("data.bin", 4 * MIB + 123);
    let want: &'static [u8] = bytes.leak();
    let rt = runtime();
    let source = rt.open(&path).await.unwrap();
    let mut tasks = JoinSet::new();
    for seed in 1..=8 {
        tasks.spawn(transfers(source.clone(), rt.clone(), want, seed * 0x1234_5678_9ABC, 500));
    }
    let cancelled: usize = tasks.join_all().await.into_iter().sum();
    assert!(cancelled > 0, "some were cancelled in time");
    drop(source);
    shutdown(rt).await;
    if let Some(control) = place.gpu.control() {
        let counters = control.counters();
        assert_eq!((counters.copies_in_flight, counters.violations), (0, 0), "{counters:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_writes_of_device_memory_arrive() {
    let place = Place::new();
    let path = place.path("written.bin");
    let rt = runtime();
    let file = rt.open_options().read(true).write(true).create(true).open(&path).await.unwrap();
    let want = content(3 * MIB);
    let mut random = Random(99);
    let mut flying = VecDeque::new();
    let mut at = 0;
    while at < want.len() {
        let len = (random.len() + 1).min(want.len() - at);
        let data = rt.device().upload(&want[at..at + len]).await.unwrap();
        flying.push_back(file.write_all_at(at as u64, data));
        at += len;
        if flying.len() > 8 {
            flying.pop_front().unwrap().await.unwrap();
        }
    }
    for transfer in flying {
        transfer.await.unwrap();
    }
    file.close().await.unwrap();
    assert!(read(&path) == want, "wrong bytes");
    shutdown(rt).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_file_is_copied_through_the_gpu_in_chunks() {
    let place = Place::new();
    let (path, want) = place.file("data.bin", 5 * MIB + 17);
    let copy = place.path("copy.bin");
    let rt = runtime();
    let source = rt.open(&path).await.unwrap();
    let sink = rt.create(&copy).await.unwrap();
    let mut chunks = source.chunks(MIB).depth(3).start();
    let mut writes = Vec::new();
    while let Some(chunk) = chunks.try_next().await.unwrap() {
        let offset = chunk.offset();
        writes.push(sink.write_all_at(offset, chunk.into_buffer()));
    }
    for write in writes {
        write.await.unwrap();
    }
    assert!(!copy.exists(), "nothing shows before the end");
    sink.finish().await.unwrap();
    assert!(read(&copy) == want, "wrong bytes");
    shutdown(rt).await;
}
