//! The ways to open a file, KvikIO's letters among them, and descriptors that were opened by others.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags};
use warpio::core::testing::pattern;
use warpio::{AsyncDeviceRead, AsyncDeviceReadExt, AsyncDeviceWrite, ErrorKind, OpenMode};

use crate::support::{Scratch, for_each_runtime, host, is, upload};

#[tokio::test]
async fn letters_mean_what_they_mean_to_kvikio() {
    let scratch = Scratch::on_disk();
    let path = scratch.path("file");
    for_each_runtime(async |rt| {
        // What is there before, whether it may be read and written, and what is left of it at the start.
        for (letters, there, reads, writes, kept) in [
            ("r", true, true, false, 5),
            ("w", true, false, true, 0),
            ("w", false, false, true, 0),
            ("a", true, false, true, 5),
            ("a", false, false, true, 0),
            ("r+", true, true, true, 5),
            ("w+", true, true, true, 0),
            ("w+", false, true, true, 0),
        ] {
            let _ = std::fs::remove_file(&path);
            if there {
                std::fs::write(&path, b"there").unwrap();
            }
            let mode: OpenMode = letters.parse().unwrap();
            let file = rt.open_options().with_mode(mode).open(&path).await.unwrap();
            let does = file.describe().capabilities;
            assert_eq!((does.read, does.write_at, does.append, does.set_len), (reads, writes, writes, writes));
            assert_eq!(file.size().await.unwrap(), kept, "{letters}");
            let read = file.read_at(0, rt.device().alloc(9).unwrap()).await;
            assert_eq!(read.map(|moved| moved.n as u64).ok(), reads.then_some(kept), "{letters}");
            let written = file.append(upload(rt, b"more").await).await;
            assert_eq!(written.is_ok(), writes, "{letters}");
            file.close().await.unwrap();
            let want = [&b"there"[..kept as usize], if writes { b"more" } else { b"" }].concat();
            assert_eq!(std::fs::read(&path).unwrap(), want, "{letters}");
        }
        for letters in ["r", "r+"] {
            std::fs::remove_file(&path).ok();
            let options = rt.open_options().with_mode(letters.parse().unwrap());
            assert_eq!(options.open(&path).await.unwrap_err().kind(), ErrorKind::NotFound, "{letters}");
        }
    })
    .await;
}

fn open(path: &std::path::Path, flags: OFlags) -> OwnedFd {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

#[tokio::test]
async fn descriptors_that_are_no_use_are_refused() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", 100);
    let refused = |rt: &warpio::Runtime, fd: OwnedFd, word: &str| {
        is(&rt.open_options().from_fd(fd).unwrap_err(), ErrorKind::InvalidInput, &[word]);
    };
    for_each_runtime(async |rt| {
        refused(rt, open(&path, OFlags::WRONLY | OFlags::APPEND), "O_APPEND");
        refused(rt, open(&path, OFlags::RDWR | OFlags::APPEND), "O_APPEND");
        refused(rt, open(scratch.dir(), OFlags::RDONLY), "directory");
        refused(rt, open(&path, OFlags::PATH), "O_PATH");
        refused(rt, std::io::pipe().unwrap().0.into(), "pipe");
        refused(rt, File::open("/dev/null").unwrap().into(), "character device");
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        refused(rt, socket.into(), "socket");
    })
    .await;
    assert!(std::fs::read(&path).unwrap() == pattern(100));
}

#[tokio::test]
async fn a_descriptor_is_used_as_it_was_opened() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", 300_000);
    for_each_runtime(async |rt| {
        let reader = rt.open_options().from_fd(open(&path, OFlags::RDONLY)).unwrap();
        assert!(reader.name().ends_with("file"), "{}", reader.name());
        assert!(host(&reader.read_all().await.unwrap()).await == pattern(300_000));
        let failed = reader.write_at(0, upload(rt, b"no").await).await.unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::PermissionDenied);
        let writer = rt.open_options().from_fd(open(&path, OFlags::WRONLY)).unwrap();
        writer.write_at(0, upload(rt, &pattern(5000)).await).await.unwrap();
        let failed = writer.read_at(0, rt.device().alloc(1).unwrap()).await.unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::PermissionDenied);
    })
    .await;
    assert!(std::fs::read(&path).unwrap() == pattern(300_000));
}

#[tokio::test]
async fn a_descriptor_that_goes_past_the_page_cache_or_does_not_wait_reads_any_range() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", 300_001);
    for_each_runtime(async |rt| {
        for flags in [OFlags::DIRECT, OFlags::NONBLOCK, OFlags::DIRECT | OFlags::NONBLOCK, OFlags::SYNC] {
            let fd = open(&path, OFlags::RDWR | flags);
            let kept = rustix::fs::fcntl_getfl(&fd).unwrap();
            let other = fd.try_clone().unwrap();
            let file = rt.open_options().from_fd(fd).unwrap();
            assert!(host(&file.read_all().await.unwrap()).await == pattern(300_001), "{flags:?}");
            let part = file.read_exact_at(7, rt.device().alloc(99).unwrap()).await.unwrap();
            assert!(host(&part.freeze()).await == pattern(300_001)[7..106], "{flags:?}");
            file.write_at(299_990, upload(rt, &pattern(300_001)[299_990..]).await).await.unwrap();
            file.write_at(3, upload(rt, &pattern(300_001)[3..200_000]).await).await.unwrap();
            file.finish().await.unwrap();
            assert!(std::fs::read(&path).unwrap() == pattern(300_001), "{flags:?}");
            let now = rustix::fs::fcntl_getfl(other.as_fd()).unwrap();
            assert_eq!(now, kept, "the flags belong to whoever opened it");
        }
    })
    .await;
}

#[tokio::test]
async fn files_without_a_name_are_files() {
    for_each_runtime(async |rt| {
        let memory = rustix::fs::memfd_create("in-memory", MemfdFlags::CLOEXEC).unwrap();
        let mut deleted = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        deleted.write_all(b"old").unwrap();
        for fd in [memory, deleted.into()] {
            let file = rt.open_options().from_fd(fd).unwrap();
            file.set_len(0).await.unwrap();
            file.write_at(0, upload(rt, &pattern(300_000)).await).await.unwrap();
            file.append(upload(rt, b"end").await).await.unwrap();
            let bytes = host(&file.read_all().await.unwrap()).await;
            assert!(bytes[..300_000] == pattern(300_000) && bytes[300_000..] == *b"end", "{}", file.name());
            file.sync_all().await.unwrap();
            file.close().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_sealed_file_is_not_written() {
    for_each_runtime(async |rt| {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut sealed = File::from(rustix::fs::memfd_create("sealed", flags).unwrap());
        sealed.write_all(&pattern(1000)).unwrap();
        rustix::fs::fcntl_add_seals(&sealed, rustix::fs::SealFlags::WRITE).unwrap();
        let file = rt.open_options().from_fd(sealed.into()).unwrap();
        let failed = file.write_at(0, upload(rt, b"no").await).await.unwrap_err();
        is(&failed.error, ErrorKind::PermissionDenied, &["sealed"]);
        assert!(host(&file.read_all().await.unwrap()).await == pattern(1000));
    })
    .await;
}
