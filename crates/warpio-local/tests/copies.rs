//! Threads that wait for the copies they sent: for a moment, for what waits on the device, and past what panics.

mod support;

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use futures::FutureExt;
use support::engines::{Setup, memory};
use warpio_core::testing::{FakeGpu, pattern};
use warpio_core::{AsyncDeviceRead, AsyncDeviceReadExt, PoolConfig};
use warpio_local::engine::{Mode, PosixEngine};
use warpio_local::file::LocalFile;
use warpio_local::open::OpenOptions;

const SEGMENT: usize = 128 << 10;
const SEGMENTS: usize = 8;
const LEN: usize = SEGMENT * SEGMENTS;

fn pool() -> PoolConfig {
    PoolConfig { budget: 4 << 20, slot_len: SEGMENT, small_slot_len: 16 << 10, slab_len: 256 << 10 }
}

async fn open(setup: &Setup, device: &warpio_core::Device) -> (tempfile::TempDir, LocalFile) {
    let dir = memory();
    let path = dir.path().join("data.bin");
    std::fs::write(&path, pattern(LEN)).unwrap();
    let file = LocalFile::open(&setup.context(device.clone()), &path, &OpenOptions::new().read(true)).await.unwrap();
    (dir, file)
}

fn one_thread() -> Setup {
    Setup { engine: Arc::new(PosixEngine::start(1).unwrap()), mode: Mode::Buffered }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_busy_for_long_does_not_stop_the_reading() {
    let (setup, (device, gpu)) = (one_thread(), FakeGpu::device(0, pool()));
    let (_dir, file) = open(&setup, &device).await;
    gpu.hold();
    let transfer = file.read_exact_at(0, device.alloc(LEN).unwrap());
    let end = Instant::now() + Duration::from_secs(60);
    let lent = || device.staging().stats().allocated - device.staging().stats().free;
    while lent() < LEN {
        assert!(Instant::now() < end, "{} bytes of {LEN} were read", lent());
        tokio::task::yield_now().await;
    }
    gpu.release();
    let read = transfer.await.unwrap();
    assert!(read.freeze().to_host().await.unwrap() == pattern(LEN));
}

/// A waker that is the caller's mistake.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics, on purpose");
    }
}

/// The copies of one transfer are waited for before the segments of another are read.
#[tokio::test(flavor = "multi_thread")]
async fn a_waker_that_panics_spoils_nobody_elses_read() {
    let (setup, (device, _gpu)) = (one_thread(), FakeGpu::device(0, pool()));
    let (_dir, file) = open(&setup, &device).await;
    let waker = Waker::from(Arc::new(Panics));
    for _ in 0..50 {
        let mut first = file.read_at(0, device.alloc(LEN).unwrap());
        let early = match first.poll_unpin(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => Some(result.unwrap()),
            Poll::Pending => None,
        };
        let second = file.read_exact_at(0, device.alloc(LEN).unwrap());
        let second = second.deadline(Instant::now() + Duration::from_secs(60)).await.unwrap();
        assert!(second.freeze().to_host().await.unwrap() == pattern(LEN));
        let first = match early {
            Some(moved) => moved,
            None => first.deadline(Instant::now() + Duration::from_secs(60)).await.unwrap(),
        };
        assert_eq!(first.n, LEN);
        assert!(first.buffer.freeze().to_host().await.unwrap() == pattern(LEN));
    }
    assert_eq!(device.staging().stats().free, device.staging().stats().allocated);
}
