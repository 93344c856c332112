//! The end of a runtime: asked for, or by being dropped, with nothing or something in flight.

use std::time::{Duration, Instant};

use futures::future::join_all;
use warpio::core::testing::pattern;
use warpio::{AsyncDeviceRead, AsyncDeviceReadExt, AsyncDeviceWrite, ErrorKind, Moved};

use crate::support::child::in_child;
use crate::support::{
    LONG, MIB, Scratch, block_on, builder, for_each_runtime, gpu, host, is, on_gpu, on_host, until, upload,
};

#[tokio::test]
async fn afterwards_everything_is_gone_with_its_memory_given_back() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", MIB);
    for_each_runtime(async |rt| {
        let source = rt.open(&path).await.unwrap();
        let file = rt.open_options().read(true).write(true).open(&path).await.unwrap();
        source.read_all().await.unwrap();
        rt.shutdown(LONG).await.unwrap();
        // That of host memory is shared by the whole process.
        if !rt.device().is_host_visible() {
            assert_eq!(rt.stats().staging.allocated, 0, "staging memory is given back");
        }
        let gone = |error: &warpio::Error| is(error, ErrorKind::Gone, &["shut down"]);
        gone(&rt.open(&path).await.unwrap_err());
        gone(&rt.create(scratch.path("new")).await.unwrap_err());
        gone(&rt.open_options().read(true).open(&path).await.unwrap_err());
        gone(&rt.open_options().create_whole(scratch.path("new")).await.unwrap_err());
        gone(&rt.open_options().from_fd(std::fs::File::open(&path).unwrap().into()).unwrap_err());
        let failed = source.read_at(0, rt.device().alloc(10).unwrap()).await.unwrap_err();
        gone(&failed.error);
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(10));
        let failed = file.write_at(0, upload(rt, b"no").await).await.unwrap_err();
        gone(&failed.error);
        assert!(failed.buffer.is_some());
        gone(&file.append(upload(rt, b"no").await).await.unwrap_err().error);
        gone(&source.chunks(10).start().try_next().await.unwrap_err());
        // What is no transfer can still be ended in good order.
        file.sync_all().await.unwrap();
        file.close().await.unwrap();
        rt.shutdown(Duration::ZERO).await.unwrap();
    })
    .await;
    assert!(std::fs::read(&path).unwrap() == pattern(MIB));
}

#[tokio::test]
async fn what_is_in_flight_runs_out_first() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", 4 * MIB);
    for_each_runtime(async |rt| {
        let source = rt.open(&path).await.unwrap();
        let reads: Vec<_> = (0..10).map(|_| source.read_at(0, rt.device().alloc(4 * MIB).unwrap())).collect();
        rt.shutdown(LONG).await.unwrap();
        assert_eq!(rt.stats().transfers.in_flight, 0);
        for read in join_all(reads).await {
            let Moved { n, buffer } = read.unwrap();
            assert!(n == 4 * MIB && host(&buffer.freeze()).await == pattern(4 * MIB));
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_stuck_is_told_and_ends_later_without_harm() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", MIB);
    let (rt, gpu) = on_gpu();
    let source = rt.open(&path).await.unwrap();
    gpu.hold();
    let (kept, dropped) = (source.read_at(0, rt.device().alloc(MIB).unwrap()), rt.device().alloc(MIB).unwrap());
    drop(source.read_at(0, dropped));
    let started = Instant::now();
    let error = rt.shutdown(Duration::from_millis(30)).await.unwrap_err();
    assert!(started.elapsed() >= Duration::from_millis(30));
    is(&error, ErrorKind::DeadlineExceeded, &["shutdown", "still in flight", "30ms"]);
    assert!(error.is_retryable());
    is(&rt.open(&path).await.unwrap_err(), ErrorKind::Gone, &[]);
    gpu.release();
    let Moved { n, buffer } = kept.await.unwrap();
    assert!(n == MIB && host(&buffer.freeze()).await == pattern(MIB));
    rt.shutdown(LONG).await.unwrap();
    drop((rt, source));
    gpu.wait_freed();
}

#[tokio::test]
async fn memory_stays_valid_after_everything_was_dropped_in_mid_flight() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", MIB);
    for _ in 0..5 {
        let (rt, gpu) = on_gpu();
        let source = rt.open(&path).await.unwrap();
        let file = rt.open_options().write(true).create(true).open(scratch.path("out")).await.unwrap();
        let data = upload(&rt, &pattern(MIB)).await;
        gpu.hold();
        let reads: Vec<_> = (0..5).map(|_| source.read_at(0, rt.device().alloc(MIB).unwrap())).collect();
        let write = file.write_at(0, data);
        // The last handles, with copies enqueued that read and write this memory.
        drop((rt, source, file, write, reads));
        gpu.release();
        gpu.wait_freed();
    }
}

#[tokio::test]
async fn dropping_blocks_nobody() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", 4 * MIB);
    let mut times = Vec::new();
    for _ in 0..5 {
        let (rt, gpu) = on_gpu();
        let (source, sink) = (rt.open(&path).await.unwrap(), rt.create(scratch.path("new")).await.unwrap());
        gpu.hold();
        let reads: Vec<_> = (0..20).map(|_| source.read_at(0, rt.device().alloc(4 * MIB).unwrap())).collect();
        // All of this on the one thread of this tokio runtime, while nothing gets on.
        let started = Instant::now();
        drop(reads);
        drop(sink);
        drop(source);
        drop(rt);
        times.push(started.elapsed());
        gpu.release();
        gpu.wait_freed();
    }
    let best = times.iter().min().unwrap();
    assert!(*best < Duration::from_millis(20), "{times:?}");
}

#[test]
fn threads_and_descriptors_end_with_the_last_handle() {
    in_child(
        "shutdown::threads_and_descriptors_end_with_the_last_handle",
        |_| (),
        || {
            let count = |dir: &str| std::fs::read_dir(dir).unwrap().count();
            let threads = || {
                let tasks = std::fs::read_dir("/proc/self/task").unwrap();
                let name =
                    |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
                // One keeps everybody's deadlines, as long as the process lives.
                let of_ours = |name: &str| name.starts_with("warpio") && !name.starts_with("warpio-timer");
                tasks.map(|task| name(task.unwrap())).filter(|name| of_ours(name)).count()
            };
            let scratch = Scratch::on_disk();
            let path = scratch.file("file", MIB);
            let mut descriptors = None;
            for _ in 0..3 {
                block_on(async {
                    for (engine, device) in [
                        (warpio::config::EngineChoice::Auto, warpio::Device::host()),
                        (warpio::config::EngineChoice::TokioUring, gpu().0),
                        (warpio::config::EngineChoice::Posix, gpu().0),
                    ] {
                        let rt = builder().engine(engine).on_device(device).build().unwrap();
                        let source = rt.open(&path).await.unwrap();
                        source.read_all().await.unwrap();
                        drop(rt);
                        // A source is enough to go on.
                        source.read_all().await.unwrap();
                        assert!(threads() > 0);
                    }
                    until("all threads have ended", || threads() == 0).await;
                });
                let now = count("/proc/self/fd");
                assert_eq!(*descriptors.get_or_insert(now), now, "descriptors are left");
            }
        },
    );
}

#[test]
fn an_idle_runtime_takes_no_time_of_the_processor() {
    in_child(
        "shutdown::an_idle_runtime_takes_no_time_of_the_processor",
        |_| (),
        || {
            let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            tokio.block_on(async {
                let cpu = || {
                    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
                    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
                };
                let scratch = Scratch::on_disk();
                let path = scratch.file("file", MIB);
                let rt = on_host();
                let source = rt.open(&path).await.unwrap();
                source.read_all().await.unwrap();
                let before = cpu();
                tokio::time::sleep(Duration::from_millis(500)).await;
                let used = cpu() - before;
                assert!(used < Duration::from_millis(5), "{used:?} in half a second");
                drop(source);
            });
        },
    );
}
