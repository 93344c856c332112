//! The machine's limits: those of this one, and those of machines made of files.

mod support;

use rustix::process::{Resource, getrlimit};
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use warpio_local::machine::{CpuQuota, IoUringPolicy, Machine};

/// A root directory with these files.
fn root(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn probe(files: &[(&str, &str)]) -> Machine {
    Machine::probe_under(root(files).path())
}

const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n");
const V2: (&str, &str) = (
    "proc/self/mountinfo",
    "22 27 0:21 / /proc rw - proc proc rw\n30 24 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
);
const V1: (&str, &str) = (
    "proc/self/mountinfo",
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
     32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n",
);

#[test]
fn this_machine_is_what_the_system_says() {
    let machine = Machine::probe();
    let threads = std::thread::available_parallelism().unwrap().get();
    assert_eq!(machine.cpus.usable(), threads, "{:?}", machine.cpus);
    let limit = machine.memory.limit().expect("Linux tells its memory");
    assert!(machine.memory.available.unwrap() > 0 && limit > 64 << 20, "{:?}", machine.memory);
    assert_eq!(machine.open_files.soft, getrlimit(Resource::Nofile).current);
    assert_eq!(machine.memlock.soft, getrlimit(Resource::Memlock).current);
    let kernel = machine.kernel.expect("Linux tells its release");
    let uname = std::process::Command::new("uname").arg("-r").output().unwrap();
    assert_eq!(kernel.text, String::from_utf8(uname.stdout).unwrap().trim());
    assert!(kernel.at_least(3, 0));
}

#[test]
fn locked_memory_is_bounded_only_without_the_right() {
    let mut machine = Machine::probe();
    machine.memlock.soft = Some(8 << 20);
    machine.privileges.ipc_lock = false;
    assert_eq!(machine.lockable(), Some(8 << 20));
    machine.privileges.ipc_lock = true;
    assert_eq!(machine.lockable(), None);
}

#[test]
fn version_2_limits_count_at_every_level() {
    let machine = probe(&[
        MEMINFO,
        V2,
        ("proc/self/cgroup", "0::/pod/app\n"),
        ("sys/fs/cgroup/pod/app/cpu.max", "max 100000\n"),
        ("sys/fs/cgroup/pod/app/memory.max", "3221225472\n"),
        ("sys/fs/cgroup/pod/app/memory.high", "max\n"),
        ("sys/fs/cgroup/pod/cpu.max", "150000 100000\n"),
        ("sys/fs/cgroup/pod/memory.max", "2147483648\n"),
        ("sys/fs/cgroup/cpu.max", "800000 100000\n"),
    ]);
    assert_eq!(machine.cpus.quota, Some(CpuQuota { quota_us: 150_000, period_us: 100_000 }));
    assert_eq!(machine.cpus.usable(), 1);
    assert_eq!((machine.memory.cgroup_limit, machine.memory.limit()), (Some(2 << 30), Some(2 << 30)));
}

#[test]
fn a_throttle_of_memory_counts_as_its_limit() {
    let machine = probe(&[
        MEMINFO,
        V2,
        ("proc/self/cgroup", "0::/\n"),
        ("sys/fs/cgroup/memory.max", "4294967296\n"),
        ("sys/fs/cgroup/memory.high", "1073741824\n"),
    ]);
    assert_eq!(machine.memory.limit(), Some(1 << 30));
}

#[test]
fn version_1_limits_count_at_every_level() {
    let machine = probe(&[
        MEMINFO,
        V1,
        ("proc/self/cgroup", "4:memory:/docker/ab\n2:cpu,cpuacct:/docker/ab\n0::/init\n"),
        ("sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes", "536870912\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "300000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "200000\n"),
    ]);
    assert_eq!(machine.cpus.quota.map(CpuQuota::cpus), Some(1.5));
    assert_eq!((machine.cpus.usable(), machine.memory.limit()), (1, Some(512 << 20)));
}

#[test]
fn of_two_quotas_the_one_that_grants_less_counts_whatever_its_period() {
    let machine = probe(&[
        V2,
        ("proc/self/cgroup", "0::/a\n"),
        ("sys/fs/cgroup/a/cpu.max", "40000 10000\n"),
        ("sys/fs/cgroup/cpu.max", "100000 50000\n"),
    ]);
    assert_eq!(machine.cpus.quota.map(CpuQuota::cpus), Some(2.0));
}

#[test]
fn without_limits_the_machine_is_the_limit() {
    let machine = probe(&[
        MEMINFO,
        V1,
        ("proc/self/cgroup", "4:memory:/a\n2:cpu,cpuacct:/a\n"),
        ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"),
    ]);
    assert_eq!((machine.cpus.quota, machine.memory.cgroup_limit), (None, None));
    assert_eq!(machine.memory.limit(), Some(8 << 30));
    assert_eq!(machine.cpus.usable(), machine.cpus.affinity);
}

#[test]
fn a_machine_that_tells_nothing_has_no_limits_but_processors() {
    let machine = Machine::probe_under(Path::new("/no/such/root"));
    assert_eq!((machine.memory.limit(), machine.kernel.as_ref()), (None, None));
    assert_eq!(machine.io_uring, IoUringPolicy::Everybody);
    assert!(machine.cpus.usable() >= 1);
}

#[test]
fn the_setting_for_io_uring_is_weighed_with_the_process() {
    let with = |disabled, group, status| {
        probe(&[
            ("proc/sys/kernel/io_uring_disabled", disabled),
            ("proc/sys/kernel/io_uring_group", group),
            ("proc/self/status", status),
        ])
    };
    let member = "Gid:\t5\t5\t5\t5\nGroups:\t1001 \nCapEff:\t0\n";
    assert!(with("0\n", "-1\n", member).io_uring_allowed());
    assert!(with("1\n", "1001\n", member).io_uring_allowed());
    assert!(!with("1\n", "1002\n", member).io_uring_allowed());
    assert!(with("1\n", "-1\n", "CapEff:\t000001ffffffffff\n").io_uring_allowed());
    assert!(!with("2\n", "1001\n", "CapEff:\t000001ffffffffff\n").io_uring_allowed());
}
