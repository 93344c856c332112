//! Rings that are full to the last entry when their threads are about to rest.

mod support;

use std::time::{Duration, Instant};

use support::engines::{memory, rings};
use warpio_core::testing::{FakeGpu, pattern};
use warpio_core::{AsyncDeviceRead, Device, PoolConfig, Slot};
use warpio_local::engine::RingOptions;
use warpio_local::file::LocalFile;
use warpio_local::open::OpenOptions;

const SMALL: usize = 16 << 10;
const LARGE: usize = 128 << 10;
const LEN: usize = 1 << 20;

fn gpu(number: u32) -> Device {
    let pool = PoolConfig { budget: 1 << 20, slot_len: LARGE, small_slot_len: SMALL, slab_len: 256 << 10 };
    FakeGpu::device(number, pool).0
}

/// All staging memory of a device.
fn all_slots(device: &Device) -> Vec<Slot> {
    let pool = device.staging();
    let of = |len: usize, most: usize| (0..most).map(move |_| pool.acquire_blocking(len).unwrap());
    of(SMALL, pool.max_small_slots()).chain(of(LARGE, pool.max_slots())).collect()
}

/// What one thread waits for may be more than its ring has room for: slots that come all at once. Whatever is done before
/// it rests is told to those who wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_thread_whose_ring_is_full_tells_what_is_done_before_it_rests() {
    let dir = memory();
    let path = dir.path().join("data.bin");
    let want = pattern(LEN);
    std::fs::write(&path, &want).unwrap();
    let options = RingOptions { threads: 2, depth: 2, ..RingOptions::default() };
    for setup in rings(&options) {
        let devices = [gpu(0), gpu(1)];
        let mut files = Vec::new();
        for device in &devices {
            let context = setup.context(device.clone());
            files.push(LocalFile::open(&context, &path, &OpenOptions::new().read(true)).await.unwrap());
        }
        for round in 0..50 {
            let soon = Instant::now() + Duration::from_secs(20);
            let held: Vec<_> = devices.iter().flat_map(all_slots).collect();
            let reads: Vec<_> = [4096, LARGE, 4096, LARGE]
                .into_iter()
                .enumerate()
                .map(|(n, len)| {
                    let buffer = devices[n / 2].alloc(len).unwrap();
                    files[n / 2].read_at((n * LARGE) as u64, buffer).deadline(soon)
                })
                .collect();
            // Time to fall asleep, more or less of it.
            std::thread::sleep(Duration::from_micros(round * 20));
            drop(held);
            for (n, read) in reads.into_iter().enumerate() {
                let moved = read.await.unwrap_or_else(|failed| panic!("{setup:?}, {round}, {n}: {}", failed.error));
                let got = moved.buffer.freeze().to_host().await.unwrap();
                assert!(got[..] == want[n * LARGE..][..got.len()], "{setup:?}, {round}, {n}");
            }
        }
    }
}
