//! The program on the software GPU, which it gets in the place of the driver.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::{DONE, FAILED, MIB, Run, Scratch, args, bytes, crc32c, program, skipped};

/// The program with two software GPUs. `None`, loudly, where a real one is asked for.
pub(crate) fn on_software_gpu(arguments: &[&std::ffi::OsStr]) -> Option<Command> {
    if std::env::var_os("WARPIO_TEST_CUDA").is_some_and(|choice| choice == "real") {
        skipped("WARPIO_TEST_CUDA asks for a real GPU, and this is about the software GPU");
        return None;
    }
    let mut command = program(arguments);
    command.env("LD_PRELOAD", driver()).env("MOCK_CUDA_DEVICES", "2").env_remove("CUDA_VISIBLE_DEVICES");
    Some(command)
}

/// Cargo leaves it beside the test executable, or one folder above.
fn driver() -> PathBuf {
    let executable = std::env::current_exe().unwrap();
    let file =
        executable.ancestors().skip(1).take(2).map(|dir| dir.join("libmock_cuda.so")).find(|file| file.is_file());
    file.expect("there is no libmock_cuda.so beside the test executable: is mock-cuda a dev-dependency?")
}

fn json(arguments: &[&std::ffi::OsStr]) -> Option<Value> {
    let mut command = on_software_gpu(arguments)?;
    command.arg("--json");
    Some(Run::of(command).json())
}

#[test]
fn a_file_arrives_on_either_gpu_whole() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 21 * MIB + 11);
    for device in ["cuda:0", "cuda:1"] {
        let Some(read) = json(&args!["read", file, "--device", device, "--checksum"]) else { return };
        assert_eq!((&read["device"], &read["bytes"]), (&device.into(), &(21 * MIB + 11).into()));
        assert_eq!(read["crc32c"], crc32c(&bytes(21 * MIB + 11)));
    }
}

#[test]
fn a_gpu_is_taken_without_being_asked_for() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 1000);
    let Some(read) = json(&args!["read", file]) else { return };
    assert_eq!(read["device"], "cuda:0");
    let Some(read) = json(&args!["read", file, "--device", "host"]) else { return };
    assert_eq!(read["device"], "host");
}

#[test]
fn a_bench_verifies_what_the_gpu_holds() {
    let scratch = Scratch::new();
    let Some(mut command) =
        on_software_gpu(&args!["bench", "seq", "--size", "9000001", "--device", "cuda:1", "--json"])
    else {
        return;
    };
    let bench = Run::of({
        command.env("TMPDIR", scratch.dir());
        command
    })
    .json();
    assert_eq!((&bench["device"], &bench["verified"]), (&"cuda:1".into(), &true.into()));
}

#[test]
fn gpus_are_listed() {
    let Some(info) = json(&args!["info"]) else { return };
    let names: Vec<_> = info["devices"].as_array().unwrap().iter().map(|device| device["name"].clone()).collect();
    assert_eq!(names, ["host", "cuda:0", "cuda:1"]);
    assert_eq!((&info["cuda"]["available"], &info["device"]), (&true.into(), &"cuda:0".into()));
    let Some(text) = on_software_gpu(&args!["info"]) else { return };
    let text = Run::of(text).expect(DONE).stdout;
    assert!(text.contains("device cuda:1") && text.contains("compute capability"), "{text}");
}

#[test]
fn a_gpu_too_many_is_an_error() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 10);
    let Some(command) = on_software_gpu(&args!["read", file, "--device", "cuda:2"]) else { return };
    let line = Run::of(command).error(FAILED);
    assert!(line.contains("cuda:2"), "{line}");
}

#[test]
fn a_gpu_whose_memory_is_full_is_told_apart_from_the_host() {
    let scratch = Scratch::new();
    let file = scratch.sparse("file", 9 << 20);
    let Some(mut command) = on_software_gpu(&args!["read", file, "--device", "cuda:0"]) else { return };
    command.env("MOCK_CUDA_PLAN", "memory 0 8388608");
    let line = Run::of(command).error(FAILED);
    assert!(line.contains("--length") && !line.contains("host memory"), "{line}");
}

#[test]
fn a_copy_has_no_part_in_the_gpu() {
    let scratch = Scratch::new();
    let (source, target) = (scratch.file("source", 5 * MIB), scratch.path("target"));
    let Some(copy) = json(&args!["cp", source, target, "--verify"]) else { return };
    assert_eq!((&copy["device"], &copy["verified"]), (&"host".into(), &true.into()));
}
