//! What the program tells of GPUDirect Storage.

use std::ffi::OsStr;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{DONE, FAILED, MIB, Run, Scratch, args, json, program, skipped};

/// Cargo leaves them beside the test executable, or one folder above.
fn library(name: &str) -> PathBuf {
    let executable = std::env::current_exe().unwrap();
    let mut files = executable.ancestors().skip(1).take(2).map(|dir| dir.join(name));
    files.find(|file| file.is_file()).unwrap_or_else(|| panic!("{name} is no dev-dependency"))
}

/// The program on the software GPU, with the software cuFile under a plan, on a kernel with modules.
fn on_mocks(plan: &str, arguments: &[&OsStr]) -> Option<Run> {
    if std::env::var_os("WARPIO_TEST_CUDA").is_some_and(|choice| choice == "real") {
        skipped("WARPIO_TEST_CUDA asks for a real GPU, and this is about the software GPU");
        return None;
    }
    let preload = [library("libmock_cuda.so"), library("libmock_modules.so")];
    let mut command = program(arguments);
    command
        .env("LD_PRELOAD", preload.map(|path| path.display().to_string()).join(":"))
        .env("WARPIO_CUFILE_LIBRARY", library("libmock_cufile.so"))
        .env("MOCKCUFILE_PLAN", plan)
        .env_remove("CUDA_VISIBLE_DEVICES");
    Some(Run::of(command))
}

fn told(plan: &str) -> Option<Value> {
    Some(on_mocks(plan, &args!["info", "--json"])?.json()["cufile"].clone())
}

#[test]
fn there_is_always_an_object_with_a_reason_if_it_is_off() {
    let cufile = &json(["info"])["cufile"];
    assert!(cufile["available"].is_boolean() && cufile["surroundings"]["proc_modules"].is_boolean(), "{cufile}");
    if cufile["available"] == false {
        assert!(cufile["reason"].as_str().is_some_and(|reason| reason.len() > 10), "{cufile}");
    }
}

#[test]
fn a_driver_that_is_on_tells_its_way_and_its_limits() {
    for (mode, path, nvidia_fs) in [("gds", "gds", Value::from("2.28")), ("p2p", "p2p", Value::Null)] {
        let Some(cufile) = told(&format!("mode {mode}")) else { return };
        assert_eq!((&cufile["available"], &cufile["path"]), (&true.into(), &path.into()), "{cufile}");
        assert_eq!(cufile["library"]["version"], "1.20");
        let driver = &cufile["driver"];
        assert_eq!((&driver["nvidia_fs"], &driver["bar1"]), (&nvidia_fs, &(1u64 << 38).into()), "{cufile}");
        let ways: Vec<_> =
            driver["storage"].as_array().unwrap().iter().map(|kind| (&kind["name"], &kind["path"])).collect();
        assert_eq!(ways.len(), 14, "{cufile}");
        let served: Vec<_> = ways.into_iter().filter(|(_, way)| !way.is_null()).collect();
        assert_eq!(served, [(&"NVMe".into(), &Value::from(path))], "{cufile}");
        assert_eq!((&driver["max_direct_io_size"], &driver["max_batch_entries"]), (&(16 << 20).into(), &128.into()));
        assert_eq!((&driver["parameters"]["MaxIoThreads"], &driver["compat_mode_allowed"]), (&8.into(), &true.into()));
        assert!(cufile["reason"].is_null());
    }
}

#[test]
fn compatibility_mode_has_reasons_and_remedies() {
    let Some(cufile) = told("mode compat") else { return };
    assert_eq!((&cufile["available"], &cufile["path"]), (&false.into(), &Value::Null));
    let reasons = cufile["reasons"].as_array().unwrap();
    let kinds: Vec<_> = reasons.iter().map(|reason| reason["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"no-nvidia-fs") && kinds.contains(&"no-peer-to-peer"), "{cufile}");
    assert_eq!(kinds.contains(&"no-udev"), cufile["surroundings"]["run_udev"] == false, "{cufile}");
    assert!(reasons.iter().all(|reason| !reason["remedy"].as_str().unwrap().is_empty()));
    let Some(text) = on_mocks("mode compat", &args!["info"]) else { return };
    let text = text.expect(DONE).stdout;
    assert!(text.contains("off: everything goes through host memory") && text.contains("to change it"), "{text}");
}

#[test]
fn the_text_has_what_gdscheck_prints() {
    let Some(text) = on_mocks("mode gds", &args!["info"]) else { return };
    let text = text.expect(DONE).stdout;
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split("  ").map(str::trim).collect()).collect();
    let value = |name: &str| {
        let row = rows.iter().find(|row| row.contains(&name)).unwrap_or_else(|| panic!("{name}: {text}"));
        row.iter().rev().find(|cell| !cell.is_empty()).copied().unwrap()
    };
    assert_eq!((value("GPUDirect Storage"), value("nvidia-fs")), ("on, gds", "2.28"));
    assert_eq!((value("NVMe"), value("Lustre")), ("supported, gds", "unsupported"));
    assert_eq!((value("compat mode"), value("poll mode")), ("allowed", "off, up to 4.00 KiB"));
    assert_eq!((value("direct I/O"), value("batches")), ("up to 16.00 MiB a request", "128 entries, 5 ms"));
    assert_eq!((value("MaxIoThreads"), value("ParallelIo"), value("BAR1")), ("8", "on", "256.00 GiB"));
    assert!(["on", "off"].contains(&value("IOMMU")), "{text}");
}

#[test]
fn an_option_forbids_or_demands_gpudirect_storage() {
    let scratch = Scratch::new();
    let file = scratch.file("data.bin", MIB);
    let read = |plan: &str, mode: &str| {
        on_mocks(plan, &args!["read", &file, "--device", "cuda:0", "--checksum", "--compat-mode", mode, "--json"])
    };
    let Some(demanded) = read("mode gds", "off") else { return };
    assert_eq!(demanded.json()["paths"], serde_json::json!({"gds": MIB}));
    let forbidden = read("mode gds", "on").unwrap().json();
    assert_eq!((&forbidden["paths"]["gds"], &forbidden["bytes"]), (&Value::Null, &MIB.into()));
    let missing = read("mode compat", "off").unwrap().error(FAILED);
    assert!(missing.contains("GPUDirect Storage was asked for") && missing.contains("nvidia-fs"), "{missing}");
}

#[test]
fn a_driver_that_does_not_open_is_told_with_its_code() {
    let Some(cufile) = told("on DriverOpen status 5033") else { return };
    assert!(cufile["driver"].is_null() && cufile["reason"].as_str().unwrap().contains("5033"), "{cufile}");
}
