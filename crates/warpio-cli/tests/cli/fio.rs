//! `warpio bench --compare fio`, with a fio that says what it is told to, and with the real one.

use std::path::Path;

use crate::support::bench::{FIO_FIGURES, fio_double};
use crate::support::{FAILED, MIB, Run, Scratch, args, names, program, skipped};

fn compared(path: &Path, dir: &Path, more: &[&str]) -> Run {
    compared_as("rand", path, dir, more)
}

fn compared_as(bench: &str, path: &Path, dir: &Path, more: &[&str]) -> Run {
    let mut command = program(args!["bench", bench, "--size", "1MiB", "--compare", "fio", "--dir", dir]);
    command.args(more).env("PATH", path);
    Run::of(command)
}

#[test]
fn its_rounds_come_in_turn_and_its_median_is_reported() {
    let scratch = Scratch::new();
    let (bin, log) = fio_double(&scratch, &format!("echo '{FIO_FIGURES}'"));
    let files = scratch.subdir("files");
    let bench = compared(&bin, &files, &["--rounds", "3", "--json"]).json();
    let fio = &bench["fio"];
    assert_eq!((&fio["program"], &fio["iops"]), (&"fio-9".into(), &64_000.0.into()));
    assert_eq!((&fio["cpu_us_per_op"], &fio["latency_us"]["p99"]), (&15.625.into(), &70.0.into()));
    assert_eq!(fio["rounds"], serde_json::json!([0.004, 0.004, 0.004]));
    let share = fio["warpio_has"].as_f64().unwrap();
    let wanted = bench["iops"].as_f64().unwrap() / 64_000.0;
    assert!((share / wanted - 1.0).abs() < 1e-6, "{bench}");
    let calls = std::fs::read_to_string(log).unwrap();
    assert_eq!(calls.lines().count(), 4, "one for the version, one for each round that counts: {calls}");
    let last = calls.lines().last().unwrap();
    assert!(last.contains("--rw=randread --bs=4096 --iodepth=64") && last.contains("--readonly"), "{last}");
    assert!(last.contains(&*bench["file"].as_str().unwrap().replace('\\', "\\\\")), "{last}");
    assert_eq!(names(&files), [""; 0]);
}

#[test]
fn it_has_as_many_blocks_in_flight_as_many_reads_of_many_blocks_have() {
    for (bench, more, called, depth) in [
        ("gather", &["--batch", "16", "--depth", "2"][..], "--rw=randread --bs=4096 --iodepth=32", 32),
        ("gather", &[], "--rw=randread --bs=4096 --iodepth=256", 256),
        ("mmap", &["--block", "64KiB"], "--rw=read --bs=65536 --iodepth=8", 8),
    ] {
        let scratch = Scratch::new();
        let (bin, log) = fio_double(&scratch, &format!("echo '{FIO_FIGURES}'"));
        let more = [&["--rounds", "1", "--json"], more].concat();
        let bench = compared_as(bench, &bin, &scratch.subdir("files"), &more).json();
        assert_eq!(bench["fio"]["depth"], depth, "{bench}");
        let calls = std::fs::read_to_string(log).unwrap();
        assert!(calls.contains(called), "{calls}");
    }
}

#[test]
fn text_tells_the_share() {
    let scratch = Scratch::new();
    let (bin, _) = fio_double(&scratch, &format!("echo '{FIO_FIGURES}'"));
    let text = compared(&bin, &scratch.subdir("files"), &["--rounds", "1"]).expect(0).stdout;
    assert!(text.contains("fio-9") && text.contains("64000 reads/s") && text.contains("of its rate"), "{text}");
}

#[test]
fn without_fio_nothing_is_measured() {
    let scratch = Scratch::new();
    let line = compared(scratch.dir(), scratch.dir(), &[]).error(FAILED);
    assert!(line.contains("not installed") && line.contains("--compare"), "{line}");
    assert_eq!(names(scratch.dir()), [""; 0]);
}

#[test]
fn what_fio_complains_about_is_passed_on() {
    let scratch = Scratch::new();
    let (bin, _) = fio_double(&scratch, "echo 'fio: pid=1, err=22/file:x, error=Invalid argument' >&2; exit 1");
    let line = compared(&bin, &scratch.subdir("files"), &[]).error(FAILED);
    assert!(line.contains("Invalid argument") && line.contains("--compare"), "{line}");
    let scratch = Scratch::new();
    let (bin, _) = fio_double(&scratch, "echo what");
    let line = compared(&bin, &scratch.subdir("files"), &[]).error(FAILED);
    assert!(line.contains("fio"), "{line}");
}

#[test]
fn the_real_one_reads_the_same_file() {
    let found = std::process::Command::new("fio").arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        return skipped("fio is not installed");
    }
    // Its engines are not in every build, nor allowed in every container.
    let scratch = Scratch::new();
    let path = std::env::var_os("PATH").unwrap();
    for more in [&["--rounds", "1", "--json"][..], &["--rounds", "1", "--json", "--engine", "posix"]] {
        let run = compared(Path::new(&path), scratch.dir(), more);
        if run.stderr.contains("engine") || run.stderr.contains("io_uring") {
            return skipped(&format!("fio cannot run here: {}", run.stderr));
        }
        let bench = run.json();
        assert_eq!((&bench["fio"]["bytes"], &bench["verified"]), (&MIB.into(), &true.into()));
        assert!(bench["fio"]["latency_us"]["p50"].as_f64().unwrap() > 0.0, "{bench}");
    }
}
