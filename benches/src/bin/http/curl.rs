use std::process::{Command, Stdio};
use std::time::Instant;

use warpio_benches::clock::Cost;

use super::Contender;

pub(crate) fn is_installed() -> bool {
    Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// One curl with so many ranges at once, all thrown away.
pub(crate) fn parallel(url: &str, size: u64, connections: u64) -> Contender {
    let url = url.to_owned();
    let run = move || {
        let mut command = Command::new("curl");
        command.args(["--silent", "--fail", "--parallel", "--parallel-immediate", "--parallel-max", "300"]);
        let step = size.div_ceil(connections);
        for n in 0..connections {
            if n > 0 {
                command.arg("--next");
            }
            let range = format!("{}-{}", n * step, ((n + 1) * step).min(size) - 1);
            command.args(["--silent", "--fail", "--range", &range, "--output", "/dev/null", &url]);
        }
        let (cpu, start) = (children(), Instant::now());
        // It shows its progress, however it is asked not to.
        let status = command.stdin(Stdio::null()).stderr(Stdio::null()).status()?;
        if !status.success() {
            return Err(format!("curl: {status}").into());
        }
        Ok(Cost { seconds: start.elapsed().as_secs_f64(), cpu_seconds: children() - cpu })
    };
    Contender { name: format!("curl, {connections} ranges at once"), run: Box::new(run) }
}

/// Processor time of the children that have ended, in seconds.
fn children() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills the structure; it cannot fail for a process's own children.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
