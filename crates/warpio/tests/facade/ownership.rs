//! Files of others: the kernel tells their owner alone what of them is cached.

use std::os::unix::fs::PermissionsExt;

use warpio::core::testing::pattern;
use warpio::{AsyncDeviceRead, AsyncDeviceReadExt, ErrorKind, Moved, PathKind, Runtime};

use crate::support::child::{as_nobody, in_child, tell_dir, told_dir};
use crate::support::machine::hold_in_cache;
use crate::support::{MIB, Scratch, block_on, host, is, on_gpu};

const LEN: usize = 3 * MIB + 7;

/// Files that everybody may read, one that nobody may, and a directory that everybody may enter.
fn others_files() -> Scratch {
    let scratch = Scratch::on_disk();
    std::fs::set_permissions(scratch.dir(), PermissionsExt::from_mode(0o755)).unwrap();
    for name in ["warm", "cold", "half"] {
        let path = scratch.file(name, LEN);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        file.sync_all().unwrap();
        let start = [("warm", LEN), ("cold", 0), ("half", MIB)].into_iter().find(|known| known.0 == name).unwrap().1;
        warpio::local::page_cache::drop_range(&file, start as u64..LEN as u64).unwrap();
    }
    let secret = scratch.file("secret", 10);
    std::fs::set_permissions(secret, PermissionsExt::from_mode(0o600)).unwrap();
    scratch
}

/// Whether a child that is nobody can be where the build lies.
fn reachable(dir: &std::path::Path) -> bool {
    dir.ancestors().all(|dir| std::fs::metadata(dir).is_ok_and(|data| data.permissions().mode() & 0o001 != 0))
}

fn as_another(test: &str, body: impl FnOnce(&std::path::Path)) {
    if std::env::var_os("WARPIO_TEST_CHILD").is_none() {
        let scratch = others_files();
        let exe = std::env::current_exe().unwrap();
        if !rustix::process::geteuid().is_root() || !reachable(scratch.dir()) || !reachable(exe.parent().unwrap()) {
            return crate::support::machine::skipped("run as root, with a build that everybody can read");
        }
    }
    in_child(
        test,
        |command| {
            let scratch = others_files();
            let warm = hold_in_cache(&std::fs::File::open(scratch.path("warm")).unwrap());
            tell_dir(command, scratch.dir());
            as_nobody(command);
            (warm, scratch)
        },
        || {
            assert!(!rustix::process::geteuid().is_root());
            body(&told_dir());
        },
    );
}

/// Reads in small and large pieces, and whole; returns the bytes that went past the cache.
async fn read(rt: &Runtime, path: &std::path::Path) -> u64 {
    let want = pattern(LEN);
    let source = rt.open(path).await.unwrap();
    let transfer = source.read_at(0, rt.device().alloc(LEN + 5).unwrap());
    let report = transfer.report();
    let Moved { n, buffer } = transfer.await.unwrap();
    assert_eq!(n, LEN);
    assert!(host(&buffer.freeze()).await[..n] == want);
    let (direct, cached) = (report.bytes(PathKind::Direct), report.bytes(PathKind::PageCache));
    assert_eq!(direct + cached, LEN as u64);
    for (offset, len) in [(0, 1), (4095, 4098), (MIB - 5, 10), (2 * MIB + 1, 65_536), (LEN - 3, 3)] {
        let part = source.read_exact_at(offset as u64, rt.device().alloc(len).unwrap()).await.unwrap();
        assert!(host(&part.freeze()).await == want[offset..offset + len], "{len} at {offset}");
    }
    direct
}

#[test]
fn files_of_others_are_read_right_cached_or_not() {
    as_another("ownership::files_of_others_are_read_right_cached_or_not", |dir| {
        block_on(async {
            for (rt, _gpu) in [(crate::support::on_host(), None), on_gpu_runtime()] {
                assert_eq!(read(&rt, &dir.join("warm")).await, 0, "what is cached comes from the cache");
                read(&rt, &dir.join("cold")).await;
                read(&rt, &dir.join("half")).await;
            }
        });
    });
}

fn on_gpu_runtime() -> (Runtime, Option<warpio::core::testing::GpuControl>) {
    let (rt, gpu) = on_gpu();
    (rt, Some(gpu))
}

#[test]
fn what_one_may_not_do_is_told() {
    as_another("ownership::what_one_may_not_do_is_told", |dir| {
        block_on(async {
            let rt = crate::support::on_host();
            is(&rt.open(dir.join("secret")).await.unwrap_err(), ErrorKind::PermissionDenied, &["secret", "owner"]);
            let error = rt.open_options().write(true).open(dir.join("warm")).await.unwrap_err();
            is(&error, ErrorKind::PermissionDenied, &["warm", "owner"]);
            is(&rt.create(dir.join("new")).await.unwrap_err(), ErrorKind::PermissionDenied, &["new", "directory"]);
            is(&rt.create(dir.join("warm")).await.unwrap_err(), ErrorKind::PermissionDenied, &["warm"]);
        });
    });
}
