//! Tests that need a process of their own: for limits, users, system-call filters and environments.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::geteuid;

const CHILD: &str = "WARPIO_TEST_CHILD";
const DIR: &str = "WARPIO_TEST_DIR";

/// Runs `body` in a process of its own. `test` is the path of the test that calls this, which is what that process runs;
/// `prepare` is called before, in this one, and what it returns is kept until the other has ended.
#[track_caller]
pub(crate) fn in_child<G>(test: &str, prepare: impl FnOnce(&mut Command) -> G, body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some_and(|name| name == OsStr::new(test)) {
        return body();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WARPIO_") {
            command.env_remove(name);
        }
    }
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(CHILD, test).env("RUST_BACKTRACE", "0");
    let kept = prepare(&mut command);
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "the child of {test} failed ({}):\n{out}\n{err}", output.status);
    assert!(out.contains("1 passed"), "there is no test {test}:\n{out}\n{err}");
    // A panic on another thread than the test's is no failure to the harness.
    assert!(!err.contains("panicked"), "{out}\n{err}");
    drop(kept);
}

/// Lets the child know a directory.
pub(crate) fn tell_dir(command: &mut Command, dir: impl Into<OsString>) {
    command.env(DIR, dir.into());
}

/// The directory that the child was told.
pub(crate) fn told_dir() -> PathBuf {
    std::env::var_os(DIR).unwrap().into()
}

/// Sets a limit of the child's, soft and hard.
pub(crate) fn limit(command: &mut Command, resource: rustix::process::Resource, value: u64) {
    let limit = rustix::process::Rlimit { current: Some(value), maximum: Some(value) };
    // SAFETY: between fork and exec only setrlimit is called, which may be called there.
    unsafe { command.pre_exec(move || Ok(rustix::process::setrlimit(resource, limit)?)) };
}

/// Lets the child be a user who owns nothing, if this is root; whether it will be one.
pub(crate) fn as_nobody(command: &mut Command) -> bool {
    if geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    // A directory that everybody may be in.
    command.current_dir("/");
    true
}

/// Lets a system call of the child's fail with this error number, as containers do.
pub(crate) fn refuse(command: &mut Command, call: libc::c_long, errno: i32) {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let filter = [
        // The number of the call is the first word of what the filter sees.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt: 0, jf: 1, k: call as u32 },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let mut filter = filter;
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: no memory is passed.
        let permitted = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        // SAFETY: the program and its statements live through the call, which copies them.
        let installed = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
        if permitted == 0 && installed == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec only prctl is called, which may be called there.
    unsafe { command.pre_exec(install) };
}
