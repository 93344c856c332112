//! Thousands of transfers at random, many in flight at once, compared byte by byte.

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;

use support::engines::{Setup, disk, for_each_engine, for_each_engine_knowing, memory};
use tempfile::TempDir;
use warpio_core::plan::Split;
use warpio_core::testing::{FakeGpu, pattern};
use warpio_core::{AsyncDeviceRead, AsyncDeviceWrite, Device, Moved, PoolConfig};
use warpio_local::file::LocalFile;
use warpio_local::open::OpenOptions;

const LEN: usize = 3_000_017;

/// Numbers that look random, the same ones in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    /// Offsets and lengths of all kinds: aligned and not, small and large, beyond the end.
    fn range(&mut self) -> (usize, usize) {
        let offset = match self.below(3) {
            0 => self.below(LEN / 4096 + 2) * 4096,
            1 => self.below(LEN / 512 + 20) * 512,
            _ => self.below(LEN + 5000),
        };
        let len = match self.below(4) {
            0 => 4096,
            1 => (1 + self.below(60)) * 4096,
            2 => 1 + self.below(9000),
            _ => 1 + self.below(300_000),
        };
        (offset, len)
    }
}

/// A device, half of whose staging memory exists already.
fn gpu() -> Device {
    let pool = PoolConfig { budget: 2 << 20, slot_len: 128 << 10, small_slot_len: 16 << 10, slab_len: 256 << 10 };
    let device = FakeGpu::device(0, pool).0;
    device.staging().warm(1 << 20);
    device
}

async fn reads(setup: &Setup, dir: &TempDir, device: Device, seed: u64) {
    let path = dir.path().join("data.bin");
    std::fs::write(&path, pattern(LEN)).unwrap();
    let plain = File::open(&path).unwrap();
    let context = setup.context(device.clone());
    let file = LocalFile::open(&context, &path, &OpenOptions::new().read(true)).await.unwrap();
    let mut random = Random(seed);
    for _ in 0..12 {
        let started: Vec<_> = (0..32)
            .map(|_| {
                let (offset, len) = random.range();
                // A buffer that begins anywhere.
                let mut buffer = device.alloc(len + 64).unwrap();
                let buffer = buffer.split_off(random.below(64)).split_to(len);
                (offset, len, file.read_at(offset as u64, buffer))
            })
            .collect();
        for (offset, len, transfer) in started {
            let Moved { n, buffer } = transfer.await.unwrap();
            let mut want = vec![0; len];
            let there = read_full(&plain, &mut want, offset);
            assert_eq!(n, there, "{setup:?}: {len} bytes at {offset}");
            let got = buffer.freeze().to_host().await.unwrap();
            assert!(got[..n] == want[..n], "{setup:?}: wrong bytes in {len} at {offset}");
        }
    }
}

fn read_full(file: &File, buf: &mut [u8], offset: usize) -> usize {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], (offset + done) as u64).unwrap() {
            0 => break,
            n => done += n,
        }
    }
    done
}

async fn writes(setup: &Setup, dir: &TempDir, device: Device, seed: u64) {
    let path = dir.path().join("written.bin");
    let context = setup.context(device.clone());
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(true);
    let file = LocalFile::open(&context, &path, &options).await.unwrap();
    let mut random = Random(seed);
    let mut want = Vec::new();
    for round in 0..12u64 {
        // Neighbours that share no byte, but often a page.
        let mut at = random.below(100_000);
        let mut started = Vec::new();
        for n in 0..16 {
            let (_, len) = random.range();
            let bytes: Vec<u8> = pattern(len).iter().map(|byte| byte ^ (round * 31 + n) as u8).collect();
            if want.len() < at + len {
                want.resize(at + len, 0);
            }
            want[at..at + len].copy_from_slice(&bytes);
            let buffer = device.upload(&bytes).await.unwrap().freeze();
            started.push(file.write_at(at as u64, buffer));
            at += len + random.below(3) * random.below(5000);
        }
        for transfer in started {
            transfer.await.unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == want, "{setup:?}, round {round}");
    }
}

async fn both(dir: TempDir) {
    let devices = [Device::host(), gpu()];
    // Those rings that know a part of the memory mix both kinds of operations.
    let slabs = devices[1].staging().slabs();
    assert!(slabs.len() >= 4);
    for_each_engine_knowing(slabs, async |setup| {
        for (n, device) in devices.iter().enumerate() {
            reads(setup, &dir, device.clone(), 0x9E37 + n as u64).await;
            writes(setup, &dir, device.clone(), 0x79B9 + n as u64).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_disk() {
    both(disk()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_memory() {
    both(memory()).await;
}

/// Segments of several pieces, aligned or not, the last one beyond the end.
async fn long_reads(setup: &Setup, dir: &TempDir, device: &Device) {
    const LONG: usize = (9 << 20) + 5;
    let path = dir.path().join("long.bin");
    let bytes = pattern(LONG);
    std::fs::write(&path, &bytes).unwrap();
    let mut context = setup.context(device.clone());
    context.split = Split::new(4 << 20).unwrap();
    let file = LocalFile::open(&context, &path, &OpenOptions::new().read(true)).await.unwrap();
    for offset in [0, 1, 4096, 5000, 2 << 20, (4 << 20) + 512] {
        let buffer = device.alloc(LONG + 4096).unwrap();
        let Moved { n, buffer } = file.read_at(offset as u64, buffer).await.unwrap();
        assert_eq!(n, LONG - offset, "{setup:?}: at {offset}");
        let got = buffer.freeze().to_host().await.unwrap();
        assert!(got[..n] == bytes[offset..], "{setup:?}: wrong bytes at {offset}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_reads_arrive_whole() {
    let pool = PoolConfig { budget: 32 << 20, slot_len: 4 << 20, small_slot_len: 64 << 10, slab_len: 16 << 20 };
    let devices = [Device::host(), FakeGpu::device(0, pool).0];
    let dir = disk();
    for_each_engine(async |setup| {
        for device in &devices {
            long_reads(setup, &dir, device).await;
        }
    })
    .await;
}
