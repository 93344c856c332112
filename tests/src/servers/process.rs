use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server in a process of its own, which ends with this.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
    name: &'static str,
}

/// Programs that are scripts take a while to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

impl Process {
    /// Starts `command`, which listens at `address` some time later, and writes what it prints into `folder`.
    pub(super) fn start(name: &'static str, command: &mut Command, address: SocketAddr, folder: &Path) -> Self {
        let log = folder.join("log");
        let file = std::fs::File::create(&log).expect("a log file");
        let errors = file.try_clone().expect("a log file");
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        // SAFETY: prctl is one system call, which is allowed between fork and exec.
        unsafe {
            command.pre_exec(|| {
                // A test that is killed takes its servers along.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let child = command.spawn().unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        let mut process = Self { child, address, log, name };
        process.wait();
        process
    }

    /// Nothing tells when a program of somebody else's listens, but that it does.
    fn wait(&mut self) {
        let start = Instant::now();
        while TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).is_err() {
            let ended = self.child.try_wait().expect("a child");
            if ended.is_some() || start.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                panic!("{} does not listen at {} (ended: {ended:?}):\n{log}", self.name, self.address);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody uses at this moment.
pub(super) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

/// Where a program is: at the path that `variable` names, or where programs are.
pub fn find(program: &str, variable: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Daemons are not on the path of everybody.
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")]);
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Says, past what captures a test's output, that a test is skipped for want of a program.
///
/// # Panics
/// Where `WARPIO_TEST_SERVERS=all` (no server may be missing) or `WARPIO_TEST_ALL` (nothing may be) forbids it.
pub fn missing(program: &str, how: &str) {
    let text =
        format!("\n!!\n!! SKIPPED: {program} is not installed, so nothing here was tested with it.\n!! {how}\n!!\n");
    let _ = std::io::stderr().write_all(text.as_bytes());
    let forbidden = std::env::var_os("WARPIO_TEST_SERVERS").is_some_and(|servers| servers == "all");
    assert!(!forbidden && std::env::var_os("WARPIO_TEST_ALL").is_none(), "{text}");
}
