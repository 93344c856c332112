//! Processes for scenarios.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use warpio_tests::mock_cufile::{self, Edition};
use warpio_tests::mock_gpu;

/// The scenario that a process runs.
const SCENARIO: &str = "WARPIO_TEST_SCENARIO";
/// The library that it runs with.
const LIBRARY: &str = "WARPIO_TEST_LIBRARY";
/// Where the real library lies, or `unavailable` where the wheel cannot be had.
const REAL: &str = "WARPIO_TEST_CUFILE";

/// Where files lie: in memory, unless this says otherwise. On a real GPU, files in memory are refused.
const DIR: &str = "WARPIO_TEST_DIR";

/// A scenario that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn scenario_of_this_process() -> Option<String> {
    env::var(SCENARIO).ok()
}

pub(crate) fn library_of_this_process() -> PathBuf {
    env::var_os(LIBRARY).expect("a library").into()
}

pub(crate) fn folder() -> PathBuf {
    env::var_os(DIR).unwrap_or_else(|| "/dev/shm".into()).into()
}

/// A library to run scenarios with.
pub(crate) struct Subject {
    library: PathBuf,
    column: &'static str,
    /// The software GPU under the names that the library looks for.
    gpu: Option<tempfile::TempDir>,
    log: tempfile::TempDir,
}

impl Subject {
    /// `None` on a real GPU, whose memory the mock cannot reach.
    pub(crate) fn mock() -> Option<Self> {
        if mock_gpu::is_real() {
            eprintln!("SKIPPED on a real GPU");
            return None;
        }
        let library = mock_cufile::path(Edition::Current).expect("the mock");
        Some(Self { library, column: "mock", gpu: Some(gpu()), log: tempfile::tempdir().unwrap() })
    }

    /// `None`, with a word about it, where nobody says where the library is.
    pub(crate) fn real() -> Option<Self> {
        if scenario_of_this_process().is_some() {
            return None;
        }
        let library = match env::var_os(REAL) {
            Some(path) if path == "unavailable" => {
                eprintln!("SKIPPED: the wheel nvidia-cufile cannot be had");
                return None;
            }
            Some(path) => PathBuf::from(path),
            None => {
                assert!(
                    env::var_os("WARPIO_TEST_ALL").is_none(),
                    "WARPIO_TEST_ALL is set, but {REAL} is not: set it to what .ci/cufile_wheel.sh prints"
                );
                eprintln!("SKIPPED: {REAL} is not set; see .ci/cufile_wheel.sh");
                return None;
            }
        };
        assert!(library.is_file(), "{}: no such library", library.display());
        let (gpu, column) = if mock_gpu::is_real() { (None, "gpu") } else { (Some(gpu()), "real") };
        Some(Self { library, column, gpu, log: tempfile::tempdir().unwrap() })
    }

    pub(crate) fn column(&self) -> &'static str {
        self.column
    }

    /// What a scenario ended with, in a process of its own.
    pub(crate) fn outcome(&self, test: &str, scenario: &str) -> String {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(SCENARIO, scenario)
            .env(LIBRARY, &self.library)
            .env("CUFILE_LOGFILE_PATH", self.log.path().join("cufile.log"))
            .env("MOCKCUFILE_PLAN", "abort off")
            .env_remove("RUST_BACKTRACE")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(gpu) = &self.gpu {
            command.env("LD_LIBRARY_PATH", gpu.path());
        }
        if !Path::new("/proc/modules").exists() {
            command.env("LD_PRELOAD", modules());
        }
        let mut child = command.spawn().unwrap();
        let end = Instant::now() + LIMIT;
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > end => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    return "hangs".to_owned();
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        match said.lines().find_map(|line| line.split_once("OUTCOME ")) {
            Some((_, outcome)) => outcome.to_owned(),
            None if status.signal() == Some(libc::SIGABRT) => "aborts".to_owned(),
            None => {
                eprintln!("{scenario}: {status}\n{said}\n{}", String::from_utf8_lossy(&output.stderr));
                format!("fails ({status})")
            }
        }
    }
}

fn gpu() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mock = mock_gpu::path().expect("the software GPU");
    for name in ["libcuda.so", "libcuda.so.1"] {
        std::os::unix::fs::symlink(&mock, dir.path().join(name)).unwrap();
    }
    dir
}

/// What lets the library find `/proc/modules`.
fn modules() -> PathBuf {
    let executable = env::current_exe().unwrap();
    let folders = executable.ancestors().skip(1).take(2);
    let mut files = folders.map(|folder| folder.join("libmock_modules.so"));
    files.find(|file| file.is_file()).expect("mock-modules is a dev-dependency")
}
