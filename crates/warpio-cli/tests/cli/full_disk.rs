//! Targets that are full or must not be written.

use crate::support::{FAILED, Run, Scratch, args, names, on_read_only_tmpfs, on_tmpfs, program, warpio};

#[test]
fn a_copy_that_does_not_fit_leaves_nothing() {
    let scratch = Scratch::new();
    let source = scratch.file("source", 9 << 20);
    on_tmpfs("size=5m", |dir| {
        let line = warpio(args!["cp", source, dir.join("target")]).error(FAILED);
        assert!(line.contains("target") && line.contains("No space left"), "{line}");
        assert!(line.contains("free some space"), "it says what to do: {line}");
        assert_eq!(names(dir), [""; 0]);
    });
}

#[test]
fn a_copy_that_does_not_fit_leaves_what_was_there() {
    let scratch = Scratch::new();
    let source = scratch.file("source", 9 << 20);
    on_tmpfs("size=5m", |dir| {
        std::fs::write(dir.join("target"), b"kept").unwrap();
        warpio(args!["cp", source, dir.join("target"), "--verify", "--json"]).error(FAILED);
        assert_eq!(names(dir), ["target"]);
        assert_eq!(std::fs::read(dir.join("target")).unwrap(), b"kept");
    });
}

#[test]
fn a_bench_whose_file_does_not_fit_leaves_nothing() {
    on_tmpfs("size=5m", |dir| {
        let mut command = program(["bench", "seq", "--size", "9MiB"]);
        command.env("TMPDIR", dir);
        let line = Run::of(command).error(FAILED);
        assert!(line.contains("--size") && line.contains("--dir"), "{line}");
        assert_eq!(names(dir), [""; 0]);
    });
}

#[test]
fn no_room_for_another_file_is_told() {
    let scratch = Scratch::new();
    let source = scratch.file("source", 10);
    on_tmpfs("size=1m,nr_inodes=1", |dir| {
        let line = warpio(args!["cp", source, dir.join("target")]).error(FAILED);
        assert!(line.contains("no room"), "{line}");
    });
}

#[test]
fn a_read_only_target_is_refused_and_a_read_only_source_read() {
    let scratch = Scratch::new();
    let source = scratch.file("source", 1000);
    let prepare = |dir: &std::path::Path| std::fs::write(dir.join("file"), b"kept").unwrap();
    on_read_only_tmpfs(prepare, |dir| {
        let line = warpio(args!["cp", source, dir.join("file")]).error(FAILED);
        assert!(line.contains("read-only"), "{line}");
        let line = warpio(args!["bench", "seq", "--dir", dir]).error(FAILED);
        assert!(line.contains("ead-only"), "{line}");
        warpio(args!["read", dir.join("file")]).expect(0);
        assert_eq!(std::fs::read(dir.join("file")).unwrap(), b"kept");
    });
}
