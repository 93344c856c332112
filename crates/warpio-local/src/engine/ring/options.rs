use std::fmt;
use std::io;

use warpio_core::StagingSlab;

use crate::machine::Machine;

/// A ring for fewer operations is not worth having.
const LEAST_DEPTH: usize = 8;

/// How a ring engine is started.
#[derive(Clone, Debug)]
pub struct RingOptions {
    /// Ring threads, each with a ring of its own; at least one.
    pub threads: usize,
    /// The most reads and writes in flight on one file system, per thread; fewer where locked memory is scarce. A ring has room for a third more, so that
    /// storage that stops answering cannot keep others from being served.
    pub depth: usize,
    /// Staging memory that the kernel is asked to keep mapped, which spares it the work of finding the pages of each
    /// transfer. What exceeds the limit of locked memory is left out.
    pub fixed: Vec<StagingSlab>,
}

impl Default for RingOptions {
    /// One thread, which serves more small reads than a processor can consume (`docs/results.md`), and 128 transfers,
    /// which is what two queues of an NVMe disk hold.
    fn default() -> Self {
        Self { threads: 1, depth: 128, fixed: Vec::new() }
    }
}

impl RingOptions {
    /// How many operations one ring has room for.
    pub(in crate::engine) fn ring_depth(&self) -> usize {
        let depth = self.depth.clamp(1, 4096);
        depth + depth.div_ceil(3)
    }

    /// The depths to try, as rings are locked memory, which may be scarce: `make` is called with each until it does not
    /// fail for want of memory.
    pub(in crate::engine) fn with_less_and_less<T>(
        &self,
        mut make: impl FnMut(usize) -> Result<T, Unavailable>,
    ) -> Result<(T, usize), Unavailable> {
        let mut depth = self.ring_depth();
        loop {
            match make(depth) {
                Ok(made) => return Ok((made, depth)),
                Err(refusal) if refusal.is_want_of_memory() && depth > LEAST_DEPTH => depth = depth.div_ceil(2),
                Err(refusal) => return Err(refusal),
            }
        }
    }

    /// How many threads there are.
    pub(in crate::engine) fn ring_threads(&self) -> usize {
        self.threads.clamp(1, 64)
    }
}

/// Why there is no ring.
#[derive(Debug, thiserror::Error)]
#[error("io_uring is not available: {reason}")]
pub struct Unavailable {
    reason: String,
    #[source]
    source: Option<io::Error>,
}

impl Unavailable {
    /// What the kernel said when a ring was asked for, in the light of the machine's settings.
    pub(in crate::engine) fn refused(source: io::Error) -> Self {
        let machine = Machine::probe();
        let reason = match source.raw_os_error() {
            Some(libc::EPERM) if !machine.io_uring_allowed() => {
                format!("it is {} (EPERM)", machine.io_uring)
            }
            Some(libc::EPERM) => "a filter for system calls (seccomp), as of a container, forbids it (EPERM)".into(),
            // The call came with Linux 5.1.
            Some(libc::ENOSYS) if machine.kernel.as_ref().is_some_and(|kernel| kernel.at_least(5, 1)) => {
                "a filter for system calls (seccomp), as of a container, hides it (ENOSYS)".into()
            }
            Some(libc::ENOSYS) => "the kernel lacks it (ENOSYS)".into(),
            Some(libc::ENOMEM) => {
                let limit =
                    machine.lockable().map_or("not limited".to_owned(), |bytes| format!("limited to {bytes} bytes"));
                format!("no memory for a ring (ENOMEM; locked memory is {limit})")
            }
            Some(libc::EMFILE | libc::ENFILE) => "no file descriptor is left for it".into(),
            _ => source.to_string(),
        };
        Self { reason, source: Some(source) }
    }

    pub(in crate::engine) fn because(reason: impl fmt::Display) -> Self {
        Self { reason: reason.to_string(), source: None }
    }

    fn is_want_of_memory(&self) -> bool {
        self.source.as_ref().and_then(io::Error::raw_os_error) == Some(libc::ENOMEM)
    }

    /// The reason, for `warpio info`.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}
