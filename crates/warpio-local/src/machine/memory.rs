//! Memory.

/// Memory that this process may use, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What the kernel has now. A virtual machine can be given more later.
    pub total: Option<u64>,
    /// What the kernel could hand out without swapping.
    pub available: Option<u64>,
    /// What the process's cgroups allow, where they limit it.
    pub cgroup_limit: Option<u64>,
}

impl Memory {
    pub(super) fn new(meminfo: &str, cgroup_limit: Option<u64>) -> Self {
        Self { total: field(meminfo, "MemTotal"), available: field(meminfo, "MemAvailable"), cgroup_limit }
    }

    /// What this process can have at most: the lesser of what the machine has and what cgroups allow.
    pub fn limit(&self) -> Option<u64> {
        match (self.total, self.cgroup_limit) {
            (Some(total), Some(limit)) => Some(total.min(limit)),
            (total, limit) => total.or(limit),
        }
    }
}

/// `MemTotal:       24683568 kB`
fn field(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let (number, unit) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let number: u64 = number.parse().ok()?;
    match unit.trim() {
        "kB" => number.checked_mul(1024),
        "" => Some(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       24683568 kB\nMemFree:        23299792 kB\nMemAvailable:   24334916 kB\n";

    #[test]
    fn kilobytes_of_meminfo_become_bytes() {
        let memory = Memory::new(MEMINFO, None);
        assert_eq!(memory.total, Some(24_683_568 * 1024));
        assert_eq!(memory.available, Some(24_334_916 * 1024));
    }

    #[test]
    fn the_lesser_of_machine_and_cgroup_is_the_limit() {
        assert_eq!(Memory::new(MEMINFO, None).limit(), Some(24_683_568 * 1024));
        assert_eq!(Memory::new(MEMINFO, Some(1 << 30)).limit(), Some(1 << 30));
        assert_eq!(Memory::new(MEMINFO, Some(1 << 50)).limit(), Some(24_683_568 * 1024));
        assert_eq!(Memory::new("", Some(1 << 30)).limit(), Some(1 << 30));
        assert_eq!(Memory::new("", None).limit(), None);
    }

    #[test]
    fn what_meminfo_does_not_say_is_unknown() {
        assert_eq!(field("MemTotal: many kB\n", "MemTotal"), None);
        assert_eq!(field("MemTotal: 5 pages\n", "MemTotal"), None);
        assert_eq!(field("MemTotalX: 5 kB\n", "MemTotal"), None);
        assert_eq!(field("HugePages_Total:       7\n", "HugePages_Total"), Some(7));
        assert_eq!(field(&format!("MemTotal: {} kB", u64::MAX), "MemTotal"), None);
    }
}
