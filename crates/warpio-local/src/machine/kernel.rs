//! The kernel and its setting for io_uring.

use super::Privileges;
use std::fmt;

/// The release of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRelease {
    /// The first number.
    pub major: u32,
    /// The second.
    pub minor: u32,
    /// All of it, as `uname -r` shows it.
    pub text: String,
}

impl KernelRelease {
    /// Reads `6.18.44-fc-v1098`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let mut numbers = text.split(['.', '-', '+', '_']).map(|n| n.parse().ok());
        Some(Self { major: numbers.next()??, minor: numbers.next()??, text: text.to_owned() })
    }

    /// Whether it is this release or a later one. Distributions bring features to older releases: where a feature can
    /// be tried, trying is better.
    pub fn at_least(&self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

impl fmt::Display for KernelRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Who may use io_uring, by `kernel.io_uring_disabled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IoUringPolicy {
    /// All, or the kernel has no such setting (before Linux 6.6).
    Everybody,
    /// Those with CAP_SYS_ADMIN, and the group `kernel.io_uring_group` where one is set.
    Group(Option<u32>),
    /// Nobody.
    Nobody,
}

impl IoUringPolicy {
    pub(super) fn parse(disabled: &str, group: &str) -> Self {
        match disabled.trim() {
            "1" => Self::Group(group.trim().parse().ok()),
            "2" => Self::Nobody,
            _ => Self::Everybody,
        }
    }

    /// Whether a process with these privileges may.
    pub fn allows(self, privileges: &Privileges) -> bool {
        match self {
            Self::Everybody => true,
            Self::Group(group) => privileges.sys_admin || group.is_some_and(|g| privileges.is_member(g)),
            Self::Nobody => false,
        }
    }
}

impl fmt::Display for IoUringPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everybody => f.write_str("allowed"),
            Self::Group(Some(group)) => {
                write!(f, "only for group {group} (kernel.io_uring_disabled is 1)")
            }
            Self::Group(None) => f.write_str("only for administrators (kernel.io_uring_disabled is 1)"),
            Self::Nobody => f.write_str("disabled (kernel.io_uring_disabled is 2)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        let release = KernelRelease::parse("6.18.44-fc-v1098\n").unwrap();
        assert_eq!((release.major, release.minor, release.to_string().as_str()), (6, 18, "6.18.44-fc-v1098"));
        assert!(release.at_least(6, 18) && release.at_least(6, 5) && release.at_least(5, 19));
        assert!(!release.at_least(6, 19) && !release.at_least(7, 0));
        assert!(KernelRelease::parse("6.1-rc1").unwrap().at_least(6, 1));
        assert_eq!(KernelRelease::parse("5.14+").map(|r| r.minor), Some(14));
        for text in ["", "6", "Darwin", "6.x"] {
            assert_eq!(KernelRelease::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_setting_for_io_uring_is_read() {
        assert_eq!(IoUringPolicy::parse("0\n", "-1\n"), IoUringPolicy::Everybody);
        assert_eq!(IoUringPolicy::parse("", ""), IoUringPolicy::Everybody);
        assert_eq!(IoUringPolicy::parse("1\n", "-1\n"), IoUringPolicy::Group(None));
        assert_eq!(IoUringPolicy::parse("1\n", "1001\n"), IoUringPolicy::Group(Some(1001)));
        assert_eq!(IoUringPolicy::parse("2\n", "1001\n"), IoUringPolicy::Nobody);
    }

    #[test]
    fn groups_and_administrators_pass_where_others_do_not() {
        let nobody = Privileges::default();
        let member = Privileges { groups: vec![7, 1001], ..Privileges::default() };
        let admin = Privileges { sys_admin: true, ..Privileges::default() };
        let group = IoUringPolicy::Group(Some(1001));
        assert!(group.allows(&member) && group.allows(&admin) && !group.allows(&nobody));
        let closed = IoUringPolicy::Group(None);
        assert!(!closed.allows(&member) && closed.allows(&admin));
        assert!(IoUringPolicy::Everybody.allows(&nobody) && !IoUringPolicy::Nobody.allows(&admin));
        assert!(IoUringPolicy::Nobody.to_string().contains("io_uring_disabled"));
    }
}
