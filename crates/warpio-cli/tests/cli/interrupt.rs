//! Signals.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{DONE, Run, Scratch, Watch, args, names, program, with_signals};

const INTERRUPTED: i32 = 130;

fn spawn(mut command: Command, ignored: bool) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    with_signals(command, ignored).spawn().unwrap()
}

/// Starts the program, sends it `signal` when it has begun to write into `dir`, and tells how it ended.
fn interrupted(command: Command, dir: &Path, signal: Signal) -> Run {
    let watch = Watch::on(dir);
    let child = spawn(command, false);
    watch.wait_for_writing();
    kill_process(Pid::from_child(&child), signal).unwrap();
    child.wait_with_output().unwrap().into()
}

#[test]
fn a_copy_that_is_interrupted_leaves_nothing() {
    let scratch = Scratch::new();
    let (source, to) = (scratch.sparse("source", 64 << 30), scratch.subdir("to"));
    let run = interrupted(program(args!["cp", source, to.join("target")]), &to, Signal::INT);
    let line = run.error(INTERRUPTED);
    assert!(line.contains("SIGINT"), "{line}");
    assert_eq!(names(&to), [""; 0]);
}

#[test]
fn a_copy_that_is_interrupted_leaves_what_was_there() {
    let scratch = Scratch::new();
    let (source, to) = (scratch.sparse("source", 64 << 30), scratch.subdir("to"));
    std::fs::write(to.join("target"), b"kept").unwrap();
    interrupted(program(args!["cp", source, to.join("target"), "--json"]), &to, Signal::INT).error(INTERRUPTED);
    assert_eq!(names(&to), ["target"]);
    assert_eq!(std::fs::read(to.join("target")).unwrap(), b"kept");
}

#[test]
fn a_bench_that_is_interrupted_removes_its_file() {
    let scratch = Scratch::new();
    let mut command = program(["bench", "seq", "--size", "8GiB"]);
    command.env("TMPDIR", scratch.dir());
    interrupted(command, scratch.dir(), Signal::INT).error(INTERRUPTED);
    assert_eq!(names(scratch.dir()), [""; 0]);
}

#[test]
fn being_asked_to_end_is_heard_too() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let scratch = Scratch::new();
        let (source, to) = (scratch.sparse("source", 64 << 30), scratch.subdir("to"));
        interrupted(program(args!["cp", source, to.join("target")]), &to, signal).error(code);
        assert_eq!(names(&to), [""; 0]);
    }
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let scratch = Scratch::new();
    let (source, to) = (scratch.sparse("source", 128 << 20), scratch.subdir("to"));
    let watch = Watch::on(&to);
    let child = spawn(program(args!["cp", source, to.join("target")]), true);
    watch.wait_for_writing();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        kill_process(Pid::from_child(&child), signal).unwrap();
    }
    Run::from(child.wait_with_output().unwrap()).expect(DONE);
    assert_eq!(std::fs::metadata(to.join("target")).unwrap().len(), 128 << 20);
}
