//! `warpio cp`.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::support::{DONE, FAILED, MIB, Run, Scratch, after_shell, args, bytes, crc32c, json, names, warpio};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_copy_is_the_same_and_alone() {
    let scratch = Scratch::new();
    let to = scratch.subdir("to");
    for len in [0, 1, 4096, 4 * MIB, 37 * MIB + 5] {
        let (source, target) = (scratch.file("source", len), to.join("target"));
        let copy = json(args!["cp", source, target]);
        assert!(fs::read(&target).unwrap() == bytes(len), "{len} bytes");
        assert_eq!(copy["bytes"], len);
        for paths in ["paths", "write_paths"] {
            let sum: u64 = copy[paths].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
            assert_eq!(sum, len as u64, "{paths}");
        }
        assert_eq!(copy["destination"], target.to_str().unwrap());
        assert_eq!(copy.get("verified"), None, "not asked for");
        assert_eq!(names(&to), ["target"]);
    }
}

#[test]
fn a_verified_copy_tells_its_checksum() {
    let scratch = Scratch::new();
    let (source, target) = (scratch.file("source", 9 * MIB + 1), scratch.path("target"));
    let copy = json(args!["cp", source, target, "--verify"]);
    assert_eq!((&copy["verified"], &copy["crc32c"]), (&true.into(), &crc32c(&bytes(9 * MIB + 1)).into()));
    let text = warpio(args!["cp", source, target, "--verify"]).expect(DONE).stdout;
    assert!(text.contains("verified") && text.contains(&crc32c(&bytes(9 * MIB + 1))), "{text}");
}

#[test]
fn a_directory_is_copied_into() {
    let scratch = Scratch::new();
    let (source, dir) = (scratch.file("source", 100), scratch.subdir("dir"));
    assert_eq!(json(args!["cp", source, dir])["destination"], dir.join("source").to_str().unwrap());
    assert_eq!(fs::read(dir.join("source")).unwrap(), bytes(100));
}

#[test]
fn a_file_of_the_same_name_is_replaced() {
    let scratch = Scratch::new();
    let (source, target) = (scratch.file("source", 100), scratch.file("target", 50_000));
    warpio(args!["cp", source, target]).expect(DONE);
    assert_eq!(fs::read(&target).unwrap(), bytes(100));
}

#[test]
fn a_link_is_followed_and_stays() {
    let scratch = Scratch::new();
    let (source, target, link) = (scratch.file("source", 100), scratch.file("target", 5), scratch.path("link"));
    symlink(&target, &link).unwrap();
    warpio(args!["cp", source, link]).expect(DONE);
    assert_eq!(fs::read(&target).unwrap(), bytes(100));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn a_new_file_has_the_permissions_of_its_source_less_the_umask() {
    let scratch = Scratch::new();
    let (source, target) = (scratch.file("source", 100), scratch.path("target"));
    for (of_source, umask, expected) in [(0o600, "000", 0o600), (0o755, "027", 0o750), (0o4777, "022", 0o755)] {
        fs::set_permissions(&source, Permissions::from_mode(of_source)).unwrap();
        Run::of(after_shell(&format!("umask {umask}"), args!["cp", source, target])).expect(DONE);
        assert_eq!(mode(&target), expected, "{of_source:o} less {umask}");
        fs::remove_file(&target).unwrap();
    }
}

#[test]
fn a_file_that_is_replaced_keeps_its_permissions() {
    let scratch = Scratch::new();
    let (source, target) = (scratch.file("source", 100), scratch.file("target", 5));
    fs::set_permissions(&source, Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(&target, Permissions::from_mode(0o640)).unwrap();
    Run::of(after_shell("umask 077", args!["cp", source, target])).expect(DONE);
    assert_eq!(mode(&target), 0o640);
}

#[test]
fn a_file_that_knows_no_size_is_copied_to_its_end() {
    let scratch = Scratch::new();
    let target = scratch.path("target");
    json(args!["cp", "/proc/version", target, "--verify"]);
    assert_eq!(fs::read(&target).unwrap(), fs::read("/proc/version").unwrap());
}

#[test]
fn file_urls_are_paths() {
    let scratch = Scratch::new();
    let (source, target) = (scratch.file("a b", 100), scratch.path("c d"));
    let url = |path: &Path| format!("file://{}", path.to_str().unwrap().replace(' ', "%20"));
    json([&"cp".to_owned(), &url(&source), &url(&target), &"--verify".to_owned()]);
    assert_eq!(fs::read(&target).unwrap(), bytes(100));
}

#[test]
fn a_file_is_not_copied_to_itself() {
    let scratch = Scratch::new();
    let (source, hard, soft) = (scratch.file("source", 100), scratch.path("hard"), scratch.path("soft"));
    fs::hard_link(&source, &hard).unwrap();
    symlink(&source, &soft).unwrap();
    for target in [source.as_path(), &hard, &soft, scratch.dir()] {
        let line = warpio(args!["cp", source, target]).error(FAILED);
        assert!(line.contains("same file"), "{line}");
    }
    assert_eq!(fs::read(&source).unwrap(), bytes(100));
    assert_eq!(fs::metadata(&source).unwrap().nlink(), 2);
}

#[test]
fn a_source_that_cannot_be_read_leaves_the_target_as_it_was() {
    let scratch = Scratch::new();
    let to = scratch.subdir("to");
    fs::write(to.join("target"), b"kept").unwrap();
    let fifo = scratch.fifo("fifo");
    for source in [scratch.path("missing").as_path(), scratch.dir(), &fifo, "/dev/null".as_ref()] {
        let line = warpio(args!["cp", source, to.join("target")]).error(FAILED);
        assert!(line.contains(source.to_str().unwrap()), "{line}");
    }
    assert_eq!(names(&to), ["target"]);
    assert_eq!(fs::read(to.join("target")).unwrap(), b"kept");
}

#[test]
fn a_target_that_cannot_be_a_file_is_refused() {
    let scratch = Scratch::new();
    let (source, fifo) = (scratch.file("source", 100), scratch.fifo("fifo"));
    fs::create_dir_all(scratch.path("dir/source")).unwrap();
    let before = names(scratch.dir());
    for target in [
        fifo.as_path(),
        "/dev/null".as_ref(),
        &scratch.path("no/such/dir"),
        &scratch.path("source/x"),
        &scratch.path("dir"),
    ] {
        let line = warpio(args!["cp", source, target]).error(FAILED);
        assert!(line.contains(target.to_str().unwrap()), "{line}");
    }
    assert_eq!(names(scratch.dir()), before);
    assert_eq!(names(&scratch.path("dir")), ["source"]);
}
