//! fio, where it is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Result;
use super::contender::{Contender, Job, Sample};

pub(crate) fn contenders(path: &Path, job: Job) -> Vec<Contender> {
    if !job.direct {
        return Vec::new();
    }
    if Command::new("fio").arg("--version").output().is_err() {
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
    let output = Command::new("fio")
        .args(["--name=x", "--ioengine=io_uring", "--direct=1", "--output-format=json", "--time_based"])
        .args(["--norandommap", "--randrepeat=0", "--group_reporting", "--thread", "--invalidate=0"])
        .arg(format!("--filename={}", path.display()))
        .arg(format!("--rw={}", if job.random { "randread" } else { "read" }))
        .arg(format!("--bs={}", job.block))
        .arg(format!("--iodepth={}", job.depth))
        .arg(format!("--runtime={}ms", (seconds * 1e3) as u64))
        .args(extra)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let json: Value = serde_json::from_str(&text[text.find('{').unwrap_or(0)..])?;
    let read = &json["jobs"][0]["read"];
    let number = |name: &str| read[name].as_f64().ok_or_else(|| format!("fio says nothing of {name}"));
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
