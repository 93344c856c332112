//! `warpio bench rand`, and the options that both benches share.

use crate::support::bench::{agrees, disk, in_dir, path_bytes};
use crate::support::{DONE, FAILED, MIB, Run, Scratch, args, bytes, json, names, on_tmpfs, program, skipped, warpio};

#[test]
fn every_block_is_read_once_and_verified() {
    let scratch = Scratch::new();
    let bench = in_dir(scratch.dir(), &["bench", "rand", "--size", "3MiB"]);
    agrees(&bench, 3 * MIB as u64, 768);
    assert_eq!((&bench["bench"], &bench["block"], &bench["depth"]), (&"rand".into(), &4096.into(), &64.into()));
    assert_eq!(names(scratch.dir()), [""; 0]);
}

#[test]
fn odd_blocks_and_sizes_are_read_to_the_last_byte() {
    let scratch = Scratch::new();
    for (size, block, depth, ops) in [("1000003", "4096", "7", 245), ("10", "1MiB", "4096", 1), ("999", "1", "3", 999)]
    {
        let bench = in_dir(scratch.dir(), &["bench", "rand", "--size", size, "--block", block, "--depth", depth]);
        assert_eq!((&bench["ops"], &bench["verified"]), (&ops.into(), &true.into()));
        assert_eq!(bench["bytes"].to_string(), size);
    }
    let empty = in_dir(scratch.dir(), &["bench", "rand", "--size", "0"]);
    assert_eq!((&empty["ops"], &empty["iops"]), (&0.into(), &0.0.into()));
}

#[test]
fn a_sequential_bench_reads_in_blocks_when_it_is_told_to() {
    let scratch = Scratch::new();
    let whole = in_dir(scratch.dir(), &["bench", "seq", "--size", "3MiB"]);
    assert!(whole["block"].is_null() && whole["latency_us"].is_null(), "{whole}");
    let blocks = in_dir(scratch.dir(), &["bench", "seq", "--size", "3MiB", "--depth", "2"]);
    assert_eq!((&blocks["block"], &blocks["ops"]), (&MIB.into(), &3.into()));
    assert_eq!((&blocks["depth"], &blocks["verified"]), (&2.into(), &true.into()));
}

#[test]
fn a_cold_file_is_read_from_its_disk_and_a_warm_one_from_the_cache() {
    let dir = disk();
    for bench in ["seq", "rand"] {
        let warm = in_dir(dir.path(), &["bench", bench, "--size", "2MiB"]);
        assert_eq!((path_bytes(&warm, "page-cache"), &warm["cold"]), (2 * MIB as u64, &false.into()));
        let mut command = program(["bench", bench, "--size", "2MiB", "--cold", "--device", "host", "--json", "--dir"]);
        command.arg(dir.path());
        let run = Run::of(command);
        if run.stderr.contains("stay in the page cache") {
            return skipped("the build lies on a file system that is nothing but memory");
        }
        let cold = run.json();
        assert_eq!((path_bytes(&cold, "direct"), &cold["cold"]), (2 * MIB as u64, &true.into()), "{cold}");
        assert_eq!((&cold["verified"], &cold["direct"]), (&true.into(), &"auto".into()));
        let never = in_dir(dir.path(), &["bench", bench, "--size", "2MiB", "--cold", "--direct=never"]);
        assert_eq!(path_bytes(&never, "page-cache"), 2 * MIB as u64, "{never}");
    }
}

#[test]
fn direct_goes_past_a_warm_cache_with_every_engine() {
    let dir = disk();
    for engine in ["io-uring", "tokio-uring", "posix", "auto"] {
        let bench = in_dir(dir.path(), &["bench", "rand", "--size", "1MiB", "--direct", "--engine", engine]);
        assert_eq!(path_bytes(&bench, "direct"), MIB as u64, "{bench}");
        assert!(engine == "auto" || bench["engine"] == engine, "{bench}");
        assert_eq!((&bench["verified"], &bench["direct"]), (&true.into(), &"always".into()));
    }
}

#[test]
fn options_go_before_the_environment() {
    let scratch = Scratch::new();
    let run = |arguments: &[&str]| {
        let mut command = program(arguments);
        command.args(["--size", "1MiB", "--json", "--dir"]).arg(scratch.dir()).env("WARPIO_ENGINE", "posix");
        Run::of(command).json()["engine"].clone()
    };
    assert_eq!(run(&["bench", "rand"]), "posix");
    assert_eq!(run(&["bench", "rand", "--engine", "tokio-uring"]), "tokio-uring");
}

#[test]
fn what_cannot_be_cold_is_not_called_so() {
    on_tmpfs("size=2m", |dir| {
        let line = warpio(args!["bench", "rand", "--size", "1MiB", "--cold", "--dir", dir]).error(FAILED);
        assert!(line.contains("page cache") && line.contains("--cold"), "{line}");
        assert_eq!(names(dir), [""; 0]);
    });
}

#[test]
fn a_given_file_stays_and_text_tells_rate_and_latency() {
    let scratch = Scratch::new();
    let file = scratch.file("given", MIB + 5);
    let text = warpio(args!["bench", "rand", file, "--rounds", "3", "--device", "host"]).expect(DONE);
    for part in ["257 reads of 4096 bytes", "64 in flight", "reads/s", "CPU-µs", "99.9 %", "median of 3", "verified"] {
        assert!(text.stdout.contains(part), "{part}: {text:#?}");
    }
    assert_eq!((text.stderr.as_str(), std::fs::read(&file).unwrap()), ("", bytes(MIB + 5)));
    assert_eq!(json(args!["bench", "rand", file, "--rounds", "1"])["own_file"], false);
}

#[test]
fn too_many_blocks_are_an_error_that_names_the_way_out() {
    let scratch = Scratch::new();
    let file = scratch.sparse("huge", 1 << 26);
    let line = warpio(args!["bench", "rand", file, "--block", "1"]).error(FAILED);
    assert!(line.contains("--block"), "{line}");
}
