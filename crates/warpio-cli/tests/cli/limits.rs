//! Little memory and few descriptors.

use std::process::{Command, Stdio};

use crate::support::{DONE, FAILED, Run, Scratch, after_shell, args, names, program};

#[test]
fn a_file_that_does_not_fit_into_memory_is_an_error_that_names_the_way_out() {
    let scratch = Scratch::new();
    let huge = scratch.sparse("huge", 1 << 42);
    let line = Run::of(after_shell("ulimit -v 8000000", args!["read", huge])).error(FAILED);
    assert!(line.contains("memory") && line.contains("--length"), "{line}");
    let part = args!["read", huge, "--offset", "1TiB", "--length", "1MiB"];
    Run::of(after_shell("ulimit -v 8000000", part)).expect(DONE);
}

#[test]
fn a_length_that_no_machine_has_is_an_error() {
    let scratch = Scratch::new();
    let file = std::fs::File::create(scratch.path("huge")).unwrap();
    // As much as the file system takes: some allow all that an offset can name, ext4 16 TiB.
    let lens = [i64::MAX as u64, (16 << 40) - 4096];
    let len = lens.into_iter().find(|&len| file.set_len(len).is_ok()).unwrap();
    let line = Run::of(after_shell("ulimit -v 8000000", args!["read", scratch.path("huge")])).error(FAILED);
    assert!(line.contains("memory"), "{len} bytes: {line}");
}

#[test]
fn too_few_descriptors_are_an_error_that_names_the_limit() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 10);
    for limit in [4, 6, 8, 12, 16] {
        let line = Run::of(after_shell(&format!("ulimit -n {limit}"), args!["read", file])).error(FAILED);
        assert!(line.contains("ulimit -n"), "{limit}: {line}");
    }
    Run::of(after_shell("ulimit -n 32", args!["cp", file, scratch.path("copy"), "--verify"])).expect(DONE);
}

#[test]
fn a_copy_takes_no_more_memory_than_its_pieces() {
    const ALONE: &str = "MEASURED_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return measure_a_copy();
    }
    // To a program's peak the kernel counts what the process had that started it, and this one runs other tests.
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", "limits::a_copy_takes_no_more_memory_than_its_pieces", "--nocapture"]).env(ALONE, "1");
    let output = alone.output().unwrap();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:#?}");
}

#[expect(clippy::zombie_processes, reason = "it is waited for by wait4, which tells how much memory it took")]
fn measure_a_copy() {
    let scratch = Scratch::new();
    let (source, target) = (scratch.sparse("source", 384 << 20), scratch.path("target"));
    let mut command = program(args!["cp", source, target]);
    let child = command.stdout(Stdio::null()).spawn().unwrap();
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: valid places for both results; the child is ours and is waited for only here.
    let waited = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, usage.as_mut_ptr()) };
    assert_eq!((waited, status), (child.id() as i32, 0));
    // SAFETY: all zeros are a valid value, and wait4 has filled it in.
    let kib = unsafe { usage.assume_init() }.ru_maxrss;
    assert!(kib < 128 << 10, "{kib} KiB for a file of 384 MiB");
    assert_eq!(names(scratch.dir()), ["source", "target"]);
}
