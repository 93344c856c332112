//! Wall time, processor time and memory of this process.

use std::time::Instant;

/// What a piece of work took.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Wall time, in seconds.
    pub seconds: f64,
    /// Processor time of all threads, user and system, in seconds.
    pub cpu_seconds: f64,
}

/// A running measurement.
#[derive(Debug)]
pub struct Clock {
    wall: Instant,
    cpu: f64,
}

impl Clock {
    /// Starts measuring.
    pub fn start() -> Self {
        Self { cpu: cpu_seconds(), wall: Instant::now() }
    }

    /// What it took up to now.
    pub fn stop(&self) -> Cost {
        Cost { seconds: self.wall.elapsed().as_secs_f64(), cpu_seconds: cpu_seconds() - self.cpu }
    }
}

/// Processor time of this process so far, in seconds.
pub fn cpu_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills the structure; it cannot fail for the process itself.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// The most memory that this process has had resident, in bytes, by `/proc/self/status`.
pub fn peak_rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The middle of `values`, which are sorted for it.
pub fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which the share `q` of `values` lies; `values` are sorted for it. NaN for none.
pub fn quantile(values: &mut [f64], q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n => values[((n - 1) as f64 * q).round() as usize],
    }
}
