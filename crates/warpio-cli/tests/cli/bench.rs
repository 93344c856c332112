//! `warpio bench`.

use std::fs;

use serde_json::Value;

use crate::support::{DONE, FAILED, MIB, Run, Scratch, args, bytes, json, names, program, warpio};

fn in_dir(scratch: &Scratch, arguments: &[&str]) -> Run {
    let mut command = program(arguments);
    command.env("TMPDIR", scratch.dir());
    Run::of(command)
}

#[test]
fn a_file_of_its_own_is_read_verified_and_removed() {
    let scratch = Scratch::new();
    let bench = in_dir(&scratch, &["bench", "seq", "--size", "20MB", "--device", "host", "--json"]).json();
    assert_eq!((&bench["verified"], &bench["bytes"]), (&true.into(), &20_000_000.into()));
    assert_eq!((&bench["device"], &bench["bench"]), (&"host".into(), &"seq".into()));
    assert!(bench["engine"].as_str().is_some_and(|engine| !engine.is_empty()));
    let paths = bench["paths"].as_object().unwrap();
    assert_eq!(paths.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), 20_000_000);
    let seconds = bench["seconds"].as_f64().unwrap();
    assert!((bench["gb_per_s"].as_f64().unwrap() / (0.02 / seconds) - 1.0).abs() < 1e-6, "{bench}");
    assert!(bench["cpu_s_per_gb"].as_f64().unwrap() > 0.0);
    assert_eq!(names(scratch.dir()), [""; 0]);
}

#[test]
fn the_time_is_the_median_of_the_rounds() {
    let scratch = Scratch::new();
    let bench = in_dir(&scratch, &["bench", "seq", "--size", "1MiB", "--rounds", "7", "--json"]).json();
    let mut rounds: Vec<f64> = bench["rounds"].as_array().unwrap().iter().map(|s| s.as_f64().unwrap()).collect();
    assert_eq!(rounds.len(), 7);
    rounds.sort_by(f64::total_cmp);
    assert_eq!(bench["seconds"].as_f64().unwrap(), rounds[3]);
    let one = in_dir(&scratch, &["bench", "seq", "--size", "1MiB", "--rounds", "1", "--json"]).json();
    assert_eq!(one["rounds"][0], one["seconds"]);
}

#[test]
fn a_file_that_is_given_stays_as_it_was() {
    let scratch = Scratch::new();
    let file = scratch.file("given", 3 * MIB + 5);
    let bench = json(args!["bench", "seq", file, "--rounds", "2"]);
    assert_eq!((&bench["verified"], &bench["bytes"]), (&true.into(), &(3 * MIB + 5).into()));
    assert_eq!((&bench["file"], &bench["own_file"]), (&file.to_str().unwrap().into(), &false.into()));
    assert_eq!(fs::read(&file).unwrap(), bytes(3 * MIB + 5));
    assert_eq!(names(scratch.dir()), ["given"]);
}

#[test]
fn odd_and_empty_sizes_are_measured() {
    let scratch = Scratch::new();
    for size in [0u64, 1, 7, 4097, 16 * MIB as u64 + 3] {
        let bench = in_dir(&scratch, &["bench", "seq", "--size", &size.to_string(), "--rounds", "1", "--json"]).json();
        assert_eq!((&bench["verified"], &bench["bytes"]), (&Value::Bool(true), &size.into()));
    }
    let empty = scratch.file("empty", 0);
    assert_eq!(json(args!["bench", "seq", empty])["bytes"], 0);
}

#[test]
fn the_file_is_made_where_it_was_asked_for() {
    let (scratch, dir) = (Scratch::new(), Scratch::new());
    let wanted = dir.dir().to_str().unwrap();
    let bench = in_dir(&scratch, &["bench", "seq", "--size", "1MiB", "--dir", wanted, "--json"]).json();
    assert!(bench["file"].as_str().unwrap().starts_with(wanted), "{bench}");
    assert!(bench["own_file"].as_bool().unwrap());
    assert_eq!(names(dir.dir()), [""; 0]);
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let scratch = Scratch::new();
    let missing = scratch.path("missing");
    let line = warpio(args!["bench", "seq", "--dir", missing]).error(FAILED);
    assert!(line.contains(missing.to_str().unwrap()) && line.contains("--dir"), "{line}");
}

#[test]
fn text_tells_speed_range_and_verification() {
    let scratch = Scratch::new();
    let text = in_dir(&scratch, &["bench", "seq", "--size", "1MiB", "--rounds", "3", "--device", "host"]).expect(DONE);
    for part in ["1048576 bytes", "GB/s", "device host", "engine", "page-cache", "median of 3", "verified"] {
        assert!(text.stdout.contains(part), "{part}: {text:#?}");
    }
    assert_eq!(text.stderr, "");
}

#[test]
fn a_file_that_knows_no_size_is_measured_to_its_end() {
    let bench = json(["bench", "seq", "/proc/version", "--rounds", "1"]);
    assert_eq!(bench["bytes"], fs::read("/proc/version").unwrap().len());
}
