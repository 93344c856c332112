//! What the machine gives this process.

use indicatif::BinaryBytes;
use serde_json::{Map, Value, json};
use warpio::machine::{CpuQuota, Limit, Machine};

use super::table::Table;

/// The members that tell of it.
pub(super) fn json(machine: &Machine) -> Map<String, Value> {
    let Machine { cpus, memory, .. } = machine;
    let limit = |limit: Limit| json!({"soft": limit.soft, "hard": limit.hard});
    let members = [
        ("kernel", json!(machine.kernel.as_ref().map(|kernel| &kernel.text))),
        ("page_size", json!(machine.page_size)),
        (
            "cpus",
            json!({
                "usable": cpus.usable(),
                "affinity": cpus.affinity,
                "quota": cpus.quota.map(CpuQuota::cpus),
            }),
        ),
        (
            "memory",
            json!({
                "total": memory.total,
                "available": memory.available,
                "cgroup_limit": memory.cgroup_limit,
            }),
        ),
        ("memlock", limit(machine.memlock)),
        ("lockable", json!(machine.lockable())),
        ("open_files", limit(machine.open_files)),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The same for people.
pub(super) fn rows(machine: &Machine, table: &mut Table) {
    let Machine { cpus, memory, .. } = machine;
    let kernel = machine.kernel.as_ref().map_or("unknown", |kernel| &kernel.text);
    table.row(["kernel", kernel]);
    let quota = cpus.quota.map_or("no quota".to_owned(), |quota| format!("quota {:.2}", quota.cpus()));
    table.row(["processors", &format!("{} usable (affinity {}, {quota})", cpus.usable(), cpus.affinity)]);
    let cgroup = memory
        .cgroup_limit
        .map_or("no limit by cgroups".to_owned(), |limit| format!("cgroups allow {}", BinaryBytes(limit)));
    let (total, available) = (bytes(memory.total, "unknown"), bytes(memory.available, "unknown"));
    table.row(["memory", &format!("{total}, {available} available, {cgroup}")]);
    let lockable = match machine.lockable() {
        None => "unlimited".to_owned(),
        lockable => format!("{}, can be raised to {}", bytes(lockable, ""), bytes(machine.memlock.hard, "unlimited")),
    };
    table.row(["locked memory", &lockable]);
    let count = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    let files = machine.open_files;
    table.row(["open files", &format!("{}, can be raised to {}", count(files.soft), count(files.hard))]);
}

fn bytes(bytes: Option<u64>, none: &str) -> String {
    bytes.map_or(none.to_owned(), |bytes| BinaryBytes(bytes).to_string())
}
