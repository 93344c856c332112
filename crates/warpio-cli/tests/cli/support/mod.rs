//! Running the program and looking at what it did.

pub(crate) mod bench;
mod machine;
mod watch;

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) use machine::{on_bind_mount, on_read_only_tmpfs, on_tmpfs, skipped};
pub(crate) use watch::Watch;

pub(crate) const MIB: usize = 1 << 20;

pub(crate) const DONE: i32 = 0;
pub(crate) const FAILED: i32 = 1;
pub(crate) const WRONG_USAGE: i32 = 2;

/// Nobody else's settings count.
fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WARPIO_") || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
}

/// The program with these arguments.
pub(crate) fn program<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpio"));
    clean(&mut command);
    command.args(arguments);
    command
}

/// The program behind shell commands that set limits or the umask.
pub(crate) fn after_shell<A: AsRef<OsStr>>(shell: &str, arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new("sh");
    clean(&mut command);
    command.args(["-c", &format!("{shell}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_warpio")]).args(arguments);
    command
}

/// The program as started from a terminal, where signals reach it; a shell's background job ignores some, and hands
/// that down.
pub(crate) fn with_signals(mut command: Command, ignored: bool) -> Command {
    let action = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: between fork and exec only signal(2) is called, which may be called there.
    unsafe {
        command.pre_exec(move || {
            for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
                if libc::signal(signal, action) == libc::SIG_ERR {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        })
    };
    command
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Run {
    pub(crate) fn of(mut command: Command) -> Self {
        command.output().unwrap().into()
    }

    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        self
    }

    /// The one object that was printed.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let run = self.expect(DONE);
        assert_eq!(run.stderr, "");
        assert_eq!(run.stdout.matches('\n').count(), 1, "{run:#?}");
        let value: Value = serde_json::from_str(&run.stdout).unwrap();
        assert!(value.is_object(), "{value}");
        value
    }

    /// The one line that a failure leaves.
    #[track_caller]
    pub(crate) fn error(self, code: i32) -> String {
        let run = self.expect(code);
        assert_eq!(run.stdout, "", "{run:#?}");
        let line = run.stderr.strip_suffix('\n').unwrap_or_else(|| panic!("{run:#?}"));
        assert!(line.starts_with("warpio: ") && !line.contains('\n'), "{run:#?}");
        line.to_owned()
    }
}

/// Runs the program.
#[track_caller]
pub(crate) fn warpio<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Run {
    Run::of(program(arguments))
}

/// Runs it with `--json`.
#[track_caller]
pub(crate) fn json<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Value {
    let mut command = program(arguments);
    command.arg("--json");
    Run::of(command).json()
}

/// Arguments of different types.
macro_rules! args {
    ($($argument:expr),* $(,)?) => { [$(std::ffi::OsStr::new(&$argument)),*] };
}
pub(crate) use args;

/// A directory that is gone at the end.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn dir(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// A file with `len` bytes that differ from place to place.
    pub(crate) fn file(&self, name: &str, len: usize) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes(len)).unwrap();
        path
    }

    /// A file of `len` zeros that takes no room.
    pub(crate) fn sparse(&self, name: &str, len: u64) -> PathBuf {
        let path = self.path(name);
        std::fs::File::create(&path).unwrap().set_len(len).unwrap();
        path
    }

    pub(crate) fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        path
    }

    pub(crate) fn subdir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir(&path).unwrap();
        path
    }
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub(crate) fn bytes(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// CRC-32C, bit by bit from its polynomial, as eight hexadecimal digits.
pub(crate) fn crc32c(bytes: &[u8]) -> String {
    let crc = bytes
        .iter()
        .fold(!0u32, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82F6_3B78 * (crc & 1))));
    format!("{:08x}", !crc)
}

#[test]
fn the_checksum_of_these_tests_is_the_published_one() {
    assert_eq!(crc32c(b"123456789"), "e3069283");
}
