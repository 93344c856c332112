//! The limits that control groups set, versions 1 and 2, both at once too.

use std::path::{Component, Path, PathBuf};

/// Time on processors granted in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuQuota {
    /// Microseconds granted.
    pub quota_us: u64,
    /// Of each so many.
    pub period_us: u64,
}

impl CpuQuota {
    /// How many processors that is.
    pub fn cpus(self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }

    /// How many processors that is, rounded down, but one at least.
    pub fn whole_cpus(self) -> usize {
        usize::try_from(self.quota_us / self.period_us.max(1)).unwrap_or(usize::MAX).max(1)
    }

    fn is_below(self, other: Self) -> bool {
        u128::from(self.quota_us) * u128::from(other.period_us)
            < u128::from(other.quota_us) * u128::from(self.period_us)
    }

    /// `cpu.max` of version 2: `max 100000` or `250000 100000`.
    fn parse_max(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let quota_us = words.next()?.parse().ok()?;
        let period_us = words.next().map_or(Some(100_000), |word| word.parse().ok())?;
        Self::new(quota_us, period_us)
    }

    /// `cpu.cfs_quota_us` and `cpu.cfs_period_us` of version 1; a quota of -1 is none.
    fn parse_cfs(quota: &str, period: &str) -> Option<Self> {
        Self::new(quota.trim().parse().ok()?, period.trim().parse().ok()?)
    }

    fn new(quota_us: u64, period_us: u64) -> Option<Self> {
        (period_us > 0).then_some(Self { quota_us, period_us })
    }
}

/// The control groups of a process: for each controller, its group's directory and those of the groups above.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cgroups {
    /// Of version 2, which has one tree for all.
    unified: Vec<PathBuf>,
    /// Of version 1's `cpu`.
    cpu: Vec<PathBuf>,
    /// Of version 1's `memory`.
    memory: Vec<PathBuf>,
}

impl Cgroups {
    /// Those of this process, with `/proc` and the mounts looked up under `root`.
    pub fn of_this_process(root: &Path) -> Self {
        // A mount point may have a name that is no text; that must not hide the others.
        let read = |path| String::from_utf8_lossy(&std::fs::read(root.join(path)).unwrap_or_default()).into_owned();
        let mut this = Self::parse(&read("proc/self/cgroup"), &read("proc/self/mountinfo"));
        for dirs in [&mut this.unified, &mut this.cpu, &mut this.memory] {
            for dir in dirs {
                *dir = root.join(dir.strip_prefix("/").unwrap_or(dir));
            }
        }
        this
    }

    /// From `/proc/self/cgroup` and `/proc/self/mountinfo`.
    fn parse(cgroup: &str, mountinfo: &str) -> Self {
        let mounts: Vec<_> = mountinfo.lines().filter_map(Mount::parse).collect();
        let groups: Vec<_> = cgroup.lines().filter_map(Group::parse).collect();
        let levels = |controller: Option<&str>| {
            let group = groups.iter().find(|g| g.has(controller));
            let mount = mounts.iter().find(|m| m.has(controller));
            match (group, mount) {
                (Some(group), Some(mount)) => mount.levels(group.path),
                _ => Vec::new(),
            }
        };
        Self { unified: levels(None), cpu: levels(Some("cpu")), memory: levels(Some("memory")) }
    }

    /// The tightest quota of processors of all levels.
    pub fn cpu_quota(&self) -> Option<CpuQuota> {
        let unified = self.unified.iter().filter_map(|dir| CpuQuota::parse_max(&read(dir, "cpu.max")?));
        let cpu = self
            .cpu
            .iter()
            .filter_map(|dir| CpuQuota::parse_cfs(&read(dir, "cpu.cfs_quota_us")?, &read(dir, "cpu.cfs_period_us")?));
        unified.chain(cpu).reduce(|a, b| if b.is_below(a) { b } else { a })
    }

    /// The tightest limit of memory of all levels, in bytes.
    pub fn memory_limit(&self) -> Option<u64> {
        // Above `memory.high` a group is not killed but slowed down to a crawl.
        let unified = self.unified.iter().flat_map(|dir| ["memory.max", "memory.high"].map(|file| read(dir, file)));
        let memory = self.memory.iter().map(|dir| read(dir, "memory.limit_in_bytes"));
        unified.chain(memory).filter_map(|text| parse_bytes(&text?)).min()
    }
}

/// A limit in bytes, `None` for none: `max`, or version 1's largest multiple of a page.
fn parse_bytes(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| *bytes < 1 << 62)
}

fn read(dir: &Path, file: &str) -> Option<String> {
    std::fs::read_to_string(dir.join(file)).ok()
}

/// A line of `/proc/self/cgroup`: `4:cpu,cpuacct:/a/b`, or of version 2 `0::/a/b`.
struct Group<'a> {
    controllers: &'a str,
    path: &'a str,
}

impl<'a> Group<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(3, ':').skip(1);
        Some(Self { controllers: fields.next()?, path: fields.next()? })
    }

    fn has(&self, controller: Option<&str>) -> bool {
        match controller {
            None => self.controllers.is_empty(),
            Some(name) => self.controllers.split(',').any(|c| c == name),
        }
    }
}

/// A mount of a tree of groups.
struct Mount<'a> {
    /// The group at its top; not always that of the whole tree.
    root: String,
    point: String,
    /// `None` for version 2.
    controllers: Option<&'a str>,
}

impl<'a> Mount<'a> {
    /// `35 31 0:32 /root /point rw shared:9 - cgroup cgroup rw,memory`; how many words stand before the dash varies.
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, fs) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (unescape(mount.next()?), unescape(mount.next()?));
        let mut fs = fs.split(' ');
        let controllers = match fs.next()? {
            "cgroup2" => None,
            "cgroup" => Some(fs.nth(1)?),
            _ => return None,
        };
        Some(Self { root, point, controllers })
    }

    fn has(&self, controller: Option<&str>) -> bool {
        match (controller, self.controllers) {
            (None, None) => true,
            (Some(name), Some(controllers)) => controllers.split(',').any(|c| c == name),
            _ => false,
        }
    }

    /// The directory of a group and those of the groups above it, as far as this mount shows them.
    fn levels(&self, group: &str) -> Vec<PathBuf> {
        // A container may see its own group mounted as if it were the top, and name it by where it is outside; or by
        // `..` when it was moved out of its namespace.
        let below = Path::new(group).strip_prefix(&self.root).unwrap_or(Path::new(""));
        let plain = below.components().all(|c| matches!(c, Component::Normal(_)));
        let below = if plain { below } else { Path::new("") };
        let top = Path::new(&self.point);
        below.ancestors().map(|level| top.join(level)).collect()
    }
}

/// Blanks and backslashes stand in mountinfo as `\040`.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                rest = &rest[at + 4..];
            }
            None => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(dirs: &[PathBuf]) -> Vec<&str> {
        dirs.iter().map(|d| d.to_str().unwrap().trim_end_matches('/')).collect()
    }

    #[test]
    fn version_2_climbs_from_the_group_to_the_mount() {
        let groups = Cgroups::parse(
            "0::/user.slice/app\n",
            "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
        );
        assert_eq!(
            paths(&groups.unified),
            ["/sys/fs/cgroup/user.slice/app", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"]
        );
        assert!(groups.cpu.is_empty() && groups.memory.is_empty());
    }

    #[test]
    fn version_1_finds_each_controller_where_it_is_mounted() {
        let groups = Cgroups::parse(
            "9:name=systemd:/\n4:memory:/jobs/7\n2:cpu,cpuacct:/jobs\n",
            "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n",
        );
        assert_eq!(
            paths(&groups.memory),
            ["/sys/fs/cgroup/memory/jobs/7", "/sys/fs/cgroup/memory/jobs", "/sys/fs/cgroup/memory"]
        );
        assert_eq!(paths(&groups.cpu), ["/sys/fs/cgroup/cpu,cpuacct/jobs", "/sys/fs/cgroup/cpu,cpuacct"]);
        assert!(groups.unified.is_empty());
    }

    #[test]
    fn both_versions_at_once_are_both_found() {
        let groups = Cgroups::parse(
            "4:memory:/a\n0::/b\n",
            "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        );
        assert_eq!(paths(&groups.memory), ["/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory"]);
        assert_eq!(paths(&groups.unified), ["/sys/fs/cgroup/unified/b", "/sys/fs/cgroup/unified"]);
    }

    #[test]
    fn a_container_that_sees_its_group_as_the_top_uses_the_mount_itself() {
        let mount = "35 31 0:32 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let of = |cgroup| Cgroups::parse(cgroup, mount).memory;
        assert_eq!(paths(&of("4:memory:/docker/ab\n")), ["/sys/fs/cgroup/memory"]);
        assert_eq!(paths(&of("4:memory:/docker/ab/job\n")), ["/sys/fs/cgroup/memory/job", "/sys/fs/cgroup/memory"]);
        assert_eq!(paths(&of("4:memory:/elsewhere\n")), ["/sys/fs/cgroup/memory"]);
        assert_eq!(paths(&of("4:memory:/docker/ab/../../x\n")), ["/sys/fs/cgroup/memory"]);
    }

    #[test]
    fn blanks_in_mount_points_are_read() {
        assert_eq!(unescape(r"/a\040b\134c"), r"/a b\c");
        assert_eq!(unescape(r"/a\9"), r"/a\9");
        assert_eq!(unescape("/ä\\040ö"), "/ä ö");
        assert_eq!(unescape("/a\\ä"), "/a\\ä");
    }

    #[test]
    fn lines_that_make_no_sense_are_skipped() {
        let groups = Cgroups::parse("nonsense\n::\n4:memory\n", "a b\n - \n1 2 3 - cgroup\nx - cgroup2 y\n");
        assert_eq!(groups, Cgroups::default());
        assert_eq!((groups.cpu_quota(), groups.memory_limit()), (None, None));
    }

    #[test]
    fn quotas_of_either_version_are_read() {
        let quota = |quota_us, period_us| Some(CpuQuota { quota_us, period_us });
        assert_eq!(CpuQuota::parse_max("max 100000\n"), None);
        assert_eq!(CpuQuota::parse_max("250000 100000\n"), quota(250_000, 100_000));
        assert_eq!(CpuQuota::parse_max("250000\n"), quota(250_000, 100_000));
        assert_eq!(CpuQuota::parse_max("250000 0\n"), None);
        assert_eq!(CpuQuota::parse_max(""), None);
        assert_eq!(CpuQuota::parse_cfs("-1\n", "100000\n"), None);
        assert_eq!(CpuQuota::parse_cfs("50000\n", "25000\n"), quota(50_000, 25_000));
        assert_eq!(quota(250_000, 100_000).map(CpuQuota::cpus), Some(2.5));
    }

    #[test]
    fn no_limit_is_told_from_a_large_one() {
        assert_eq!(parse_bytes("max\n"), None);
        assert_eq!(parse_bytes("9223372036854771712\n"), None);
        assert_eq!(parse_bytes("4294967296\n"), Some(4 << 30));
        assert_eq!(parse_bytes(""), None);
    }
}
