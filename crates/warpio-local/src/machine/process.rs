//! What this process may do beyond others.

const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_ADMIN: u32 = 21;

/// What this process may do beyond others, from `/proc/self/status`.
///
/// In a user namespace a capability counts for that namespace only, and the machine may still refuse: take this as a
/// reason to try, not as a promise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    /// May lock memory without limit (CAP_IPC_LOCK).
    pub ipc_lock: bool,
    /// May administer the system (CAP_SYS_ADMIN).
    pub sys_admin: bool,
    /// A filter decides which system calls it may make (seccomp), as in most containers.
    pub filtered: bool,
    /// The groups it belongs to.
    pub groups: Vec<u32>,
}

impl Privileges {
    pub(super) fn parse(status: &str) -> Self {
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or("");
        let capabilities = u64::from_str_radix(field("CapEff").trim(), 16).unwrap_or(0);
        let has = |capability: u32| capabilities >> capability & 1 != 0;
        let numbers = |text: &str| -> Vec<u32> { text.split_whitespace().filter_map(|n| n.parse().ok()).collect() };
        let mut groups = numbers(field("Groups"));
        // Real, effective, saved, file system.
        groups.extend(numbers(field("Gid")).get(1));
        Self {
            ipc_lock: has(CAP_IPC_LOCK),
            sys_admin: has(CAP_SYS_ADMIN),
            filtered: field("Seccomp").trim() == "2",
            groups,
        }
    }

    /// Whether it belongs to a group.
    pub fn is_member(&self, group: u32) -> bool {
        self.groups.contains(&group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tcat\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1001\t1000\t1001\nGroups:\t4 24 \n\
                          CapInh:\t0000000000000000\nCapEff:\t0000000000004000\nSeccomp:\t2\nSeccomp_filters:\t1\n";

    #[test]
    fn capabilities_groups_and_filters_are_read() {
        let privileges = Privileges::parse(STATUS);
        assert!(privileges.ipc_lock && !privileges.sys_admin && privileges.filtered);
        assert!([4, 24, 1001].iter().all(|g| privileges.is_member(*g)));
        assert!(!privileges.is_member(1000), "the real group gives no rights");
        assert!(Privileges::parse("CapEff:\t000001fffeffffff\nSeccomp:\t0\n").sys_admin);
    }

    #[test]
    fn without_a_status_nothing_is_claimed() {
        assert_eq!(Privileges::parse(""), Privileges::default());
    }
}
