//! Files that appear whole or not at all.

mod support;

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use support::{as_nobody, make_read_only, on_ramfs, on_tmpfs, pattern};
use tempfile::TempDir;
use warpio_local::atomic_file::{AtomicFile, CommitError};
use warpio_local::open::{OpenError, OpenOptions};
use warpio_local::sys::rw::write_at;

fn dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn written(path: &Path, bytes: &[u8]) -> AtomicFile {
    let file = AtomicFile::create(path).unwrap();
    write_at(file.as_fd(), bytes, 0).unwrap();
    file
}

#[test]
fn until_committed_readers_see_the_old_file() {
    let dir = dir();
    let path = dir.path().join("x");
    fs::write(&path, "old").unwrap();
    let file = written(&path, b"new");
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    let reader = fs::File::open(&path).unwrap();
    file.commit().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(io::read_to_string(reader).unwrap(), "old", "who has it open keeps what it opened");
    assert_eq!(names(dir.path()), ["x"]);
}

#[test]
fn the_temporary_file_lies_beside_and_tells_whose_it_is() {
    let dir = dir();
    let file = written(&dir.path().join("model.bin"), b"x");
    let temporary = file.temporary_path().unwrap();
    assert_eq!(temporary.parent(), Some(dir.path()));
    let name = temporary.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with(".model.bin.warpio-") && name.ends_with(".tmp"), "{name}");
    assert_eq!(names(dir.path()), [name]);
    assert_eq!(fs::read(&temporary).unwrap(), b"x");
    assert_eq!(file.target(), dir.path().join("model.bin"));
}

#[test]
fn dropped_without_a_commit_it_leaves_nothing() {
    let dir = dir();
    let path = dir.path().join("x");
    drop(written(&path, b"new"));
    assert_eq!(names(dir.path()), [""; 0]);
    fs::write(&path, "old").unwrap();
    drop(written(&path, b"new"));
    assert_eq!(names(dir.path()), ["x"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
}

#[test]
fn a_commit_that_must_not_replace_does_not() {
    let dir = dir();
    let path = dir.path().join("x");
    written(&path, b"first").commit_new().unwrap();
    let error = written(&path, b"second").commit_new().unwrap_err();
    assert!(matches!(error, CommitError::Exists { .. }), "{error}");
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&path).unwrap(), "first");
    assert_eq!(names(dir.path()), ["x"]);
}

#[test]
fn of_many_that_must_not_replace_one_wins() {
    let dir = dir();
    let path = dir.path().join("x");
    let files: Vec<_> = (0..8u8).map(|n| written(&path, &[n; 100])).collect();
    assert_eq!(names(dir.path()).len(), 8, "each has a name of its own");
    let won: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = files.into_iter().map(|file| scope.spawn(|| file.commit_new().is_ok())).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(won.iter().filter(|w| **w).count(), 1, "{won:?}");
    let winner = won.iter().position(|w| *w).unwrap() as u8;
    assert_eq!(fs::read(&path).unwrap(), [winner; 100]);
    assert_eq!(names(dir.path()), ["x"]);
}

#[test]
fn of_many_that_replace_a_whole_one_is_left() {
    let dir = dir();
    let path = dir.path().join("x");
    std::thread::scope(|scope| {
        for n in 0..8u8 {
            let path = &path;
            scope.spawn(move || written(path, &[n; 10_000]).commit().unwrap());
        }
    });
    let left = fs::read(&path).unwrap();
    assert_eq!(left.len(), 10_000);
    assert!(left.iter().all(|b| *b == left[0]), "no two are mixed");
    assert_eq!(names(dir.path()), ["x"]);
}

#[test]
fn links_lead_to_the_file_that_is_replaced() {
    let dir = dir();
    fs::create_dir(dir.path().join("real")).unwrap();
    fs::write(dir.path().join("real/x"), "old").unwrap();
    symlink("real/x", dir.path().join("one")).unwrap();
    symlink("one", dir.path().join("two")).unwrap();
    written(&dir.path().join("two"), b"new").commit().unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("real/x")).unwrap(), "new");
    assert!(dir.path().join("two").is_symlink() && dir.path().join("one").is_symlink());
    symlink("real/later", dir.path().join("dangling")).unwrap();
    written(&dir.path().join("dangling"), b"there").commit().unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("real/later")).unwrap(), "there");
    symlink("circle", dir.path().join("circle")).unwrap();
    let circle = AtomicFile::create(dir.path().join("circle")).unwrap_err();
    assert!(matches!(circle, OpenError::InvalidPath { .. }), "{circle:?}");
}

#[test]
fn permissions_come_from_the_file_that_is_replaced_or_from_the_options() {
    let dir = dir();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let (secret, new) = (dir.path().join("secret"), dir.path().join("new"));
    fs::write(&secret, "old").unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let file = written(&secret, b"new");
    assert_eq!(mode(&file.temporary_path().unwrap()), 0o600, "not open to others while it is written either");
    file.commit().unwrap();
    assert_eq!(mode(&secret), 0o600);
    let options = OpenOptions::new().mode(0o640);
    AtomicFile::with_options(&new, &options).unwrap().commit().unwrap();
    assert_eq!(mode(&new), 0o640);
}

#[test]
fn what_cannot_be_replaced_is_refused_before_anything_is_written() {
    let dir = dir();
    let create = |path: &Path| AtomicFile::create(path).unwrap_err();
    assert!(matches!(create(dir.path()), OpenError::IsDirectory { .. }));
    assert!(matches!(create(&dir.path().join("new/")), OpenError::IsDirectory { .. }));
    assert!(matches!(create(Path::new("")), OpenError::InvalidPath { .. }));
    assert!(matches!(create(Path::new("/dev/null")), OpenError::NotRegular { .. }));
    assert!(matches!(create(&dir.path().join("no/such")), OpenError::NotFound { .. }));
    fs::write(dir.path().join("file"), "x").unwrap();
    assert!(matches!(create(&dir.path().join("file/x")), OpenError::NotADirectory { .. }));
    assert_eq!(names(dir.path()), ["file"]);
}

#[test]
fn without_direct_io_nothing_is_left_of_the_attempt() {
    on_ramfs(|path| {
        let direct = OpenOptions::new().direct(true);
        let error = AtomicFile::with_options(path.join("x"), &direct).unwrap_err();
        assert!(matches!(error, OpenError::DirectUnsupported { .. }), "{error:?}");
        assert_eq!(names(path), [""; 0]);
    });
}

#[test]
fn others_directories_are_refused() {
    let dir = dir();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o555)).unwrap();
    let error = as_nobody(|| AtomicFile::create(dir.path().join("x"))).unwrap_err();
    assert!(matches!(error, OpenError::PermissionDenied { .. }), "{error:?}");
}

#[test]
fn a_path_without_a_directory_is_in_the_current_one() {
    // Not changed here: other tests run beside this one.
    let file = AtomicFile::create("warpio-atomic-file-test").unwrap();
    assert!(file.temporary_path().unwrap().exists());
    assert!(!Path::new("warpio-atomic-file-test").exists());
}

#[test]
fn a_disk_that_fills_up_leaves_the_old_file_and_no_other() {
    on_tmpfs("size=256k", |path| {
        let target = path.join("x");
        fs::write(&target, "old").unwrap();
        let file = AtomicFile::create(&target).unwrap();
        let bytes = pattern(1 << 20);
        let error = write_at(file.as_fd(), &bytes, 0).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::StorageFull);
        assert!(error.written > 0 && error.written < 256 << 10, "{}", error.written);
        let there = fs::read(file.temporary_path().unwrap()).unwrap();
        assert_eq!(there.len(), error.written, "exactly what is told is there");
        assert!(there == bytes[..error.written]);
        drop(file);
        assert_eq!(names(path), ["x"]);
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
        written(&target, &bytes[..100_000]).commit().unwrap();
    });
}

#[test]
fn a_full_disk_has_no_room_for_a_temporary_file() {
    on_tmpfs("size=1m,nr_inodes=2", |path| {
        fs::write(path.join("x"), "old").unwrap();
        let error = AtomicFile::create(path.join("x")).unwrap_err();
        assert!(matches!(error, OpenError::NoSpace { .. }), "{error:?}");
    });
}

#[test]
fn a_commit_that_fails_says_why_and_keeps_the_old_file() {
    let dir = dir();
    let path = dir.path().join("x");
    let file = written(&path, b"new");
    // What appears meanwhile can be something that a file does not replace.
    fs::create_dir(&path).unwrap();
    let error = file.commit().unwrap_err();
    assert!(matches!(error, CommitError::Publish { .. }), "{error:?}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    assert_eq!(names(dir.path()), ["x"]);
    assert!(path.is_dir());
}

#[test]
fn a_directory_that_moves_takes_the_file_with_it() {
    let dir = dir();
    let (before, after) = (dir.path().join("before"), dir.path().join("after"));
    fs::create_dir(&before).unwrap();
    let file = written(&before.join("x"), b"new");
    fs::rename(&before, &after).unwrap();
    file.commit().unwrap();
    assert_eq!(names(&after), ["x"]);
}

#[test]
fn a_file_system_made_read_only_before_it_begins_refuses() {
    on_tmpfs("size=1m", |path| {
        make_read_only(path);
        let error = AtomicFile::create(path.join("x")).unwrap_err();
        assert!(matches!(error, OpenError::ReadOnlyFilesystem { .. }), "{error:?}");
    });
}
