//! File systems that are full, or must not be written.

use std::path::Path;

use warpio::core::testing::pattern;
use warpio::{AsyncDeviceReadExt, AsyncDeviceWrite, ErrorKind, OpenMode, Runtime};

use crate::support::machine::{make_read_only, on_tmpfs};
use crate::support::{MIB, block_on, for_each_runtime, host, is, names, upload};

const ENOSPC: i32 = 28;

async fn writing_fails(rt: &Runtime, path: &Path) {
    let file = rt.open_options().with_mode(OpenMode::WriteRead).open(path).await.unwrap();
    file.write_at(0, upload(rt, &pattern(1000)).await).await.unwrap();
    for failed in [
        file.write_at(1000, upload(rt, &pattern(3 * MIB)).await).await.unwrap_err(),
        file.append(upload(rt, &pattern(3 * MIB)).await).await.unwrap_err(),
    ] {
        is(&failed.error, ErrorKind::StorageFull, &["file", "bytes were written", "No space"]);
        assert_eq!(failed.error.os_error(), Some(ENOSPC));
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(3 * MIB), "the buffer comes back");
    }
    file.set_len(1000).await.unwrap();
    assert!(host(&file.read_all().await.unwrap()).await == pattern(1000), "what was written before is there");
    let error = file.finish().await.unwrap_err();
    is(&error, ErrorKind::StorageFull, &["earlier write"]);
    assert_eq!(error.os_error(), Some(ENOSPC));
    file.close().await.unwrap();
}

#[test]
fn a_write_that_does_not_fit_fails_and_keeps_what_is_there() {
    on_tmpfs("size=1m", |dir| {
        block_on(for_each_runtime(async |rt| {
            writing_fails(rt, &dir.join("file")).await;
            std::fs::remove_file(dir.join("file")).unwrap();
        }));
    });
}

#[test]
fn a_file_that_does_not_fit_leaves_nothing() {
    on_tmpfs("size=1m", |dir| {
        block_on(for_each_runtime(async |rt| {
            let sink = rt.create(dir.join("new")).await.unwrap();
            let failed = sink.write_at(0, upload(rt, &pattern(3 * MIB)).await).await.unwrap_err();
            is(&failed.error, ErrorKind::StorageFull, &["new"]);
            assert!(!failed.error.to_string().contains("warpio-"), "the name that was asked for: {}", failed.error);
            // Smaller, it would fit; but what was to be written first is missing.
            sink.set_len(0).await.unwrap();
            sink.write_at(0, upload(rt, &pattern(10)).await).await.unwrap();
            is(&sink.finish().await.unwrap_err(), ErrorKind::StorageFull, &["new", "earlier write"]);
            assert_eq!(names(dir), [""; 0]);
        }));
    });
}

#[test]
fn a_file_that_does_not_fit_leaves_the_one_that_it_was_to_replace() {
    on_tmpfs("size=1m", |dir| {
        block_on(for_each_runtime(async |rt| {
            std::fs::write(dir.join("file"), b"kept").unwrap();
            let sink = rt.create(dir.join("file")).await.unwrap();
            // Nobody looks at it.
            drop(sink.append(upload(rt, &pattern(3 * MIB)).await));
            assert!(sink.finish().await.is_err());
            assert_eq!(names(dir), ["file"]);
            assert_eq!(std::fs::read(dir.join("file")).unwrap(), b"kept");
        }));
    });
}

#[test]
fn no_room_for_another_file_is_told() {
    on_tmpfs("size=1m,nr_inodes=1", |dir| {
        block_on(for_each_runtime(async |rt| {
            let error = rt.create(dir.join("file")).await.unwrap_err();
            is(&error, ErrorKind::StorageFull, &["file", "no room"]);
            let error = rt.open_options().with_mode(OpenMode::Write).open(dir.join("file")).await.unwrap_err();
            is(&error, ErrorKind::StorageFull, &["file", "no room"]);
        }));
    });
}

#[test]
fn after_room_was_made_the_same_file_can_be_written() {
    on_tmpfs("size=1m", |dir| {
        block_on(for_each_runtime(async |rt| {
            std::fs::write(dir.join("ballast"), pattern(MIB - 64 * 1024)).unwrap();
            let file = rt.open_options().with_mode(OpenMode::WriteRead).open(dir.join("file")).await.unwrap();
            let failed = file.write_at(0, upload(rt, &pattern(500_000)).await).await.unwrap_err();
            std::fs::remove_file(dir.join("ballast")).unwrap();
            file.write_at(0, failed.buffer.unwrap()).await.unwrap();
            assert!(std::fs::read(dir.join("file")).unwrap() == pattern(500_000));
            std::fs::remove_file(dir.join("file")).unwrap();
        }));
    });
}

#[test]
fn a_read_only_file_system_is_read_and_not_written() {
    on_tmpfs("size=1m", |dir| {
        std::fs::write(dir.join("file"), pattern(300_000)).unwrap();
        make_read_only(dir);
        block_on(for_each_runtime(async |rt| {
            for mode in ["w", "a", "r+", "w+"] {
                let mode: OpenMode = mode.parse().unwrap();
                let error = rt.open_options().with_mode(mode).open(dir.join("file")).await.unwrap_err();
                is(&error, ErrorKind::PermissionDenied, &["file", "read-only"]);
            }
            for name in ["file", "new"] {
                is(&rt.create(dir.join(name)).await.unwrap_err(), ErrorKind::PermissionDenied, &[name, "read-only"]);
            }
            let source = rt.open(dir.join("file")).await.unwrap();
            assert!(host(&source.read_all().await.unwrap()).await == pattern(300_000));
            assert_eq!(names(dir), ["file"]);
        }));
    });
}
