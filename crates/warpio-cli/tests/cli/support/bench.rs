//! What the tests of the benches share.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Run, Scratch, program};

/// What fio prints, as far as it is read.
pub(crate) const FIO_FIGURES: &str = r#"{"jobs": [{"read": {"io_bytes": 1048576, "total_ios": 256, "runtime": 4,
    "lat_ns": {"mean": 50000, "max": 90000, "percentile": {"50.000000": 40000, "90.000000": 60000,
    "99.000000": 70000, "99.900000": 80000}}}, "job_runtime": 4, "usr_cpu": 25, "sys_cpu": 75}]}"#;

/// Two rounds into host memory, of a file of its own in `dir`.
pub(crate) fn in_dir(dir: &Path, arguments: &[&str]) -> Value {
    let mut command = program(arguments);
    command.args(["--rounds", "2", "--device", "host", "--json", "--dir"]).arg(dir);
    Run::of(command).json()
}

/// A directory on the disk that the build is on.
pub(crate) fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub(crate) fn path_bytes(bench: &Value, path: &str) -> u64 {
    bench["paths"][path].as_u64().unwrap_or(0)
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Checks that a bench of blocks says that all of `bytes` arrived as they are, in `ops` blocks, and that its figures go
/// together.
#[track_caller]
pub(crate) fn agrees(bench: &Value, bytes: u64, ops: u64) {
    assert_eq!((&bench["verified"], &bench["bytes"], &bench["ops"]), (&true.into(), &bytes.into(), &ops.into()));
    let paths = bench["paths"].as_object().unwrap();
    assert_eq!(paths.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), bytes, "{bench}");
    let (seconds, rounds) = (number(&bench["seconds"]), bench["rounds"].as_array().unwrap());
    assert!(seconds > 0.0 && rounds.contains(&bench["seconds"]), "{bench}");
    let same = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs();
    assert!(same(number(&bench["iops"]) * seconds, ops as f64), "{bench}");
    assert!(same(number(&bench["gb_per_s"]) * seconds, bytes as f64 / 1e9), "{bench}");
    let cpu = number(&bench["cpu_us_per_op"]) * ops as f64 / 1e6;
    assert!(cpu > 0.0 && same(number(&bench["cpu_s_per_gb"]) * bytes as f64 / 1e9, cpu), "{bench}");
    let latency = &bench["latency_us"];
    let ascending = ["p50", "p90", "p99", "p99.9", "max"].map(|name| number(&latency[name]));
    assert!(ascending[0] > 0.0 && ascending.is_sorted(), "{latency}");
    assert!((0.0..=ascending[4]).contains(&number(&latency["mean"])), "{latency}");
    // No read takes longer than all of them.
    assert!(ascending[4] <= seconds * 1e6, "{bench}");
}

/// A program called fio that notes what it is called with and goes on as `script` says: in a folder of its own, beside
/// the notes. The file that it is to read is `$file`.
pub(crate) fn fio_double(scratch: &Scratch, script: &str) -> (PathBuf, PathBuf) {
    let (bin, log) = (scratch.subdir("bin"), scratch.path("log"));
    let text = format!(
        "#!/bin/sh\necho \"$@\" >> {}\nif [ \"$1\" = --version ]; then echo fio-9; exit; fi\nPATH=/usr/bin:/bin\n\
         for argument; do case $argument in --filename=*) file=${{argument#*=}};; esac; done\n{script}\n",
        log.display()
    );
    let fio = bin.join("fio");
    std::fs::write(&fio, text).unwrap();
    std::fs::set_permissions(&fio, std::fs::Permissions::from_mode(0o755)).unwrap();
    (bin, log)
}
