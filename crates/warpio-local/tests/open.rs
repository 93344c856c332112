//! Opening: what is opened, how, and what is refused.

mod support;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::FdFlags;
use rustix::process::{Resource, getrlimit};
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use support::{as_nobody, disk_dir, file_with, make_read_only, on_loop_device, on_tmpfs, skipped};
use tempfile::TempDir;
use warpio_local::open::{OpenError, OpenMode, OpenOptions};
use warpio_local::sys::rw::write_at;
use warpio_local::sys::statx::FileKind;

fn dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn flags(fd: &OwnedFd) -> OFlags {
    rustix::fs::fcntl_getfl(fd).unwrap()
}

fn content(fd: OwnedFd) -> String {
    let mut text = String::new();
    let mut file = File::from(fd);
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

/// Every way of opening that touches an existing file.
fn ways() -> [OpenOptions; 5] {
    [OpenMode::Read, OpenMode::Write, OpenMode::Append, OpenMode::ReadWrite, OpenMode::WriteRead].map(OpenOptions::from)
}

#[test]
fn each_mode_does_what_its_letters_say() {
    // Mode, access, whether it makes a file, what is left of the old content.
    let expected = [
        ("r", OFlags::RDONLY, false, "old"),
        ("w", OFlags::WRONLY, true, ""),
        ("a", OFlags::WRONLY, true, "old"),
        ("r+", OFlags::RDWR, false, "old"),
        ("w+", OFlags::RDWR, true, ""),
    ];
    for (letters, access, creates, left) in expected {
        let dir = dir();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        fs::write(&old, "old").unwrap();
        let options = letters.parse::<OpenMode>().unwrap().options();
        let fd = options.open(&old).unwrap();
        assert_eq!(flags(&fd) & OFlags::ACCMODE, access, "{letters}");
        assert_eq!(fs::read_to_string(&old).unwrap(), left, "{letters}");
        match options.open(&new) {
            Ok(_) => assert!(creates, "{letters}"),
            Err(e) => assert!(!creates && matches!(e, OpenError::NotFound { .. }), "{letters}: {e}"),
        }
        assert_eq!(new.exists(), creates, "{letters}");
    }
}

#[test]
fn descriptors_close_on_exec_and_wait_for_the_disk() {
    let dir = dir();
    let path = dir.path().join("x");
    fs::write(&path, "x").unwrap();
    for options in ways() {
        let fd = options.open(&path).unwrap();
        assert!(rustix::io::fcntl_getfd(&fd).unwrap().contains(FdFlags::CLOEXEC));
        assert!(!flags(&fd).intersects(OFlags::NONBLOCK | OFlags::APPEND), "{options:?}");
    }
}

#[test]
fn append_is_remembered_but_the_offset_still_counts() {
    let dir = dir();
    let path = dir.path().join("x");
    fs::write(&path, "old text").unwrap();
    let options = OpenOptions::new().append(true);
    assert!(options.is_append() && options.is_write());
    let fd = options.open(&path).unwrap();
    write_at(fd.as_fd(), b"new", 0).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new text");
}

#[test]
fn create_new_makes_a_file_and_only_a_new_one() {
    let dir = dir();
    let path = dir.path().join("x");
    let options = OpenOptions::new().read(true).write(true).create_new(true).truncate(true);
    let fd = options.open(&path).unwrap();
    write_at(fd.as_fd(), b"abc", 0).unwrap();
    assert_eq!(content(fd), "abc");
    assert!(matches!(options.open(&path), Err(OpenError::AlreadyExists { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "abc");
    symlink("nowhere", dir.path().join("link")).unwrap();
    assert!(matches!(options.open(dir.path().join("link")), Err(OpenError::AlreadyExists { .. })));
    assert!(!dir.path().join("nowhere").exists());
}

#[test]
fn a_new_file_has_the_permissions_asked_for() {
    let dir = dir();
    let path = dir.path().join("x");
    OpenOptions::new().write(true).create(true).mode(0o600).open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn links_are_followed_even_to_a_file_not_yet_there() {
    let dir = dir();
    symlink("target", dir.path().join("link")).unwrap();
    let link = dir.path().join("link");
    assert!(matches!(OpenOptions::new().read(true).open(&link), Err(OpenError::NotFound { .. })));
    OpenOptions::new().write(true).create(true).open(&link).unwrap();
    assert!(dir.path().join("target").is_file());
}

#[test]
fn a_directory_is_refused_however_it_is_opened() {
    let dir = dir();
    for options in ways() {
        assert!(matches!(options.open(dir.path()), Err(OpenError::IsDirectory { .. })), "{options:?}");
    }
    let with_slash = dir.path().join("new/");
    let create = OpenOptions::new().write(true).create(true);
    assert!(matches!(create.open(with_slash), Err(OpenError::IsDirectory { .. })));
}

#[test]
fn a_pipe_is_refused_without_waiting_for_its_other_end() {
    let dir = dir();
    let path = dir.path().join("pipe");
    rustix::fs::mkfifoat(CWD, &path, Mode::from_raw_mode(0o600)).unwrap();
    refused_as(&path, FileKind::Fifo, "FIFO");
}

#[test]
fn refusing_does_not_touch_what_is_refused() {
    let dir = dir();
    let path = dir.path().join("pipe");
    rustix::fs::mkfifoat(CWD, &path, Mode::from_raw_mode(0o600)).unwrap();
    let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    refused_as(&path, FileKind::Fifo, "FIFO");
    // A reader is told when a writer has come and gone.
    let mut poll = [PollFd::new(&reader, PollFlags::IN)];
    rustix::event::poll(&mut poll, Some(&Timespec::default())).unwrap();
    assert_eq!(poll[0].revents(), PollFlags::empty());
    drop(rustix::fs::open(&path, OFlags::WRONLY, Mode::empty()).unwrap());
    rustix::event::poll(&mut poll, Some(&Timespec::default())).unwrap();
    assert_eq!(poll[0].revents(), PollFlags::HUP, "or this test would see nothing");
}

#[test]
fn a_socket_is_refused() {
    let dir = dir();
    let path = dir.path().join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    refused_as(&path, FileKind::Socket, "socket");
}

#[test]
fn character_devices_are_refused() {
    for path in ["/dev/null", "/dev/zero", "/dev/full"] {
        refused_as(Path::new(path), FileKind::CharDevice, "character device");
    }
}

fn refused_as(path: &Path, kind: FileKind, word: &str) {
    for options in ways() {
        let error = options.open(path).unwrap_err();
        assert!(matches!(&error, OpenError::NotRegular { what, .. } if *what == kind), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(word) && text.contains(path.to_str().unwrap()), "{text}");
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidInput);
    }
}

#[test]
fn a_disk_is_opened() {
    let dir = disk_dir();
    let image = dir.path().join("disk");
    file_with(&image, b"hello").set_len(1 << 20).unwrap();
    on_loop_device(&image, |device| {
        let fd = OpenOptions::new().read(true).open(device).unwrap();
        assert!(content(fd).starts_with("hello\0"));
    });
}

#[test]
fn a_missing_directory_is_told_from_a_file_in_its_place() {
    let dir = dir();
    fs::write(dir.path().join("file"), "x").unwrap();
    let create = OpenOptions::new().write(true).create(true);
    let missing = create.open(dir.path().join("no/such")).unwrap_err();
    assert!(matches!(missing, OpenError::NotFound { .. }), "{missing}");
    let through_a_file = create.open(dir.path().join("file/x")).unwrap_err();
    assert!(matches!(through_a_file, OpenError::NotADirectory { .. }), "{through_a_file}");
}

#[test]
fn paths_that_name_nothing_are_refused() {
    let dir = dir();
    symlink("b", dir.path().join("a")).unwrap();
    symlink("a", dir.path().join("b")).unwrap();
    let read = OpenOptions::new().read(true);
    let reason = |path: &Path| match read.open(path) {
        Err(OpenError::InvalidPath { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    assert!(reason(&dir.path().join("a")).contains("circle"));
    assert!(reason(&dir.path().join("n".repeat(256))).contains("too long"));
    assert!(reason(Path::new("")).contains("empty"));
    assert!(reason(Path::new("a\0b")).contains("NUL"));
}

#[test]
fn options_that_contradict_each_other_are_refused_before_anything_happens() {
    let dir = dir();
    let path = dir.path().join("x");
    fs::write(&path, "old").unwrap();
    let new = OpenOptions::new;
    for options in [
        new(),
        new().create(true),
        new().read(true).create(true),
        new().read(true).create_new(true),
        new().read(true).truncate(true),
        new().append(true).truncate(true),
        new().write(true).append(true).truncate(true),
    ] {
        let error = options.open(&path).unwrap_err();
        assert!(matches!(error, OpenError::InvalidOptions { .. }), "{options:?}: {error}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
}

#[test]
fn others_files_are_refused() {
    let dir = dir();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let path = dir.path().join("x");
    fs::write(&path, "x").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
    for options in ways() {
        let error = as_nobody(|| options.open(&path)).unwrap_err();
        assert!(matches!(error, OpenError::PermissionDenied { .. }), "{error:?}");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
    fs::set_permissions(dir.path(), Permissions::from_mode(0o555)).unwrap();
    let new = as_nobody(|| OpenOptions::new().write(true).create(true).open(dir.path().join("new")));
    assert!(matches!(new, Err(OpenError::PermissionDenied { .. })), "{new:?}");
}

#[test]
fn a_read_only_file_system_is_told_from_a_lack_of_rights() {
    on_tmpfs("size=1m", |path| {
        let file = path.join("x");
        fs::write(&file, "x").unwrap();
        make_read_only(path);
        for options in ways() {
            match options.open(&file) {
                Ok(_) => assert!(!options.is_write()),
                Err(e) => assert!(matches!(e, OpenError::ReadOnlyFilesystem { .. }), "{e:?}"),
            }
        }
        let new = OpenOptions::new().write(true).create(true).open(path.join("new"));
        assert!(matches!(new, Err(OpenError::ReadOnlyFilesystem { .. })), "{new:?}");
    });
}

#[test]
fn a_file_system_without_room_for_a_name_says_so() {
    // The root directory and one file.
    on_tmpfs("size=1m,nr_inodes=2", |path| {
        let create = OpenOptions::new().write(true).create(true);
        create.open(path.join("first")).unwrap();
        let error = create.open(path.join("second")).unwrap_err();
        assert!(matches!(error, OpenError::NoSpace { .. }), "{error:?}");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    });
}

#[test]
fn a_running_program_is_not_opened_for_writing() {
    let program = std::env::current_exe().unwrap();
    assert!(OpenOptions::new().read(true).open(&program).is_ok());
    match OpenOptions::new().write(true).open(&program) {
        Err(OpenError::Busy { .. }) => {}
        Err(OpenError::PermissionDenied { .. }) => skipped("the test program belongs to another user"),
        Ok(_) => skipped("this kernel lets running programs be written, as 6.11 and 6.12 did"),
        Err(e) => panic!("{e:?}"),
    }
}

#[test]
fn direct_is_on_the_descriptor_or_an_error() {
    let dir = disk_dir();
    let path = dir.path().join("x");
    file_with(&path, b"x");
    match OpenOptions::new().read(true).direct(true).open(&path) {
        Ok(fd) => assert!(flags(&fd).contains(OFlags::DIRECT)),
        Err(OpenError::DirectUnsupported { .. }) => skipped("no direct I/O where the build lies"),
        Err(e) => panic!("{e}"),
    }
    let proc = OpenOptions::new().read(true).direct(true).open("/proc/version").unwrap_err();
    assert!(matches!(proc, OpenError::DirectUnsupported { .. }), "{proc:?}");
    assert_eq!(proc.kind(), io::ErrorKind::Unsupported);
}

/// In a process of its own, for the limit holds for all of a process.
#[test]
fn too_many_open_files_are_told_with_the_limit_to_raise() {
    const CHILD: &str = "WARPIO_TEST_TOO_MANY_FILES";
    if std::env::var_os(CHILD).is_none() {
        let name = "too_many_open_files_are_told_with_the_limit_to_raise";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", name]).env(CHILD, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let dir = dir();
    let path = dir.path().join("x");
    fs::write(&path, "x").unwrap();
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    rustix::process::setrlimit(Resource::Nofile, limit).unwrap();
    let mut open = Vec::new();
    let error = loop {
        match OpenOptions::new().read(true).open(&path) {
            Ok(fd) => open.push(fd),
            Err(e) => break e,
        }
    };
    drop(open);
    assert!(matches!(error, OpenError::TooManyOpenFiles { .. }), "{error:?}");
    assert!(error.to_string().contains("ulimit -n"), "{error}");
}
