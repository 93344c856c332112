//! What this process may use of the machine: processors, memory, locked memory, open files, io_uring.
//!
//! Limits that a container sets count, whichever version of cgroups sets them.

mod cgroup;
mod kernel;
mod memory;
mod process;

pub use cgroup::{Cgroups, CpuQuota};
pub use kernel::{IoUringPolicy, KernelRelease};
pub use memory::Memory;
pub use process::Privileges;

use crate::sys::statx::page_size;
use rustix::process::{Resource, getrlimit};
use std::path::Path;

/// What this process may use of the machine, at the moment it was asked.
///
/// Ask again rather than keep it: limits change while a process runs, and a virtual machine can be given memory later
/// (a balloon) that it did not show at the start.
///
/// ```
/// let machine = warpio_local::machine::Machine::probe();
/// assert!(machine.cpus.usable() >= 1);
/// assert!(machine.page_size.is_power_of_two());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Processors.
    pub cpus: Cpus,
    /// Memory.
    pub memory: Memory,
    /// Locked memory (`RLIMIT_MEMLOCK`), which bounds what io_uring may register. [`Privileges::ipc_lock`] lifts it.
    pub memlock: Limit,
    /// Open files (`RLIMIT_NOFILE`).
    pub open_files: Limit,
    /// The size of a page, in bytes.
    pub page_size: usize,
    /// The kernel, if it tells.
    pub kernel: Option<KernelRelease>,
    /// Who may use io_uring by the machine's settings. A container's filter can still refuse it: only trying tells.
    pub io_uring: IoUringPolicy,
    /// What this process may do beyond others.
    pub privileges: Privileges,
}

/// A limit of the process, `None` where it is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What holds now.
    pub soft: Option<u64>,
    /// Up to which the process itself may raise it.
    pub hard: Option<u64>,
}

/// Processors that this process may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpus {
    /// Those that its threads may be scheduled on.
    pub affinity: usize,
    /// How much time on them its cgroups grant, where they limit it.
    pub quota: Option<CpuQuota>,
}

impl Cpus {
    /// How many threads can run at full speed: the lesser of affinity and quota, rounded down, at least one.
    pub fn usable(&self) -> usize {
        let quota = self.quota.map_or(usize::MAX, CpuQuota::whole_cpus);
        self.affinity.min(quota).max(1)
    }
}

impl Machine {
    /// Asks the system. What it does not tell is `None` or unlimited.
    pub fn probe() -> Self {
        Self::probe_under(Path::new("/"))
    }

    /// As [`Machine::probe`], with `/proc` and the mounts of cgroups looked up under another root.
    pub fn probe_under(root: &Path) -> Self {
        let cgroups = Cgroups::of_this_process(root);
        // Rights are a thread's; where the kernel shows only the process's, they are the main thread's.
        let status = [read(root, "proc/thread-self/status"), read(root, "proc/self/status")];
        let status = status.iter().find(|status| !status.is_empty()).map_or("", String::as_str);
        Self {
            cpus: Cpus { affinity: affinity(), quota: cgroups.cpu_quota() },
            memory: Memory::new(&read(root, "proc/meminfo"), cgroups.memory_limit()),
            memlock: limit(Resource::Memlock),
            open_files: limit(Resource::Nofile),
            page_size: page_size(),
            kernel: KernelRelease::parse(&read(root, "proc/sys/kernel/osrelease")),
            io_uring: IoUringPolicy::parse(
                &read(root, "proc/sys/kernel/io_uring_disabled"),
                &read(root, "proc/sys/kernel/io_uring_group"),
            ),
            privileges: Privileges::parse(status),
        }
    }

    /// How many bytes this process may lock, `None` for as many as there are.
    pub fn lockable(&self) -> Option<u64> {
        if self.privileges.ipc_lock { None } else { self.memlock.soft }
    }

    /// Whether the machine's settings let this process use io_uring.
    pub fn io_uring_allowed(&self) -> bool {
        self.io_uring.allows(&self.privileges)
    }
}

fn affinity() -> usize {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => set.count() as usize,
        // More processors than the set can name.
        Err(_) => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

fn limit(resource: Resource) -> Limit {
    let limit = getrlimit(resource);
    Limit { soft: limit.current, hard: limit.maximum }
}

/// A file's text; nothing where it cannot be read.
fn read(root: &Path, path: &str) -> String {
    std::fs::read_to_string(root.join(path)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lesser_of_affinity_and_quota_is_usable_and_never_none() {
        let usable = |affinity, quota: Option<(u64, u64)>| {
            let quota = quota.map(|(quota_us, period_us)| CpuQuota { quota_us, period_us });
            Cpus { affinity, quota }.usable()
        };
        assert_eq!(usable(8, None), 8);
        assert_eq!(usable(8, Some((250_000, 100_000))), 2);
        assert_eq!(usable(2, Some((800_000, 100_000))), 2);
        assert_eq!(usable(8, Some((50_000, 100_000))), 1);
        assert_eq!(usable(0, None), 1);
    }
}
