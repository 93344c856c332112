//! fio, where it is installed.

use std::path::{Path, PathBuf};

use warpio_benches::fio;

use super::Result;
use super::contender::{Contender, Job, Sample};

pub(crate) fn contenders(path: &Path, job: Job) -> Vec<Contender> {
    if !job.direct {
        return Vec::new();
    }
    if !fio::is_installed() {
        eprintln!("fio is not installed; it does not take part");
        return Vec::new();
    }
    let plain: &[&str] = &[];
    let registered: &[&str] = &["--fixedbufs", "--registerfiles"];
    [("fio io_uring", plain), ("fio io_uring, registered", registered)]
        .into_iter()
        .map(|(name, extra)| {
            let path: PathBuf = path.to_owned();
            Contender::new(name, move |seconds| run(&path, job, seconds, extra))
        })
        .collect()
}

fn run(path: &Path, job: Job, seconds: f64, extra: &[&str]) -> Result<Sample> {
    let before = children_cpu();
    let mut arguments = vec![
        format!("--rw={}", if job.random { "randread" } else { "read" }),
        format!("--bs={}", job.block),
        format!("--iodepth={}", job.depth),
        format!("--runtime={}ms", (seconds * 1e3) as u64),
    ];
    arguments.extend(
        ["--time_based", "--norandommap", "--randrepeat=0", "--group_reporting", "--thread"].map(str::to_owned),
    );
    arguments.extend(extra.iter().map(|&argument| argument.to_owned()));
    let report = fio::run(path, arguments)?;
    let number = |name| fio::number(&report["read"], name);
    Ok(Sample {
        ops: number("total_ios")?,
        bytes: number("io_bytes")?,
        seconds: number("runtime")? / 1e3,
        // Its start and its report are in this, some 0.1 s.
        cpu_seconds: children_cpu() - before,
    })
}

/// Processor time of the children waited for so far, in seconds.
fn children_cpu() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills the structure; it cannot fail for the process's own children.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
