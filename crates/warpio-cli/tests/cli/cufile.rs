//! What the program tells of GPUDirect Storage.

use std::path::PathBuf;

use serde_json::Value;

use crate::support::{DONE, Run, args, json, program, skipped};

/// Cargo leaves them beside the test executable, or one folder above.
fn library(name: &str) -> PathBuf {
    let executable = std::env::current_exe().unwrap();
    let mut files = executable.ancestors().skip(1).take(2).map(|dir| dir.join(name));
    files.find(|file| file.is_file()).unwrap_or_else(|| panic!("{name} is no dev-dependency"))
}

/// The program on the software GPU, with the software cuFile under a plan, on a kernel with modules.
fn info(plan: &str, arguments: &[&std::ffi::OsStr]) -> Option<Run> {
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
    Some(info(plan, &args!["info", "--json"])?.json()["cufile"].clone())
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
        assert_eq!((&driver["nvidia_fs"], &driver["storage"][0]["name"]), (&nvidia_fs, &"NVMe".into()), "{cufile}");
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
    let Some(text) = info("mode compat", &args!["info"]) else { return };
    let text = text.expect(DONE).stdout;
    assert!(text.contains("off: everything goes through host memory") && text.contains("to change it"), "{text}");
}

#[test]
fn a_driver_that_does_not_open_is_told_with_its_code() {
    let Some(cufile) = told("on DriverOpen status 5033") else { return };
    assert!(cufile["driver"].is_null() && cufile["reason"].as_str().unwrap().contains("5033"), "{cufile}");
}
