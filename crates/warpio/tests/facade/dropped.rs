//! Futures that are dropped at any await: nothing is left behind, and everything else goes on.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use tokio::sync::Notify;
use warpio::core::testing::pattern;
use warpio::{AsyncDeviceRead, AsyncDeviceReadExt, AsyncDeviceWrite, ErrorKind, Moved, Runtime};

use crate::support::{LONG, MIB, Scratch, builder, for_each_runtime, gpu, host, names, on_gpu, until, upload};

/// Polls a future, whenever it asks for it, `times` times at most, and drops it then. Whether it was done before.
async fn drop_after<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = Box::pin(future);
    for _ in 0..times {
        let woken = Arc::new(Woken(Notify::new()));
        let waker = Waker::from(woken.clone());
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(value);
        }
        woken.0.notified().await;
    }
    None
}

struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// Runs `step` with every number of polls that it takes to be done.
async fn at_every_await<T>(step: impl AsyncFn(usize) -> Option<T>) -> T {
    for times in 0..100 {
        if let Some(value) = step(times).await {
            return value;
        }
    }
    panic!("it is polled for ever");
}

/// Runs `test` in a tokio runtime that is waited for, with all that still runs on its blocking threads.
fn to_the_end(test: impl AsyncFn(&Runtime)) {
    for device in [None, Some(gpu().0)] {
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        tokio.block_on(async {
            let builder = builder();
            let rt = match device {
                Some(device) => builder.on_device(device).build().unwrap(),
                None => builder.device(warpio::DeviceSpec::Host).build().unwrap(),
            };
            test(&rt).await;
            rt.shutdown(LONG).await.unwrap();
        });
    }
}

/// Descriptors of this process that lead below `dir`.
fn descriptors(dir: &std::path::Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    open.filter(|fd| std::fs::read_link(fd.as_ref().unwrap().path()).is_ok_and(|path| path.starts_with(dir))).count()
}

#[test]
fn opening_creating_and_closing() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", MIB);
    to_the_end(async |rt| {
        at_every_await(async |times| drop_after(times, rt.open(&path)).await).await.unwrap();
        at_every_await(async |times| drop_after(times, rt.open_options().write(true).open(&path)).await).await.unwrap();
        at_every_await(async |times| drop_after(times, rt.create(scratch.path("new"))).await).await.unwrap();
        at_every_await(async |times| {
            let file = rt.open_options().read(true).open(&path).await.unwrap();
            drop_after(times, file.close()).await
        })
        .await
        .unwrap();
    });
    assert_eq!(names(scratch.dir()), ["file"], "no temporary file is left");
    assert_eq!(descriptors(scratch.dir()), 0, "no descriptor is left");
}

#[test]
fn finishing_publishes_all_or_nothing() {
    let scratch = Scratch::on_disk();
    let path = scratch.path("file");
    to_the_end(async |rt| {
        at_every_await(async |times| {
            let sink = rt.create(&path).await.unwrap();
            sink.write_at(0, upload(rt, &pattern(300_000)).await).await.unwrap();
            let done = drop_after(times, sink.finish()).await;
            if path.exists() {
                assert!(std::fs::read(&path).unwrap() == pattern(300_000), "whole, or not there");
            }
            done
        })
        .await
        .unwrap();
        assert!(path.exists());
    });
    assert_eq!(names(scratch.dir()), ["file"], "no temporary file is left");
    assert_eq!(descriptors(scratch.dir()), 0, "no descriptor is left");
}

#[test]
fn whole_reads_sizes_syncs_and_lengths() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", MIB);
    to_the_end(async |rt| {
        let file = rt.open_options().read(true).write(true).open(&path).await.unwrap();
        let all = at_every_await(async |times| drop_after(times, file.read_all()).await).await.unwrap();
        assert!(host(&all).await == pattern(MIB));
        at_every_await(async |times| drop_after(times, file.size()).await).await.unwrap();
        at_every_await(async |times| drop_after(times, file.sync_all()).await).await.unwrap();
        at_every_await(async |times| drop_after(times, file.set_len(MIB as u64)).await).await.unwrap();
        at_every_await(async |times| drop_after(times, file.finish()).await).await.unwrap();
        at_every_await(async |times| {
            let mut chunks = file.chunks(100_000).start();
            drop_after(times, async {
                while let Some(chunk) = chunks.try_next().await.unwrap() {
                    drop(chunk);
                }
            })
            .await
        })
        .await;
        at_every_await(async |times| drop_after(times, rt.shutdown(LONG)).await).await.unwrap();
    });
    assert!(std::fs::read(&path).unwrap() == pattern(MIB));
    assert_eq!(descriptors(scratch.dir()), 0, "no descriptor is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_after_any_number_of_polls() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", 2 * MIB);
    for_each_runtime(async |rt| {
        let file = rt.open_options().read(true).write(true).open(&path).await.unwrap();
        for round in 0..20 {
            let times = round % 4;
            let read = file.read_at(0, rt.device().alloc(2 * MIB).unwrap());
            if let Some(moved) = drop_after(times, read).await {
                let Moved { n, buffer } = moved.unwrap();
                assert!(n == 2 * MIB && host(&buffer.freeze()).await == pattern(2 * MIB));
            }
            let data = upload(rt, &pattern(2 * MIB)[MIB..]).await;
            drop_after(times, file.write_at(MIB as u64, data)).await.transpose().unwrap();
        }
        // Nothing that was dropped is still on its way, and nothing landed where it does not belong.
        assert!(host(&file.read_all().await.unwrap()).await == pattern(2 * MIB));
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_transfer_gives_its_memory_back_and_its_neighbours_go_on() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", 2 * MIB);
    for_each_runtime(async |rt| {
        let source = rt.open(&path).await.unwrap();
        let reads: Vec<_> = (0..20).map(|_| source.read_at(0, rt.device().alloc(2 * MIB).unwrap())).collect();
        reads.iter().step_by(2).for_each(warpio::Transfer::cancel);
        for (number, read) in reads.into_iter().enumerate() {
            match read.await {
                Ok(Moved { n, buffer }) => {
                    assert!(n == 2 * MIB && host(&buffer.freeze()).await == pattern(2 * MIB));
                }
                Err(failed) => {
                    assert_eq!((failed.error.kind(), number % 2), (ErrorKind::Cancelled, 0), "{}", failed.error);
                    assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(2 * MIB));
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_deadline_holds_while_nothing_gets_on_and_memory_stays_valid() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", MIB);
    let (rt, gpu) = on_gpu();
    let source = rt.open(&path).await.unwrap();
    gpu.hold();
    let started = Instant::now();
    let soon = started + std::time::Duration::from_millis(20);
    let failed = source.read_at(0, rt.device().alloc(MIB).unwrap()).deadline(soon).await.unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded);
    assert!(failed.buffer.is_none(), "a copy may still write it");
    assert!(started.elapsed() < LONG);
    // Host memory has no part in that.
    let other = warpio::Device::host().alloc(10_000).unwrap();
    assert_eq!(source.read_at(0, other).await.unwrap().n, 10_000);
    gpu.release();
    rt.shutdown(LONG).await.unwrap();
    drop((rt, source));
    gpu.wait_freed();
}

#[tokio::test]
async fn a_leaked_transfer_leaks_its_buffer_and_nothing_else() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", MIB);
    for_each_runtime(async |rt| {
        let source = rt.open(&path).await.unwrap();
        for _ in 0..20 {
            std::mem::forget(source.read_at(0, rt.device().alloc(MIB).unwrap()));
        }
        assert!(host(&source.read_all().await.unwrap()).await == pattern(MIB));
    })
    .await;
}

#[tokio::test]
async fn a_waker_that_panics_ends_nobody_elses_transfer() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker of the tests");
        }
    }
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", 2 * MIB);
    let waker = Waker::from(Arc::new(Panics));
    for_each_runtime(async |rt| {
        let source = rt.open(&path).await.unwrap();
        for _ in 0..5 {
            let mut broken = source.read_at(0, rt.device().alloc(2 * MIB).unwrap());
            let _ = Pin::new(&mut broken).poll(&mut Context::from_waker(&waker));
            assert!(host(&source.read_all().await.unwrap()).await == pattern(2 * MIB));
            // It is told of the end on a thread of the engine or of the device.
            until("it has ended", || rt.stats().transfers.in_flight == 0).await;
        }
    })
    .await;
}
