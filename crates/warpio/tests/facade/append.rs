//! Appends from many tasks at once, and a file whose length is changed under them.

use std::path::Path;

use tokio::task::JoinSet;
use warpio::core::testing::pattern;
use warpio::{AsyncDeviceWrite, DeviceBytesMut, ErrorKind, LocalFile, OpenMode, Runtime};

use crate::support::{KIB, MIB, Scratch, for_each_runtime, is, on_gpu, upload};

const RECORDS: usize = 100;

/// A record of a length of its own, all of one byte.
fn record(number: usize) -> Vec<u8> {
    let len = [1, 700, 4096, 5000, 300_000][number % 5] + number;
    vec![number as u8 + 1; len]
}

/// Every record is there, once and in one piece.
fn check(path: &Path, want: &[usize]) {
    let bytes = std::fs::read(path).unwrap();
    let pieces: Vec<_> = bytes.chunk_by(|a, b| a == b).collect();
    let mut found: Vec<_> = pieces.iter().map(|piece| usize::from(piece[0]) - 1).collect();
    for (piece, &number) in pieces.iter().zip(&found) {
        assert_eq!(piece.len(), record(number).len(), "record {number} is torn");
    }
    found.sort_unstable();
    assert_eq!(found, want);
}

async fn append(rt: &Runtime, path: &Path) -> LocalFile {
    rt.open_options().with_mode(OpenMode::Append).open(path).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_hundred_appends_by_tasks_do_not_overlap() {
    let scratch = Scratch::on_disk();
    let path = scratch.path("log");
    for_each_runtime(async |rt| {
        std::fs::write(&path, b"").unwrap();
        let file = std::sync::Arc::new(append(rt, &path).await);
        let mut tasks = JoinSet::new();
        for number in 0..RECORDS {
            let (file, data) = (file.clone(), upload(rt, &record(number)).await);
            tasks.spawn(async move { file.append(data).await.unwrap() });
        }
        tasks.join_all().await;
        check(&path, &(0..RECORDS).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn appends_through_several_handles_of_a_process_do_not_overlap_either() {
    let scratch = Scratch::on_disk();
    let path = scratch.path("log");
    for_each_runtime(async |rt| {
        std::fs::write(&path, record(99)).unwrap();
        let mut tasks = JoinSet::new();
        for number in 0..RECORDS - 1 {
            // By a link too, and by a descriptor of one's own.
            let file = match number % 3 {
                0 => append(rt, &path).await,
                1 => append(rt, &scratch.dir().join(".").join("log")).await,
                _ => {
                    let fd = std::fs::File::options().write(true).open(&path).unwrap().into();
                    rt.open_options().from_fd(fd).unwrap()
                }
            };
            let data = upload(rt, &record(number)).await;
            tasks.spawn(async move { file.append(data).await.unwrap() });
        }
        tasks.join_all().await;
        check(&path, &(0..RECORDS).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test]
async fn a_dropped_append_tears_no_other() {
    let scratch = Scratch::on_disk();
    let path = scratch.path("log");
    for_each_runtime(async |rt| {
        std::fs::write(&path, b"").unwrap();
        let file = append(rt, &path).await;
        let mut kept = Vec::new();
        for number in 0..RECORDS {
            let transfer = file.append(upload(rt, &record(number)).await);
            match number % 4 {
                0 => drop(transfer),
                _ => kept.push((number, transfer)),
            }
        }
        let mut want = Vec::new();
        for (number, transfer) in kept {
            transfer.await.unwrap();
            want.push(number);
        }
        file.close().await.unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let whole = |number: usize| {
            let record = record(number);
            bytes.chunk_by(|a, b| a == b).any(|piece| piece == record)
        };
        assert!(want.into_iter().all(whole), "what was awaited is there, in one piece");
    })
    .await;
}

#[tokio::test]
async fn a_refused_append_takes_no_room() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("log", 10);
    let (other, _control) = crate::support::gpu();
    for_each_runtime(async |rt| {
        if !rt.device().is_host_visible() {
            return;
        }
        let len = std::fs::metadata(&path).unwrap().len() as usize;
        let file = append(rt, &path).await;
        let failed = file.append(other.upload(&[7; 1000]).await.unwrap().freeze()).await.unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
        file.append(upload(rt, b"next").await).await.unwrap();
        assert!(std::fs::read(&path).unwrap()[len..] == *b"next", "it lies where the refused one would have");
    })
    .await;
}

#[tokio::test]
async fn a_file_that_is_cut_is_appended_to_where_it_ends() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("log", 1000);
    for_each_runtime(async |rt| {
        let file = append(rt, &path).await;
        file.append(upload(rt, &[1; 5000]).await).await.unwrap();
        file.set_len(10).await.unwrap();
        file.append(upload(rt, b"abc").await).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap().len(), 13);
        file.set_len(20).await.unwrap();
        file.append(upload(rt, b"def").await).await.unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!((&bytes[10..13], &bytes[13..20], &bytes[20..]), (&b"abc"[..], &[0; 7][..], &b"def"[..]));
        // Somebody else cuts it, too.
        std::fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        file.append(upload(rt, b"new").await).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    })
    .await;
}

#[tokio::test]
async fn a_file_that_is_cut_under_an_append_keeps_its_place() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("log", 1000);
    let (rt, gpu) = on_gpu();
    let file = append(&rt, &path).await;
    let data = upload(&rt, &pattern(MIB)).await;
    gpu.hold();
    let first = file.append(data);
    file.set_len(0).await.unwrap();
    // From host memory, so that it is written at once.
    let second = DeviceBytesMut::from(vec![0xEE; 10 * KIB]);
    file.append(second.freeze()).await.unwrap();
    gpu.release();
    first.await.unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 1000 + MIB + 10 * KIB);
    assert!(bytes[..1000] == [0; 1000] && bytes[1000..1000 + MIB] == pattern(MIB), "the first is whole");
    assert!(bytes[1000 + MIB..] == [0xEE; 10 * KIB], "and so is the second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn lengths_set_while_others_append_tear_nothing_that_comes_later() {
    let scratch = Scratch::on_disk();
    let path = scratch.path("log");
    for_each_runtime(async |rt| {
        std::fs::write(&path, b"").unwrap();
        let file = std::sync::Arc::new(append(rt, &path).await);
        let mut tasks = JoinSet::new();
        for number in 0..40 {
            let (file, data) = (file.clone(), upload(rt, &record(number)).await);
            tasks.spawn(async move { drop(file.append(data).await.unwrap()) });
            if number % 10 == 5 {
                let other = append(rt, &path).await;
                tasks.spawn(async move { other.set_len(0).await.unwrap() });
            }
        }
        tasks.join_all().await;
        file.set_len(0).await.unwrap();
        for number in 0..3 {
            file.append(upload(rt, &record(number)).await).await.unwrap();
        }
        check(&path, &[0, 1, 2]);
    })
    .await;
}

#[tokio::test]
async fn a_file_never_grows_past_what_an_offset_can_say() {
    let scratch = Scratch::on_disk();
    let path = scratch.path("log");
    let file = std::fs::File::create(&path).unwrap();
    let Some(len) = [i64::MAX as u64, (16 << 40) - 4096].into_iter().find(|&len| file.set_len(len).is_ok()) else {
        return;
    };
    for_each_runtime(async |rt| {
        let file = append(rt, &path).await;
        let failed = file.append(upload(rt, &[1; 5000]).await).await.unwrap_err();
        assert!(failed.buffer.is_some());
        match len {
            0x7fff_ffff_ffff_ffff => is(&failed.error, ErrorKind::InvalidInput, &["largest offset"]),
            _ => is(&failed.error, ErrorKind::StorageFull, &["log"]),
        }
    })
    .await;
}
