//! Under which tokio runtimes it works: any, several, one that has ended, and none.

use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::{Builder, Runtime as Tokio};
use warpio::core::testing::pattern;
use warpio::{AsyncDeviceRead, AsyncDeviceReadExt, AsyncDeviceWrite, ErrorKind, Moved, Runtime};

use crate::support::{LONG, MIB, Scratch, builder, host, is, names, on_gpu, on_host, upload};

fn current_thread() -> Tokio {
    Builder::new_current_thread().build().unwrap()
}

fn multi_thread() -> Tokio {
    Builder::new_multi_thread().worker_threads(2).build().unwrap()
}

#[test]
fn outside_tokio_there_is_no_runtime_and_it_says_where_to_make_one() {
    for error in [Runtime::new().unwrap_err(), builder().build().unwrap_err()] {
        is(&error, ErrorKind::NoRuntime, &["inside a tokio runtime", "#[tokio::main]", "enter()"]);
        assert!(!error.is_retryable());
    }
}

#[test]
fn within_an_entered_runtime_it_can_be_made() {
    let tokio = current_thread();
    let rt = {
        let _entered = tokio.enter();
        on_host()
    };
    let scratch = Scratch::new();
    let path = scratch.file("file", MIB);
    // tokio is driven by nobody: opening happens on its blocking threads.
    futures::executor::block_on(async {
        let source = rt.open(&path).await.unwrap();
        assert!(host(&source.read_all().await.unwrap()).await == pattern(MIB));
    });
}

/// All that a program does with files, under whatever polls this.
async fn everything(rt: &Runtime, dir: &std::path::Path) {
    let path = dir.join(format!("{:?}", std::thread::current().id()));
    let sink = rt.create(&path).await.unwrap();
    sink.write_at(0, upload(rt, &pattern(MIB)).await).await.unwrap();
    sink.sync().await.unwrap();
    sink.finish().await.unwrap();
    let source = rt.open(&path).await.unwrap();
    assert_eq!(source.size().await.unwrap(), MIB as u64);
    assert!(host(&source.read_all().await.unwrap()).await == pattern(MIB));
    let mut chunks = source.chunks(100_000).start();
    while let Some(chunk) = chunks.try_next().await.unwrap() {
        drop(chunk);
    }
    let file = rt.open_options().read(true).write(true).open(&path).await.unwrap();
    file.set_len(10).await.unwrap();
    file.append(upload(rt, b"end").await).await.unwrap();
    let soon = Instant::now() + LONG;
    let Moved { n, .. } = file.read_at(0, rt.device().alloc(100).unwrap()).deadline(soon).await.unwrap();
    assert_eq!(n, 13);
    file.finish().await.unwrap();
    file.close().await.unwrap();
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn every_kind_of_runtime_will_do_and_needs_no_timer() {
    let scratch = Scratch::new();
    for tokio in [current_thread(), multi_thread()] {
        tokio.block_on(async {
            for rt in [on_host(), on_gpu().0] {
                everything(&rt, scratch.dir()).await;
                rt.shutdown(LONG).await.unwrap();
            }
        });
    }
}

#[test]
fn tasks_that_stay_on_their_thread_can_use_it() {
    let scratch = Scratch::new();
    let tokio = current_thread();
    let local = tokio::task::LocalSet::new();
    local.block_on(&tokio, async {
        let rt = std::rc::Rc::new(on_host());
        let dir = scratch.dir().to_owned();
        tokio::task::spawn_local(async move { everything(&rt, &dir).await }).await.unwrap();
    });
}

#[test]
fn threads_without_tokio_can_use_it() {
    let scratch = Scratch::new();
    let tokio = multi_thread();
    for rt in tokio.block_on(async { [on_host(), on_gpu().0] }) {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| futures::executor::block_on(everything(&rt, scratch.dir())));
            }
        });
    }
}

#[test]
fn several_tokio_runtimes_share_one() {
    let scratch = Scratch::new();
    let path = scratch.file("file", MIB);
    let (home, others) = (multi_thread(), [current_thread(), multi_thread()]);
    let (rt, source) = home.block_on(async {
        let rt = on_host();
        let source = rt.open(&path).await.unwrap();
        (rt, source)
    });
    std::thread::scope(|scope| {
        for tokio in &others {
            scope.spawn(|| {
                tokio.block_on(async {
                    for _ in 0..20 {
                        assert!(host(&source.read_all().await.unwrap()).await == pattern(MIB));
                    }
                    everything(&rt, scratch.dir()).await;
                });
            });
        }
    });
    // Begun in one, awaited in another.
    let transfer = {
        let _inside = others[0].enter();
        source.read_at(0, rt.device().alloc(MIB).unwrap())
    };
    assert_eq!(others[1].block_on(transfer).unwrap().n, MIB);
}

#[test]
fn several_of_one_process_do_not_know_of_each_other() {
    let scratch = Scratch::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                multi_thread().block_on(async {
                    let (ended, other) = (on_host(), on_gpu().0);
                    ended.shutdown(LONG).await.unwrap();
                    everything(&other, scratch.dir()).await;
                    assert_eq!(ended.stats().transfers.finished, 0, "nobody else's transfers are counted");
                });
            });
        }
    });
}

#[test]
fn after_its_tokio_has_ended_it_is_gone_and_says_so() {
    let scratch = Scratch::new();
    let path = scratch.file("file", MIB);
    for gpu in [false, true] {
        let tokio = multi_thread();
        let (rt, source, file, sink) = tokio.block_on(async {
            let rt = if gpu { on_gpu().0 } else { on_host() };
            let source = rt.open(&path).await.unwrap();
            let file = rt.open_options().read(true).write(true).open(&path).await.unwrap();
            let sink = rt.create(scratch.path("new")).await.unwrap();
            sink.write_at(0, upload(&rt, b"abc").await).await.unwrap();
            (rt, source, file, sink)
        });
        drop(tokio);
        futures::executor::block_on(async {
            let gone = |error: warpio::Error| is(&error, ErrorKind::Gone, &["tokio runtime"]);
            gone(rt.open(&path).await.unwrap_err());
            gone(rt.create(scratch.path("other")).await.unwrap_err());
            gone(rt.open_options().write(true).open(&path).await.unwrap_err());
            gone(source.size().await.unwrap_err());
            gone(source.read_all().await.unwrap_err());
            gone(file.sync_data().await.unwrap_err());
            gone(file.set_len(0).await.unwrap_err());
            // The engines have threads of their own.
            let Moved { n, buffer } = source.read_at(0, rt.device().alloc(MIB).unwrap()).await.unwrap();
            assert!(n == MIB && host(&buffer.freeze()).await == pattern(MIB));
            gone(sink.finish().await.unwrap_err());
            gone(file.close().await.unwrap_err());
            rt.shutdown(LONG).await.unwrap();
        });
        assert_eq!(names(scratch.dir()), ["file"], "the unfinished file is gone");
    }
}

#[test]
fn a_sink_dropped_after_its_tokio_has_ended_leaves_nothing() {
    let scratch = Scratch::new();
    let tokio = current_thread();
    let (rt, sink) = tokio.block_on(async {
        let rt = on_host();
        let sink = rt.create(scratch.path("new")).await.unwrap();
        (rt, sink)
    });
    assert_eq!(names(scratch.dir()).len(), 1);
    drop(tokio);
    drop(sink);
    assert_eq!(names(scratch.dir()), [""; 0]);
    drop(rt);
}

#[test]
fn tokio_ending_in_mid_flight_loses_no_memory() {
    let scratch = Scratch::new();
    let path = scratch.file("file", MIB);
    let tokio = multi_thread();
    let (rt, gpu, source) = tokio.block_on(async {
        let (rt, gpu) = on_gpu();
        let source = rt.open(&path).await.unwrap();
        (rt, gpu, source)
    });
    gpu.hold();
    let read = Arc::new(std::sync::Mutex::new(None));
    let awaited = source.read_at(0, rt.device().alloc(MIB).unwrap());
    let task = {
        let (source, rt, read) = (source.clone(), rt.clone(), read.clone());
        async move {
            let moved = source.read_at(0, rt.device().alloc(MIB).unwrap()).await;
            *read.lock().unwrap() = Some(moved);
        }
    };
    tokio.spawn(task);
    tokio.shutdown_background();
    gpu.release();
    // One was dropped with its task, wherever that was; the other is still ours.
    assert_eq!(futures::executor::block_on(awaited).unwrap().n, MIB);
    futures::executor::block_on(rt.shutdown(LONG)).unwrap();
    drop((rt, source, read));
    gpu.wait_freed();
}
