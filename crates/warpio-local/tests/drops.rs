//! What is dropped while the kernel works for it, and that its memory is not touched afterwards. AddressSanitizer sees no
//! write of the kernel, so canaries stand in for it.

mod support;

use std::alloc::Layout;
use std::fs::File;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::engines::{Setup, memory, rings};
use support::fuse::FaultyFs;
use warpio_core::engine::Stats;
use warpio_core::testing::{FakeGpu, pattern};
use warpio_core::{
    AsyncDeviceRead, AsyncDeviceReadExt, AsyncDeviceWrite, Device, DeviceBytesMut, ErrorKind, PoolConfig,
};
use warpio_local::engine::RingOptions;
use warpio_local::file::LocalFile;
use warpio_local::open::OpenOptions;
use warpio_local::page_cache::drop_range;

const LEN: usize = 1 << 20;
const CANARY: u8 = 0xC5;

/// Memory that outlives its use. When warpio gives it up it is filled with canaries, and nothing may write them over
/// after that.
struct Watched {
    memory: &'static mut [u8],
    freed: Arc<AtomicBool>,
}

struct Owner {
    ptr: NonNull<u8>,
    freed: Arc<AtomicBool>,
}

// SAFETY: an address.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: the memory is freed after this only, and whoever drops its owner is done with it.
        unsafe { self.ptr.as_ptr().write_bytes(CANARY, LEN) };
        self.freed.store(true, Ordering::Release);
    }
}

impl Watched {
    const LAYOUT: Layout = match Layout::from_size_align(LEN, 4096) {
        Ok(layout) => layout,
        Err(_) => panic!("a power of two"),
    };

    fn new() -> (DeviceBytesMut, Self) {
        // SAFETY: the layout is not empty.
        let ptr = NonNull::new(unsafe { std::alloc::alloc_zeroed(Self::LAYOUT) }).unwrap();
        let freed = Arc::new(AtomicBool::new(false));
        let owner = Owner { ptr, freed: freed.clone() };
        // SAFETY: allocated above with this length, and freed when what is returned is dropped.
        let memory = unsafe { std::slice::from_raw_parts_mut(ptr.as_ptr(), LEN) };
        // SAFETY: the memory is valid, initialised, and looked at here only after `owner` was dropped.
        let buffer = unsafe { DeviceBytesMut::from_raw_parts(&Device::host(), ptr, LEN, owner) };
        (buffer, Self { memory, freed })
    }

    fn is_freed(&self) -> bool {
        self.freed.load(Ordering::Acquire)
    }

    fn is_untouched(&self) -> bool {
        self.is_freed() && self.memory.iter().all(|&byte| byte == CANARY)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.is_freed() {
            // SAFETY: allocated with this layout, and its owner has let go of it.
            unsafe { std::alloc::dealloc(self.memory.as_mut_ptr(), Self::LAYOUT) };
        }
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn options() -> [RingOptions; 2] {
    [RingOptions::default(), RingOptions { threads: 2, depth: 3, ..RingOptions::default() }]
}

fn gpu() -> Device {
    let pool = PoolConfig { budget: 2 << 20, slot_len: 128 << 10, small_slot_len: 16 << 10, slab_len: 256 << 10 };
    FakeGpu::device(0, pool).0
}

/// Runs `test` with each ring engine in both modes, on storage that holds what it is asked for: as a file, which the
/// engines keep away from their rings, and as a disk, which they do not.
async fn for_each(options: &[RingOptions], test: impl AsyncFn(Setup, &FaultyFs, &Path)) {
    let Some(fs) = FaultyFs::mount(pattern(LEN)) else { return };
    let disk = fs.disk();
    for options in options {
        for path in disk.iter().map(|disk| disk.path.clone()).chain([fs.file()]) {
            for setup in rings(options) {
                // What an earlier round left in the page cache would be read without asking the storage.
                drop_range(File::open(&path).unwrap(), 0..LEN as u64).unwrap();
                fs.set(|faults| faults.hold = true);
                test(setup, &fs, &path).await;
                assert_eq!(fs.held(), 0, "the test has let go");
            }
        }
    }
}

async fn open(setup: &Setup, path: &Path) -> (LocalFile, Stats) {
    let context = setup.context(Device::host());
    (LocalFile::open(&context, path, &OpenOptions::new().read(true)).await.unwrap(), context.stats)
}

fn release(fs: &FaultyFs) {
    fs.set(|faults| faults.hold = false);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_future_in_flight() {
    for_each(&options(), async |setup, fs, path| {
        let (file, stats) = open(&setup, path).await;
        let (buffer, watched) = Watched::new();
        let transfer = file.read_at(0, buffer);
        fs.wait_for_held(1);
        drop(transfer);
        assert!(!watched.is_freed(), "{setup:?}: memory was given up while the kernel may write it");
        release(fs);
        stats.idle().await;
        assert!(watched.is_untouched(), "{setup:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_future_at_its_deadline() {
    for_each(&options(), async |setup, fs, path| {
        let (file, stats) = open(&setup, path).await;
        let (buffer, watched) = Watched::new();
        let transfer = file.read_at(0, buffer);
        fs.wait_for_held(1);
        let failed = transfer.deadline(Instant::now() + Duration::from_millis(1)).await.unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded);
        assert!(failed.buffer.is_none() && !watched.is_freed(), "{setup:?}");
        release(fs);
        stats.idle().await;
        assert!(watched.is_untouched(), "{setup:?}");
    })
    .await;
}

/// Engine, file and future go; what was begun runs out, and what was submitted is finished.
#[tokio::test(flavor = "multi_thread")]
async fn the_engine_in_flight() {
    for_each(&options(), async |setup, fs, path| {
        let (file, stats) = open(&setup, path).await;
        let (buffer, watched) = Watched::new();
        let dropped = file.read_at(0, buffer);
        let kept = file.read_exact_at(0, Device::host().alloc(LEN).unwrap());
        fs.wait_for_held(1);
        drop((dropped, file, setup));
        assert!(!watched.is_freed(), "memory was given up while the kernel may write it");
        release(fs);
        let read = kept.deadline(soon()).await.unwrap();
        assert!(read.as_slice().unwrap() == pattern(LEN), "what was submitted is finished");
        stats.idle().await;
        assert!(watched.is_untouched());
    })
    .await;
}

/// As above on files that answer, so that the segments in flight are whichever there are.
#[tokio::test(flavor = "multi_thread")]
async fn the_engine_in_flight_on_files_that_answer() {
    let dir = memory();
    let path = dir.path().join("data.bin");
    std::fs::write(&path, pattern(LEN)).unwrap();
    for options in options().iter().cycle().take(20) {
        for setup in rings(options) {
            let (file, stats) = open(&setup, &path).await;
            let (buffer, watched) = Watched::new();
            let dropped = file.read_at(0, buffer);
            let kept = file.read_exact_at(0, Device::host().alloc(LEN).unwrap());
            drop((dropped, file, setup));
            let read = kept.deadline(soon()).await.unwrap();
            assert!(read.as_slice().unwrap() == pattern(LEN), "what was submitted is finished");
            stats.idle().await;
            assert!(watched.is_untouched());
        }
    }
}

/// A small ring takes a few segments of a transfer; the rest is still in the queue when the transfer is dropped.
#[tokio::test(flavor = "multi_thread")]
async fn a_submit_that_is_half_way() {
    for_each(&[RingOptions { depth: 2, ..RingOptions::default() }], async |setup, fs, path| {
        let (file, stats) = open(&setup, path).await;
        let (buffer, watched) = Watched::new();
        let transfers: Vec<_> = (0..50).map(|_| file.read_at(0, Device::host().alloc(LEN).unwrap())).collect();
        let last = file.read_at(0, buffer);
        fs.wait_for_held(1);
        drop((transfers, last));
        // One that comes after them is served once the storage answers.
        let next = file.read_exact_at(0, Device::host().alloc(LEN).unwrap());
        release(fs);
        assert!(next.deadline(soon()).await.unwrap().as_slice().unwrap() == pattern(LEN), "{setup:?}");
        stats.idle().await;
        assert!(watched.is_untouched(), "{setup:?}");
    })
    .await;
}

/// The other way round: what is written is the bytes that were there, although the future is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_in_flight() {
    for setup in rings(&RingOptions::default()) {
        for device in [Device::host(), gpu()] {
            let Some(fs) = FaultyFs::mount(Vec::new()) else { return };
            fs.set(|faults| faults.hold = true);
            let context = setup.context(device.clone());
            let options = OpenOptions::new().read(true).write(true);
            let file = LocalFile::open(&context, fs.file(), &options).await.unwrap();
            let data = device.upload(&pattern(100_000)).await.unwrap().freeze();
            let transfer = file.write_at(0, data);
            fs.wait_for_held(1);
            drop((transfer, file));
            release(&fs);
            context.stats.idle().await;
            let content = fs.content();
            assert!(pattern(100_000).starts_with(&content) && !content.is_empty(), "{setup:?}");
        }
    }
}

/// The file is dropped while segments of it are in flight: it is closed when they are done, by another thread than the
/// one that may not wait, and says so.
#[tokio::test(flavor = "multi_thread")]
async fn the_file_in_flight() {
    for_each(&options(), async |setup, fs, path| {
        let (file, _) = open(&setup, path).await;
        let transfer = file.read_exact_at(0, Device::host().alloc(LEN).unwrap());
        fs.wait_for_held(1);
        let closing = tokio::spawn(file.close());
        release(fs);
        assert!(transfer.deadline(soon()).await.unwrap().as_slice().unwrap() == pattern(LEN), "{setup:?}");
        closing.await.unwrap().unwrap();
    })
    .await;
}
