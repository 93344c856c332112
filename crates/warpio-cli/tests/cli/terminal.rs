//! On a terminal.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::{DONE, Scratch, args, program};

/// A terminal: the end that a person has, and the end that a program gets.
fn terminal() -> (OwnedFd, OwnedFd) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    tcsetwinsize(&person, Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&person, Vec::new()).unwrap();
    let program = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    (person, program)
}

/// What a person sees on the terminal, and what goes to standard output.
fn seen(mut command: Command) -> (String, String) {
    let (person, for_program) = terminal();
    command.env("TERM", "xterm").stderr(for_program).stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    // Its copy of the program's end would keep the terminal open.
    drop(command);
    let mut shown = Vec::new();
    // The end of a terminal that nobody has open any more is an error.
    let _ = File::from(person).read_to_end(&mut shown);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(DONE));
    (String::from_utf8_lossy(&shown).into_owned(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_bar_shows_what_is_done_and_goes_away() {
    let scratch = Scratch::new();
    let (source, target) = (scratch.sparse("source", 128 << 20), scratch.path("target"));
    let (shown, printed) = seen(program(args!["cp", source, target, "--verify"]));
    for part in ["copying", "verifying", "128.00 MiB", "\r"] {
        assert!(shown.contains(part), "{part}: {shown:?}");
    }
    // The last thing drawn is an empty line.
    assert!(shown.ends_with("\x1b[2K") || shown.trim_end_matches(['\r', ' ']).ends_with("\x1b[2K"), "{shown:?}");
    assert!(printed.contains("134217728 bytes") && !printed.contains('\r'), "{printed:?}");
}

#[test]
fn a_bench_shows_a_bar() {
    let scratch = Scratch::new();
    let mut command = program(["bench", "seq", "--size", "64MiB"]);
    command.env("TMPDIR", scratch.dir());
    let (shown, _) = seen(command);
    assert!(shown.contains("making a file") && shown.contains("reading"), "{shown:?}");
}

#[test]
fn json_shows_none() {
    let scratch = Scratch::new();
    let (source, target) = (scratch.sparse("source", 64 << 20), scratch.path("target"));
    let (shown, printed) = seen(program(args!["cp", source, target, "--json"]));
    assert_eq!(shown, "");
    assert_eq!(printed.lines().count(), 1);
}
