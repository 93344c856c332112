//! What is no file, what is not there, and calls that cannot be meant.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use warpio::core::testing::pattern;
use warpio::core::within;
use warpio::{
    AsyncDeviceRead, AsyncDeviceReadExt, AsyncDeviceWrite, AsyncDeviceWriteExt, Error, ErrorKind, Moved, OpenMode,
    Runtime,
};

use crate::support::{LONG, Scratch, for_each_runtime, gpu, is, names, upload};

const MODES: [OpenMode; 5] =
    [OpenMode::Read, OpenMode::Write, OpenMode::Append, OpenMode::ReadWrite, OpenMode::WriteRead];

/// The errors of every way to open `path`: for reading, in each mode, and as what is to be replaced.
async fn refusals(rt: &Runtime, path: &Path) -> Vec<Error> {
    let all = async {
        let mut errors = vec![rt.open(path).await.unwrap_err()];
        for mode in MODES {
            errors.push(rt.open_options().with_mode(mode).open(path).await.unwrap_err());
        }
        errors.push(rt.create(path).await.unwrap_err());
        errors.push(rt.open_options().mode(0o600).create_whole(path).await.unwrap_err());
        errors
    };
    within(LONG, all).await.expect("opening waits for somebody")
}

async fn refused(rt: &Runtime, path: &Path, word: &str) {
    for error in refusals(rt, path).await {
        is(&error, ErrorKind::InvalidInput, &[word, path.to_str().unwrap()]);
        assert!(!error.is_retryable(), "{error}");
    }
}

#[tokio::test]
async fn what_has_no_bytes_at_offsets_is_refused_and_left_alone() {
    let scratch = Scratch::new();
    let fifo = scratch.path("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let socket = scratch.path("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let dir = scratch.path("dir");
    std::fs::create_dir(&dir).unwrap();
    for_each_runtime(async |rt| {
        refused(rt, &dir, "is a directory").await;
        refused(rt, &fifo, "pipe").await;
        refused(rt, &socket, "socket").await;
        refused(rt, Path::new("/dev/null"), "character device").await;
    })
    .await;
    assert_eq!(names(scratch.dir()), ["dir", "fifo", "socket"]);
}

#[tokio::test]
async fn what_is_not_there_is_not_found_and_not_made() {
    let scratch = Scratch::new();
    let missing = scratch.path("missing");
    for_each_runtime(async |rt| {
        is(&rt.open(&missing).await.unwrap_err(), ErrorKind::NotFound, &["missing", "check the path"]);
        let error = rt.open_options().with_mode(OpenMode::ReadWrite).open(&missing).await.unwrap_err();
        is(&error, ErrorKind::NotFound, &["missing"]);
        for error in refusals(rt, &missing.join("below")).await {
            is(&error, ErrorKind::NotFound, &["below"]);
        }
    })
    .await;
    assert_eq!(names(scratch.dir()), [""; 0]);
}

#[tokio::test]
async fn paths_that_name_nothing_are_refused() {
    let scratch = Scratch::new();
    let (loops, file) = (scratch.path("loop"), scratch.file("file", 3));
    std::os::unix::fs::symlink(&loops, &loops).unwrap();
    let paths: [PathBuf; 6] = [
        "".into(),
        scratch.path("a\0b"),
        scratch.path(&"n".repeat(300)),
        loops,
        file.join("below"),
        scratch.path("file/"),
    ];
    for_each_runtime(async |rt| {
        for path in &paths {
            for error in refusals(rt, path).await {
                assert!(matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound), "{error}");
            }
        }
    })
    .await;
    assert_eq!(names(scratch.dir()), ["file", "loop"]);
}

#[tokio::test]
async fn odd_names_are_names() {
    let scratch = Scratch::new();
    for_each_runtime(async |rt| {
        for name in [&b"line\nbreak"[..], b"not \xff utf-8", b" ", b"s3:__x", b"100%"] {
            let path = scratch.dir().join(OsStr::from_bytes(name));
            let sink = rt.create(&path).await.unwrap();
            sink.write_at(0, upload(rt, b"abc").await).await.unwrap();
            sink.finish().await.unwrap();
            assert_eq!(rt.open(&path).await.unwrap().read_all().await.unwrap().len(), 3);
            std::fs::remove_file(path).unwrap();
        }
    })
    .await;
    assert_eq!(names(scratch.dir()), [""; 0]);
}

#[tokio::test]
async fn urls_of_stores_that_this_build_has_not_are_unsupported() {
    for_each_runtime(async |rt| {
        for url in ["s3x://me:secret@bucket/key?sig=hidden", "gopher://host/x"] {
            for error in [rt.open(url).await.unwrap_err(), rt.create(url).await.unwrap_err()] {
                is(&error, ErrorKind::Unsupported, &["://"]);
                let text = format!("{error} {error:?}");
                assert!(!text.contains("secret") && !text.contains("hidden"), "{text}");
            }
        }
        is(&rt.open("file://elsewhere/x").await.unwrap_err(), ErrorKind::InvalidInput, &["file:///"]);
    })
    .await;
}

#[tokio::test]
async fn an_empty_file_ends_at_once_whatever_reads_it() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("empty", 0);
    for_each_runtime(async |rt| {
        let source = rt.open(&path).await.unwrap();
        assert_eq!(source.size().await.unwrap(), 0);
        assert_eq!(source.read_all().await.unwrap().len(), 0);
        for len in [0, 1, 4096, 300_000] {
            let Moved { n, buffer } = source.read_at(0, rt.device().alloc(len).unwrap()).await.unwrap();
            assert_eq!((n, buffer.len()), (0, len));
        }
        let failed = source.read_exact_at(0, rt.device().alloc(1).unwrap()).await.unwrap_err();
        is(&failed.error, ErrorKind::UnexpectedEof, &["empty"]);
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(1));
        assert!(source.chunks(4096).start().try_next().await.unwrap().is_none());
        let error = source.chunks(4096).range(0..1).start().try_next().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    })
    .await;
}

#[tokio::test]
async fn nothing_to_read_or_write_is_done_at_once_wherever_it_is() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", 10_000);
    for_each_runtime(async |rt| {
        let file = rt.open_options().with_mode(OpenMode::ReadWrite).open(&path).await.unwrap();
        for offset in [0, 9_999, 10_000, 1 << 40, u64::MAX] {
            let Moved { n, buffer } = file.read_at(offset, rt.device().alloc(0).unwrap()).await.unwrap();
            assert_eq!((n, buffer.len()), (0, 0), "{offset}");
            assert_eq!(file.write_at(offset, upload(rt, b"").await).await.unwrap().len(), 0, "{offset}");
        }
        assert_eq!(file.append(upload(rt, b"").await).await.unwrap().len(), 0);
        let ranges = file.read_ranges(&[5..5, 7..9, 10_000..10_000], rt.device().alloc(2).unwrap()).await.unwrap();
        let counts: Vec<_> = ranges.results.into_iter().map(Result::unwrap).collect();
        assert_eq!(counts, [0, 2, 0]);
        file.close().await.unwrap();
    })
    .await;
    assert!(std::fs::read(&path).unwrap() == pattern(10_000), "nothing was written");
}

#[tokio::test]
async fn a_file_does_what_it_was_opened_for_and_nothing_else() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", 100);
    for_each_runtime(async |rt| {
        let reader = rt.open_options().read(true).open(&path).await.unwrap();
        for failed in [
            reader.write_at(0, upload(rt, b"no").await).await.unwrap_err(),
            reader.append(upload(rt, b"no").await).await.unwrap_err(),
        ] {
            is(&failed.error, ErrorKind::PermissionDenied, &["file", "open it with write"]);
            assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(2));
        }
        is(&reader.set_len(0).await.unwrap_err(), ErrorKind::PermissionDenied, &["write"]);
        let writer = rt.open_options().write(true).open(&path).await.unwrap();
        let failed = writer.read_at(0, rt.device().alloc(5).unwrap()).await.unwrap_err();
        is(&failed.error, ErrorKind::PermissionDenied, &["file", "open it with read"]);
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(5));
        is(&writer.set_len(u64::MAX).await.unwrap_err(), ErrorKind::InvalidInput, &["length"]);
    })
    .await;
    assert!(std::fs::read(&path).unwrap() == pattern(100), "nothing was written");
}

#[tokio::test]
async fn memory_of_a_foreign_device_is_refused_and_comes_back() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("file", 100);
    let (other, control) = gpu();
    for_each_runtime(async |rt| {
        if !rt.device().is_host_visible() {
            // All of these tests' GPUs are number 0 of their kind.
            return;
        }
        let file = rt.open_options().with_mode(OpenMode::ReadWrite).open(&path).await.unwrap();
        let failed = file.read_at(0, other.alloc(5).unwrap()).await.unwrap_err();
        is(&failed.error, ErrorKind::InvalidInput, &["fake"]);
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(5));
        let failed = file.write_all_at(0, other.upload(b"12345").await.unwrap()).await.unwrap_err();
        is(&failed.error, ErrorKind::InvalidInput, &["fake"]);
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(5));
    })
    .await;
    control.wait_freed();
}

#[tokio::test]
async fn options_that_contradict_each_other_are_refused_before_anything_happens() {
    let scratch = Scratch::new();
    let path = scratch.file("file", 9);
    for_each_runtime(async |rt| {
        for options in [
            rt.open_options(),
            rt.open_options().truncate(true).read(true),
            rt.open_options().append(true).write(true).truncate(true),
            rt.open_options().read(true).create(true),
        ] {
            is(&options.open(&path).await.unwrap_err(), ErrorKind::InvalidInput, &["file", "cannot be opened so"]);
        }
        let error = rt.open_options().write(true).create_new(true).open(&path).await.unwrap_err();
        is(&error, ErrorKind::AlreadyExists, &["another name"]);
    })
    .await;
    assert!(std::fs::read(&path).unwrap() == pattern(9));
}
