//! Files that become shorter or longer while they are read.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};

use warpio::core::testing::pattern;
use warpio::{AsyncDeviceRead, AsyncDeviceReadExt, ErrorKind, Moved, Source, Transfer, TransferReport};

use crate::support::{KIB, MIB, Scratch, TASK, for_each_runtime, host, on_gpu_in_order, until};

/// A read into a GPU that does nothing: its first two segments have been read and fill all staging memory, the others
/// are still to come.
async fn half_way(source: &Source, len: usize) -> (Transfer, TransferReport) {
    let transfer = source.read_at(0, source.device().alloc(len).unwrap());
    let report = transfer.report();
    let read = || report.paths().map(|(_, bytes)| bytes).sum::<u64>();
    until("two segments are read", || read() == 2 * TASK as u64).await;
    (transfer, report)
}

fn resize(path: &std::path::Path, len: usize) {
    File::options().write(true).open(path).unwrap().set_len(len as u64).unwrap();
}

#[tokio::test]
async fn a_file_that_is_cut_between_two_segments_ends_where_it_was_cut() {
    let scratch = Scratch::on_disk();
    for cut in [2 * TASK, 2 * TASK + 1, 300 * KIB, 3 * TASK] {
        let path = scratch.file("file", MIB);
        let (rt, gpu) = on_gpu_in_order();
        let source = rt.open(&path).await.unwrap();
        gpu.hold();
        let (transfer, _) = half_way(&source, MIB).await;
        resize(&path, cut);
        gpu.release();
        let Moved { n, buffer } = transfer.await.unwrap();
        assert_eq!((n, buffer.len()), (cut, MIB));
        assert!(host(&buffer.freeze()).await[..n] == pattern(MIB)[..n], "{cut}");
    }
}

#[tokio::test]
async fn a_file_that_is_cut_into_what_was_read_already_has_no_gap() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", MIB);
    let (rt, gpu) = on_gpu_in_order();
    let source = rt.open(&path).await.unwrap();
    gpu.hold();
    let (transfer, _) = half_way(&source, MIB).await;
    resize(&path, 1000);
    gpu.release();
    let Moved { n, buffer } = transfer.await.unwrap();
    assert_eq!(n, 2 * TASK, "what was there when it was read");
    assert!(host(&buffer.freeze()).await[..n] == pattern(MIB)[..n]);
}

#[tokio::test]
async fn a_whole_file_that_is_cut_is_an_error_and_not_a_part() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", MIB);
    let (rt, gpu) = on_gpu_in_order();
    let source = rt.open(&path).await.unwrap();
    gpu.hold();
    let reading = tokio::spawn({
        let source = source.clone();
        async move { source.read_all().await }
    });
    let read = || rt.stats().staging;
    until("all staging memory is in use", || read().allocated == 2 * TASK && read().free == 0).await;
    resize(&path, 300 * KIB);
    gpu.release();
    let error = reading.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
    let failed = source.read_exact_at(0, rt.device().alloc(MIB).unwrap()).await.unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::UnexpectedEof);
    // What is there can be read as ever.
    assert!(host(&source.read_all().await.unwrap()).await == pattern(MIB)[..300 * KIB]);
}

#[tokio::test]
async fn a_file_that_grows_between_two_segments_has_what_was_there_in_time() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", 300 * KIB);
    let (rt, gpu) = on_gpu_in_order();
    let source = rt.open(&path).await.unwrap();
    gpu.hold();
    let (transfer, _) = half_way(&source, MIB).await;
    std::fs::write(&path, pattern(500 * KIB)).unwrap();
    gpu.release();
    let Moved { n, buffer } = transfer.await.unwrap();
    assert_eq!(n, 500 * KIB);
    assert!(host(&buffer.freeze()).await[..n] == pattern(MIB)[..n]);
    assert_eq!(source.size().await.unwrap(), 500 * KIB as u64, "the size is that of now");
}

#[tokio::test]
async fn chunks_go_on_to_the_end_that_a_file_has_when_they_get_there() {
    let scratch = Scratch::on_disk();
    for_each_runtime(async |rt| {
        let path = scratch.file("file", 300 * KIB);
        let mut chunks = rt.open(&path).await.unwrap().into_chunks(100 * KIB).depth(1).start();
        let first = chunks.try_next().await.unwrap().unwrap();
        resize(&path, 250 * KIB);
        drop(first);
        assert_eq!(chunks.try_next().await.unwrap().unwrap().len(), 100 * KIB);
        assert_eq!(chunks.try_next().await.unwrap().unwrap().len(), 50 * KIB);
        assert!(chunks.try_next().await.unwrap().is_none());
    })
    .await;
}

/// Whatever the moment: a prefix of what was there, and never a byte that was not.
/// Lets a thread that changes a file end.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_change_all_the_time_give_prefixes() {
    let scratch = Scratch::on_disk();
    let content = pattern(MIB);
    for_each_runtime(async |rt| {
        let path = scratch.file("file", MIB);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = File::options().write(true).open(&path).unwrap();
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    // Whole pages: the kernel zeroes the rest of a page that is cut, also under a reader.
                    let len = [200 * KIB, 4 * KIB, 700 * KIB][n % 3];
                    file.set_len(len as u64).unwrap();
                    std::os::unix::fs::FileExt::write_all_at(&file, &content[len..], len as u64).unwrap();
                    n += 1;
                }
            });
            // However this ends: else nobody would learn why.
            let _stopped = StopAtEnd(&stop);
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(async {
                    let source = rt.open(&path).await.unwrap();
                    for _ in 0..20 {
                        let Moved { n, buffer } = source.read_at(0, rt.device().alloc(MIB).unwrap()).await.unwrap();
                        assert!(n >= 4 * KIB, "{n}");
                        let bytes = host(&buffer.freeze()).await;
                        // What is cut off and written again has no storage for a moment, which a read past the cache sees
                        // as zeros: the kernel keeps the two ways apart only where nobody changes the file.
                        let mut pairs = bytes[..n].iter().zip(&content);
                        let wrong = pairs.position(|(found, wanted)| found != wanted && *found != 0);
                        assert_eq!(wrong, None, "of {n} bytes");
                        match source.read_all().await {
                            Ok(all) => assert!(all.len() <= MIB),
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Changed, "{error}"),
                        }
                    }
                });
            });
        });
    })
    .await;
}
