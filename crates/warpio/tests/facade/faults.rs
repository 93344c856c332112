//! Storage that fails, answers in part, late or not at all.

use std::path::Path;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use tokio::io::AsyncReadExt;
use warpio::config::{DirectIo, EngineChoice};
use warpio::core::testing::pattern;
use warpio::local::page_cache::drop_range;
use warpio::{
    AsyncDeviceRead, AsyncDeviceReadExt, AsyncDeviceWrite, Device, Error, ErrorKind, LocalFile, Moved, OpenMode,
    Runtime,
};

use crate::support::fuse::FaultyFs;
use crate::support::{KIB, LONG, MIB, Scratch, builder, for_each_runtime, gpu, host, is, upload};

const EIO: i32 = 5;

async fn open(rt: &Runtime, fs: &FaultyFs) -> LocalFile {
    rt.open_options().with_mode(OpenMode::ReadWrite).open(fs.file()).await.unwrap()
}

#[track_caller]
fn broken(error: &Error) {
    is(error, ErrorKind::Io, &["file", "os error 5"]);
    assert_eq!(error.os_error(), Some(EIO));
}

#[tokio::test]
async fn an_error_in_mid_file_is_told_by_all_that_meet_it_and_nobody_else() {
    let Some(fs) = FaultyFs::mount(pattern(MIB)) else { return };
    fs.set(|faults| faults.broken = 500_000..500_001);
    for_each_runtime(async |rt| {
        let file = open(rt, &fs).await;
        let failed = file.read_at(0, rt.device().alloc(MIB).unwrap()).await.unwrap_err();
        broken(&failed.error);
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(MIB));
        broken(&file.read_all().await.unwrap_err());
        let ranges = [0..1000, 499_000..501_000, 700_000..700_010];
        let read = file.read_ranges(&ranges, rt.device().alloc(3010).unwrap()).await.unwrap();
        broken(read.results[1].as_ref().unwrap_err());
        assert_eq!((read.results[0].as_ref().ok(), read.results[2].as_ref().ok()), (Some(&1000), Some(&10)));

        let mut chunks = (&file).into_chunks(100 * KIB).start();
        let mut good = 0;
        let error = loop {
            match chunks.try_next().await {
                Ok(chunk) => good += chunk.unwrap().len(),
                Err(error) => break error,
            }
        };
        broken(&error);
        assert_eq!(good, 400 * KIB, "what came before is good");
        assert!(chunks.try_next().await.unwrap().is_none(), "after an error there are no more");
        broken(&(&file).into_bytes_stream(MIB).try_collect::<Vec<_>>().await.unwrap_err());
        let mut all = Vec::new();
        let error = (&file).into_reader().read_to_end(&mut all).await.unwrap_err();
        broken(&Error::from(error));

        let failed = file.write_at(499_990, upload(rt, &pattern(100)).await).await.unwrap_err();
        broken(&failed.error);
        assert!(failed.buffer.is_some());
        broken(&file.finish().await.unwrap_err());
        // All the rest of it is as good as ever.
        let Moved { n, buffer } = file.read_at(600_000, rt.device().alloc(MIB).unwrap()).await.unwrap();
        assert!(host(&buffer.freeze()).await[..n] == pattern(MIB)[600_000..]);
    })
    .await;
    assert!(fs.content() == pattern(MIB));
}

#[tokio::test]
async fn short_answers_are_asked_for_the_rest() {
    let Some(fs) = FaultyFs::mount(pattern(MIB + 3)) else { return };
    for longest in [4096, 10_000] {
        fs.set(|faults| faults.longest = longest);
        for_each_runtime(async |rt| {
            let file = open(rt, &fs).await;
            assert!(host(&file.read_all().await.unwrap()).await == pattern(MIB + 3));
            let data = upload(rt, &pattern(MIB + 3)[1000..600_000]).await;
            file.write_at(1000, data).await.unwrap();
            let mut all = Vec::new();
            file.into_reader().read_to_end(&mut all).await.unwrap();
            assert!(all == pattern(MIB + 3));
        })
        .await;
    }
    assert!(fs.content() == pattern(MIB + 3));
}

/// Everything that others do on other storage.
async fn others_go_on(rt: &Runtime, dir: &Path) {
    let (cached, cold, new) = (dir.join("cached"), dir.join("cold"), dir.join("new"));
    for path in [&cached, &cold] {
        std::fs::write(path, pattern(2 * MIB)).unwrap();
    }
    drop_range(std::fs::File::open(&cold).unwrap(), 0..u64::MAX).unwrap();
    for path in [&cached, &cold] {
        for device in [rt.device().clone(), Device::host()] {
            let source = rt.open(path).await.unwrap();
            let Moved { n, buffer } = source.read_at(0, device.alloc(2 * MIB).unwrap()).await.unwrap();
            assert!(n == 2 * MIB && host(&buffer.freeze()).await == pattern(2 * MIB));
            let small = source.read_exact_at(5, device.alloc(4096).unwrap()).await.unwrap();
            assert!(host(&small.freeze()).await == pattern(4101)[5..]);
        }
    }
    let sink = rt.create(&new).await.unwrap();
    sink.write_at(0, upload(rt, &pattern(2 * MIB)).await).await.unwrap();
    sink.finish().await.unwrap();
    assert!(std::fs::read(&new).unwrap() == pattern(2 * MIB));
}

async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    warpio::core::within(LONG, future).await.unwrap_or_else(|| panic!("{what} waits for storage that does not answer"))
}

#[tokio::test]
async fn storage_that_stops_answering_stops_nobody_else() {
    let Some(fs) = FaultyFs::mount(pattern(8 * MIB)) else { return };
    let scratch = Scratch::on_disk();
    for (engine, direct) in [
        (EngineChoice::Auto, DirectIo::Auto),
        (EngineChoice::Auto, DirectIo::Always),
        (EngineChoice::Auto, DirectIo::Never),
        (EngineChoice::TokioUring, DirectIo::Auto),
        (EngineChoice::Posix, DirectIo::Auto),
        (EngineChoice::Posix, DirectIo::Always),
        (EngineChoice::Posix, DirectIo::Never),
    ] {
        for device in [Device::host(), gpu().0] {
            let settings = builder().engine(engine).direct_read(direct).direct_write(direct).threads(4);
            let rt = settings.on_device(device).build().unwrap();
            let what = format!("{engine}, {direct}, {}", rt.device());
            let data = upload(&rt, &pattern(MIB)).await;
            // Many more than there are threads or room in a ring.
            let mut files = Vec::new();
            for _ in 0..20 {
                files.push(open(&rt, &fs).await);
            }
            fs.set(|faults| faults.hold = true);
            let reads: Vec<_> = files.iter().map(|file| file.read_at(0, rt.device().alloc(MIB).unwrap())).collect();
            let writes: Vec<_> = files.iter().map(|file| file.write_at(0, data.clone())).collect();
            fs.wait_for_held(1);
            in_time(&what, others_go_on(&rt, scratch.dir())).await;
            let soon = Instant::now() + Duration::from_millis(20);
            let late = files[0].read_at(0, rt.device().alloc(MIB).unwrap()).deadline(soon);
            let failed = in_time(&what, late).await.unwrap_err();
            assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded, "{what}");
            let error = in_time(&what, rt.shutdown(Duration::from_millis(20))).await.unwrap_err();
            is(&error, ErrorKind::DeadlineExceeded, &["still in flight"]);
            fs.set(|faults| faults.hold = false);
            for read in reads {
                assert_eq!(in_time(&what, read).await.unwrap().n, MIB, "{what}");
            }
            for write in writes {
                in_time(&what, write).await.unwrap();
            }
            rt.shutdown(LONG).await.unwrap();
        }
    }
}

#[tokio::test]
async fn dropping_everything_waits_for_no_storage() {
    let Some(fs) = FaultyFs::mount(pattern(8 * MIB)) else { return };
    for _ in 0..2 {
        let (device, control) = gpu();
        let rt = builder().on_device(device).build().unwrap();
        let data = upload(&rt, &pattern(MIB)).await;
        let file = open(&rt, &fs).await;
        fs.set(|faults| faults.hold = true);
        let read = file.read_at(0, rt.device().alloc(8 * MIB).unwrap());
        let write = file.write_at(0, data);
        fs.wait_for_held(1);
        let started = Instant::now();
        drop((read, write, file, rt));
        let took = started.elapsed();
        assert!(fs.held() > 0, "nothing has been answered");
        fs.set(|faults| faults.hold = false);
        assert!(took < Duration::from_secs(1), "{took:?}");
        control.wait_freed();
    }
}
