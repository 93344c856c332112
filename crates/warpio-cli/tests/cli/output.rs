//! Where results go, and what happens when nobody takes them.

use std::fs::File;
use std::io::pipe;
use std::process::Stdio;

use crate::support::{DONE, FAILED, Run, Scratch, args, bytes, names, program};

#[test]
fn nobody_reading_is_no_failure_and_no_panic() {
    for arguments in [&["info"][..], &["info", "--json"], &["--help"], &["read", "/proc/version", "--checksum"]] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let mut command = program(arguments);
        let output = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!((output.status.code(), &output.stderr[..]), (Some(DONE), &b""[..]), "{arguments:?}");
    }
}

#[test]
fn a_copy_is_made_though_nobody_reads_about_it() {
    let scratch = Scratch::new();
    let (source, target) = (scratch.file("source", 1000), scratch.path("target"));
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let status = program(args!["cp", source, target]).stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(DONE));
    assert_eq!(std::fs::read(target).unwrap(), bytes(1000));
}

#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    let mut command = program(["info"]);
    command.stdout(File::options().write(true).open("/dev/full").unwrap()).stderr(Stdio::piped());
    let run = Run::from(command.spawn().unwrap().wait_with_output().unwrap()).expect(FAILED);
    assert!(run.stderr.starts_with("warpio: ") && run.stderr.contains("standard output"), "{run:#?}");
}

#[test]
fn an_error_that_nobody_can_read_is_still_told_by_the_code() {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let status = program(["read", "/no/such/file"]).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(FAILED));
}

#[test]
fn no_bar_and_no_colour_where_there_is_no_terminal() {
    let scratch = Scratch::new();
    let mut command = program(["bench", "seq", "--size", "8MiB"]);
    command.env("TMPDIR", scratch.dir()).env("CLICOLOR_FORCE", "1").env("TERM", "xterm-256color");
    let run = Run::of(command).expect(DONE);
    assert_eq!(run.stderr, "");
    assert!(!run.stdout.contains(['\x1b', '\r']), "{run:#?}");
    assert_eq!(names(scratch.dir()), [""; 0]);
}
