//! Storage that fails: errors in mid-file, short answers, no direct I/O, no answers at all.

mod support;

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use support::engines::{Setup, disk, for_each_engine, memory, rings};
use support::fuse::FaultyFs;
use warpio_core::plan::Split;
use warpio_core::testing::{FakeGpu, pattern, read_contract, write_contract};
use warpio_core::{
    AsyncDeviceRead, AsyncDeviceReadExt, AsyncDeviceWrite, Device, Error, ErrorKind, Failed, Moved, PathKind,
    PoolConfig,
};
use warpio_local::engine::{Mode, RingOptions};
use warpio_local::file::{FileContext, LocalFile};
use warpio_local::open::OpenOptions;
use warpio_local::page_cache::drop_range;

const LEN: usize = 1_000_003;
const MIB: usize = 1 << 20;

fn gpu() -> Device {
    let pool = PoolConfig { budget: 2 * MIB, slot_len: 128 << 10, small_slot_len: 16 << 10, slab_len: 256 << 10 };
    FakeGpu::device(0, pool).0
}

/// Long enough for any machine, so that a test that would wait for ever fails instead.
fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

async fn open(setup: &Setup, device: &Device, path: &Path) -> LocalFile {
    LocalFile::open(&setup.context(device.clone()), path, &OpenOptions::new().read(true)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn short_answers_are_asked_for_the_rest() {
    let Some(fs) = FaultyFs::mount(pattern(LEN)) else { return };
    fs.set(|faults| faults.longest = 5000);
    for_each_engine(async |setup| {
        for device in [Device::host(), gpu()] {
            let file = open(setup, &device, &fs.file()).await;
            let read = file.read_exact_at(3, device.alloc(LEN - 10).unwrap()).deadline(soon()).await.unwrap();
            assert!(read.freeze().to_host().await.unwrap() == pattern(LEN)[3..LEN - 7], "{setup:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn short_writes_are_continued() {
    let Some(fs) = FaultyFs::mount(Vec::new()) else { return };
    for_each_engine(async |setup| {
        for device in [Device::host(), gpu()] {
            let options = OpenOptions::new().read(true).write(true);
            let file = LocalFile::open(&setup.context(device.clone()), fs.file(), &options).await.unwrap();
            fs.set(|faults| faults.longest = 4096 * 3 + 100);
            let data = device.upload(&pattern(LEN)).await.unwrap().freeze();
            file.write_at(0, data).deadline(soon()).await.unwrap();
            assert!(fs.content() == pattern(LEN), "{setup:?}");
            let zeros = device.upload(&vec![0; LEN]).await.unwrap().freeze();
            file.write_at(0, zeros).deadline(soon()).await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_mid_file_fails_the_transfers_that_meet_it() {
    let Some(fs) = FaultyFs::mount(pattern(MIB)) else { return };
    let disk = fs.disk();
    fs.set(|faults| faults.broken = 500_000..500_100);
    for_each_engine(async |setup| {
        for device in [Device::host(), gpu()] {
            for path in disk.iter().map(|disk| disk.path.clone()).chain([fs.file()]) {
                drop_range(File::open(&path).unwrap(), 0..MIB as u64).unwrap();
                let file = open(setup, &device, &path).await;
                let failed = file.read_at(0, device.alloc(MIB).unwrap()).deadline(soon()).await.unwrap_err();
                broken(setup, &failed);
                // Whoever keeps clear of it is served, by more than the kernel reads at a time.
                let read = file.read_exact_at(790_000, device.alloc(100_000).unwrap()).deadline(soon()).await.unwrap();
                assert!(read.freeze().to_host().await.unwrap() == pattern(MIB)[790_000..890_000], "{setup:?}");
            }
            let options = OpenOptions::new().write(true);
            let file = LocalFile::open(&setup.context(device.clone()), fs.file(), &options).await.unwrap();
            let data = device.upload(&pattern(MIB)).await.unwrap().freeze();
            broken(setup, &file.write_at(0, data).deadline(soon()).await.unwrap_err());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_mid_file_fails_those_of_many_ranges_that_meet_it() {
    let content = pattern(MIB);
    let Some(fs) = FaultyFs::mount(content.clone()) else { return };
    let disk = fs.disk();
    fs.set(|faults| faults.broken = 500_000..500_100);
    // The second and the third are so near that they are read as one; each by itself, they are not neighbours, whose reads
    // the kernel would join again.
    let ranges = [0..100, 490_000..490_100, 499_990..500_010, 790_000..800_000, MIB as u64 - 5..MIB as u64 + 5];
    for_each_engine(async |setup| {
        for device in [Device::host(), gpu()] {
            for path in disk.iter().map(|disk| disk.path.clone()).chain([fs.file()]) {
                drop_range(File::open(&path).unwrap(), 0..MIB as u64).unwrap();
                let context = FileContext { gap: 64 << 10, ..setup.context(device.clone()) };
                let file = LocalFile::open(&context, &path, &OpenOptions::new().read(true)).await.unwrap();
                let read = file.read_ranges(&ranges, device.alloc(10_230).unwrap()).deadline(soon()).await.unwrap();
                let errors: Vec<_> =
                    read.results.iter().map(|n| n.as_ref().map_err(Error::os_error).copied()).collect();
                assert_eq!(errors, [Ok(100), Ok(100), Err(Some(libc::EIO)), Ok(10_000), Ok(5)], "{setup:?}");
                let error = read.results[2].as_ref().unwrap_err();
                assert_eq!((error.kind(), error.offset(), error.length()), (ErrorKind::Io, Some(499_990), Some(20)));
                let bytes = read.buffer.freeze().to_host().await.unwrap();
                assert!(bytes[..100] == content[..100] && bytes[100..200] == content[490_000..490_100], "{setup:?}");
                assert!(bytes[220..10_220] == content[790_000..800_000] && bytes[10_220..10_225] == content[MIB - 5..]);
            }
        }
    })
    .await;
}

fn broken<B: std::fmt::Debug>(setup: &Setup, failed: &Failed<B>) {
    assert_eq!((failed.error.kind(), failed.error.os_error()), (ErrorKind::Io, Some(libc::EIO)), "{setup:?}");
    assert_eq!((failed.error.offset(), failed.error.length()), (Some(0), Some(MIB as u64)), "{setup:?}");
    assert!(failed.buffer.is_some(), "the buffer comes back");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_direct_io_everything_goes_through_the_page_cache() {
    for refuse_open in [true, false] {
        for options in [RingOptions::default(), RingOptions { threads: 2, depth: 3, ..RingOptions::default() }] {
            for setup in rings(&options) {
                // A file system of its own, as refusals are remembered.
                let Some(fs) = FaultyFs::mount(pattern(LEN)) else { return };
                fs.set(|faults| {
                    faults.refuse_direct_open = refuse_open;
                    faults.refuse_direct_io = true;
                });
                without_direct_io(&setup, &fs, refuse_open).await;
            }
        }
    }
}

async fn without_direct_io(setup: &Setup, fs: &FaultyFs, refuse_open: bool) {
    let read = async |device: Device| {
        let file = open(setup, &device, &fs.file()).await;
        let transfer = file.read_at(0, device.alloc(LEN + 5).unwrap()).deadline(soon());
        let report = transfer.report();
        let Moved { n, buffer } = transfer.await.unwrap();
        assert_eq!((n, report.bytes(PathKind::PageCache)), (LEN, LEN as u64), "{setup:?}");
        assert!(buffer.freeze().to_host().await.unwrap()[..LEN] == pattern(LEN), "{setup:?}");
        file.close().await.unwrap();
    };
    read(Device::host()).await;
    let uses = fs.direct_uses();
    match (setup.mode, refuse_open) {
        (Mode::Buffered, _) => assert_eq!(uses, (0, 0)),
        // The kernel may try an open that was refused once more.
        (Mode::Direct, true) => assert!(uses.0 > 0 && uses.1 == 0, "{uses:?}"),
        (Mode::Direct, false) => assert!(uses.0 == 1 && uses.1 > 0, "{uses:?}"),
    }
    read(gpu()).await;
    read(Device::host()).await;
    assert_eq!(fs.direct_uses(), uses, "{setup:?}: it is not tried again on this file system");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_system_in_user_space_keeps_the_contracts() {
    for setup in rings(&RingOptions { threads: 2, depth: 16, ..RingOptions::default() }) {
        for device in [Device::host(), gpu()] {
            let Some(fs) = FaultyFs::mount(pattern(LEN)) else { return };
            let context = setup.context(device);
            let file = LocalFile::open(&context, fs.file(), &OpenOptions::new().read(true)).await.unwrap();
            read_contract(&file, LEN).await;
            let Some(fs) = FaultyFs::mount(Vec::new()) else { return };
            let file = LocalFile::open(&context, fs.file(), &OpenOptions::new().read(true).write(true)).await.unwrap();
            write_contract(&file, || async { fs.content() }).await;
        }
    }
}

/// Storage that does not answer: deadlines hold, other transfers go on, and once it answers so do those that waited. As a
/// file, which the engines keep away from their rings, and as a disk, which they do not.
#[tokio::test(flavor = "multi_thread")]
async fn storage_that_stops_answering_stops_nobody_else() {
    let content = pattern(32 * MIB);
    let Some(fs) = FaultyFs::mount(content.clone()) else { return };
    let faulty_disk = fs.disk();
    let (disk, memory) = (disk(), memory());
    let others = [disk.path().join("other"), memory.path().join("other")];
    others.iter().for_each(|path| std::fs::write(path, pattern(LEN)).unwrap());
    for options in [RingOptions::default(), RingOptions { threads: 2, depth: 8, ..RingOptions::default() }] {
        for setup in rings(&options) {
            for path in faulty_disk.iter().map(|disk| disk.path.clone()).chain([fs.file()]) {
                for device in [Device::host(), gpu()] {
                    drop_range(File::open(&path).unwrap(), 0..content.len() as u64).unwrap();
                    fs.set(|faults| faults.hold = true);
                    let stuck_file = open(&setup, &device, &path).await;
                    // Many more segments than any ring has room for, or any pool slots.
                    let stuck = stuck_file.read_exact_at(0, device.alloc(content.len()).unwrap());
                    fs.wait_for_held(1);
                    let late = stuck_file.read_at(0, device.alloc(4096).unwrap());
                    let late = late.deadline(Instant::now() + Duration::from_millis(20));
                    for other in &others {
                        go_on(&setup, &device, other).await;
                    }
                    let failed = late.await.unwrap_err();
                    assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded, "{setup:?}");
                    assert!(fs.held() > 0, "the storage has not answered yet");
                    // The buffer comes back only if the read was still waiting for its turn: nothing writes it then.
                    if let Some(buffer) = failed.buffer {
                        let before = buffer.freeze().to_host().await.unwrap();
                        assert!(before[..] != content[..4096], "{setup:?}: the read had begun");
                    }
                    fs.set(|faults| faults.hold = false);
                    let read = stuck.deadline(soon()).await.unwrap().freeze().to_host().await.unwrap();
                    assert!(read == content, "{setup:?}");
                }
            }
        }
    }
}

async fn go_on(setup: &Setup, device: &Device, path: &Path) {
    for _ in 0..3 {
        let file = open(setup, device, path).await;
        let read = file.read_exact_at(0, device.alloc(LEN).unwrap()).deadline(soon()).await;
        let read = read.unwrap_or_else(|failed| panic!("{setup:?}, {device}: {failed:?}"));
        assert!(read.freeze().to_host().await.unwrap() == pattern(LEN));
    }
}

/// Long reads are not asked for before others of them have come. A short one of the same file does not wait with them.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_read_does_not_wait_behind_long_ones() {
    let content = pattern(32 * MIB);
    let Some(fs) = FaultyFs::mount(content.clone()) else { return };
    for setup in rings(&RingOptions::default()) {
        let device = Device::host();
        fs.set(|faults| faults.hold = true);
        let context = FileContext { split: Split::new(MIB).unwrap(), ..setup.context(device.clone()) };
        let file = LocalFile::open(&context, fs.file(), &OpenOptions::new().read(true)).await.unwrap();
        let long = file.read_exact_at(0, device.alloc(content.len()).unwrap());
        fs.wait_for_held(1);
        let mut asked = 0;
        while std::mem::replace(&mut asked, fs.held()) < fs.held() {
            std::thread::sleep(Duration::from_millis(200));
        }
        let short = file.read_exact_at(20 * MIB as u64, device.alloc(4096).unwrap());
        let late = Instant::now() + Duration::from_secs(20);
        while fs.held() == asked {
            assert!(Instant::now() < late, "{setup:?}: the short read is not asked for");
            std::thread::sleep(Duration::from_millis(2));
        }
        fs.set(|faults| faults.hold = false);
        let read = short.deadline(soon()).await.unwrap().freeze().to_host().await.unwrap();
        assert!(read == content[20 * MIB..20 * MIB + 4096], "{setup:?}");
        let read = long.deadline(soon()).await.unwrap().freeze().to_host().await.unwrap();
        assert!(read == content, "{setup:?}");
    }
}
