//! `warpio bench gather` and `warpio bench mmap`.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::gpu::on_software_gpu;
use crate::support::bench::{FIO_FIGURES, agrees, disk, fio_double, in_dir, path_bytes};
use crate::support::{DONE, FAILED, MIB, Run, Scratch, args, bytes, json, names, program, skipped, warpio};

#[test]
fn thousands_of_blocks_are_one_read_and_every_byte_is_verified() {
    let scratch = Scratch::new();
    let bench = in_dir(scratch.dir(), &["bench", "gather", "--size", "3MiB"]);
    agrees(&bench, 3 * MIB as u64, 768);
    assert_eq!((&bench["bench"], &bench["own_file"]), (&"gather".into(), &true.into()));
    assert_eq!((&bench["block"], &bench["batch"], &bench["depth"]), (&4096.into(), &16_384.into(), &1.into()));
    assert_eq!((&bench["cold"], &bench["direct"]), (&false.into(), &"auto".into()));
    // All of them are one read: there is but one latency.
    assert_eq!(bench["latency_us"]["p50"], bench["latency_us"]["max"]);
    let several = in_dir(scratch.dir(), &["bench", "gather", "--size", "3MiB", "--batch", "100", "--depth", "3"]);
    agrees(&several, 3 * MIB as u64, 768);
    assert_eq!((&several["batch"], &several["depth"]), (&100.into(), &3.into()));
    assert_eq!(names(scratch.dir()), [""; 0]);
}

#[test]
fn odd_blocks_batches_and_sizes_are_read_to_the_last_byte() {
    let scratch = Scratch::new();
    for (size, block, batch, ops) in [
        (1_000_003, "4096", "7", 245),
        (1_000_003, "64KiB", "4294967295", 16),
        (10, "1MiB", "1", 1),
        (999, "1", "1000", 999),
        (5 * MIB as u64, "2MiB", "3", 3),
    ] {
        let size_text = size.to_string();
        let arguments = ["bench", "gather", "--size", &size_text, "--block", block, "--batch", batch];
        agrees(&in_dir(scratch.dir(), &arguments), size, ops);
        let arguments = ["bench", "mmap", "--size", &size_text, "--block", block, "--depth", "5"];
        agrees(&in_dir(scratch.dir(), &arguments), size, ops);
    }
    for bench in ["gather", "mmap"] {
        let empty = in_dir(scratch.dir(), &["bench", bench, "--size", "0"]);
        assert_eq!((&empty["ops"], &empty["iops"], &empty["verified"]), (&0.into(), &0.0.into(), &true.into()));
    }
}

#[test]
fn a_map_is_read_through_its_pages() {
    let scratch = Scratch::new();
    let bench = in_dir(scratch.dir(), &["bench", "mmap", "--size", "20MiB"]);
    agrees(&bench, 20 * MIB as u64, 2);
    assert_eq!(path_bytes(&bench, "mmap"), 20 * MIB as u64, "{bench}");
    assert_eq!((&bench["bench"], &bench["batch"], &bench["depth"]), (&"mmap".into(), &1.into(), &8.into()));
    assert_eq!((&bench["block"], &bench["direct"]), (&(16 * MIB).into(), &"never".into()));
    assert_eq!(names(scratch.dir()), [""; 0]);
}

#[test]
fn cold_files_are_read_from_their_disk() {
    let dir = disk();
    let cold = |arguments: &[&str]| {
        let mut command = program(arguments);
        command.args(["--size", "2MiB", "--cold", "--device", "host", "--rounds", "2", "--json", "--dir"]);
        command.arg(dir.path());
        let run = Run::of(command);
        (!run.stderr.contains("stay in the page cache")).then(|| run.json())
    };
    let Some(gather) = cold(&["bench", "gather", "--batch", "100"]) else {
        return skipped("the build lies on a file system that is nothing but memory");
    };
    agrees(&gather, 2 * MIB as u64, 512);
    assert_eq!((path_bytes(&gather, "direct"), &gather["cold"]), (2 * MIB as u64, &true.into()), "{gather}");
    let map = cold(&["bench", "mmap", "--block", "64KiB"]).unwrap();
    agrees(&map, 2 * MIB as u64, 32);
    assert_eq!((path_bytes(&map, "mmap"), &map["cold"]), (2 * MIB as u64, &true.into()), "{map}");
}

#[test]
fn many_blocks_go_past_a_warm_cache_with_every_engine() {
    let dir = disk();
    for engine in ["io-uring", "tokio-uring", "posix", "auto"] {
        let bench = in_dir(dir.path(), &["bench", "gather", "--size", "1MiB", "--direct", "--engine", engine]);
        agrees(&bench, MIB as u64, 256);
        assert_eq!((path_bytes(&bench, "direct"), &bench["direct"]), (MIB as u64, &"always".into()), "{bench}");
        assert!(engine == "auto" || bench["engine"] == engine, "{bench}");
    }
}

#[test]
fn a_given_file_stays_and_text_tells_rate_latency_and_processor_time() {
    let scratch = Scratch::new();
    let file = scratch.file("given", MIB + 5);
    for (bench, more, parts) in [
        (
            "gather",
            "--batch=100",
            ["257 reads of 4096 bytes", "1 in flight", "latency of 100 in one read µs", "path page-cache"],
        ),
        ("mmap", "--block=64KiB", ["17 reads of 65536 bytes", "8 in flight", "latency µs", "path mmap"]),
    ] {
        let text = warpio(args!["bench", bench, file, more, "--rounds", "3", "--device", "host"]).expect(DONE);
        for part in parts.iter().chain(&["reads/s", "CPU-µs per read", "50 %", "99.9 %", "median of 3", "verified"]) {
            assert!(text.stdout.contains(part), "{part}: {text:#?}");
        }
        assert_eq!((text.stderr.as_str(), std::fs::read(&file).unwrap()), ("", bytes(MIB + 5)));
        let bench = json(args!["bench", bench, file, "--rounds", "1"]);
        assert_eq!((&bench["own_file"], &bench["file"]), (&false.into(), &file.to_str().unwrap().into()));
    }
    assert_eq!(names(scratch.dir()), ["given"]);
}

/// The benches in blocks of 10,000 bytes into host memory, and into that of the software GPU where there may be one;
/// with the path that their bytes take.
fn benches(more: &[&str]) -> Vec<(Command, &'static str)> {
    let mut commands = Vec::new();
    for (bench, path) in [
        (&["bench", "gather", "--batch", "50"][..], "page-cache"),
        (&["bench", "mmap"], "mmap"),
        (&["bench", "mmap", "--pin"], "mmap"),
    ] {
        let arguments = [bench, more, &["--block", "10000", "--device"]].concat();
        if !bench.contains(&"--pin") {
            commands.push((program([&arguments[..], &["host"]].concat()), path));
        }
        let on_gpu: Vec<_> = arguments.iter().chain(&["cuda:0"]).map(OsStr::new).collect();
        commands.extend(on_software_gpu(&on_gpu).map(|command| (command, path)));
    }
    commands
}

#[test]
fn host_memory_and_a_gpu_get_every_byte() {
    let scratch = Scratch::new();
    let file = scratch.file("given", 3 * MIB + 5);
    for (mut command, path) in benches(&[file.to_str().unwrap()]) {
        command.args(["--rounds", "2", "--json"]);
        let bench = Run::of(command).json();
        agrees(&bench, 3 * MIB as u64 + 5, 315);
        assert_eq!(path_bytes(&bench, path), 3 * MIB as u64 + 5, "{bench}");
    }
    let line = warpio(args!["bench", "mmap", file, "--pin", "--device", "host"]).error(FAILED);
    assert!(line.contains("pin") && line.contains("leave --pin out"), "{line}");
}

/// Runs a bench with the program called fio in `bin` after each round.
fn beside(mut command: Command, scratch: &Scratch, bin: &Path, rounds: &str) -> Run {
    command.args(["--compare", "fio", "--json", "--rounds", rounds]).env("PATH", bin).env("TMPDIR", scratch.dir());
    Run::of(command)
}

#[test]
fn bytes_that_are_not_the_files_are_no_result() {
    let scratch = Scratch::new();
    let write = "printf 'some other bytes' | dd of=\"$file\" bs=1 seek=54321 conv=notrunc 2>/dev/null";
    let (bin, _) = fio_double(&scratch, &format!("{write}; echo '{FIO_FIGURES}'"));
    let file = scratch.path("given");
    for (subject, said) in [
        (&[file.to_str().unwrap()][..], "what was read back from"),
        // A file of its own tells where its bytes belong.
        (&["--size", "1MiB"], "the byte at 54321, read back from"),
    ] {
        for rounds in ["2", "1"] {
            for (command, _) in benches(subject) {
                std::fs::write(&file, bytes(MIB)).unwrap();
                let run = beside(command, &scratch, &bin, rounds);
                if rounds == "1" {
                    // It was written to when all had been read.
                    assert_eq!(run.json()["verified"], true);
                } else {
                    let line = run.error(FAILED);
                    let found = line.contains(said) && line.contains("is not what the file holds");
                    // What is pinned notices already that the file has changed.
                    assert!(found || line.contains("changed while it was measured"), "{line}");
                }
            }
        }
    }
    assert_eq!(names(scratch.dir()), ["bin", "given", "log"]);
}

#[test]
fn a_file_that_is_cut_short_is_no_result() {
    let scratch = Scratch::new();
    let (bin, _) = fio_double(&scratch, &format!("truncate -s 100000 \"$file\"; echo '{FIO_FIGURES}'"));
    let file = scratch.path("given");
    for (command, _) in benches(&[file.to_str().unwrap()]) {
        std::fs::write(&file, bytes(MIB)).unwrap();
        let line = beside(command, &scratch, &bin, "2").error(FAILED);
        assert!(line.contains("became shorter") || line.contains("was cut short"), "{line}");
        assert!(line.contains(file.to_str().unwrap()), "{line}");
    }
}

/// What changes in its attributes alone may have got other pages as well, for all that is known.
#[test]
fn a_pinned_file_that_changes_is_no_result() {
    let scratch = Scratch::new();
    let (bin, _) = fio_double(&scratch, &format!("chmod 600 \"$file\"; echo '{FIO_FIGURES}'"));
    let file = scratch.file("given", MIB);
    let pinned = |(command, _): &(Command, _)| command.get_args().any(|argument| argument == "--pin");
    for (command, _) in benches(&[file.to_str().unwrap()]).into_iter().filter(pinned) {
        let line = beside(command, &scratch, &bin, "2").error(FAILED);
        assert!(line.contains("changed while it was measured") && line.contains("pinned"), "{line}");
    }
}

#[test]
fn what_cannot_be_measured_is_an_error_that_names_it() {
    let scratch = Scratch::new();
    let (fifo, missing) = (scratch.fifo("fifo"), scratch.path("missing"));
    for bench in ["gather", "mmap"] {
        for (path, what) in [
            (fifo.as_path(), "pipe"),
            (scratch.dir(), "directory"),
            ("/dev/null".as_ref(), "character"),
            (missing.as_path(), "no such file"),
            ("s3://bucket/key".as_ref(), "file of this machine"),
        ] {
            let line = warpio(args!["bench", bench, path]).error(FAILED);
            assert!(line.contains(what) && line.contains(path.to_str().unwrap()), "{line}");
        }
        let huge = scratch.sparse("huge", 1 << 26);
        let line = warpio(args!["bench", bench, huge, "--block", "1"]).error(FAILED);
        assert!(line.contains("--block"), "{line}");
        let line = warpio(args!["bench", bench, "--dir", missing]).error(FAILED);
        assert!(line.contains("--dir"), "{line}");
    }
    let line = warpio(["bench", "mmap", "/proc/version"]).error(FAILED);
    assert!(line.contains("/proc/version") && line.contains("cannot be mapped"), "{line}");
}
