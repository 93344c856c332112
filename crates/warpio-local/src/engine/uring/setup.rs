//! Making a ring with as much as the kernel grants.

use io_uring::{IoUring, Probe, opcode};
use libc::EINVAL;

use crate::engine::ring::Unavailable;

/// What the kernel grants a ring beyond the ring itself. Each spares interrupts or locks; none is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UringFeatures {
    /// One thread submits (Linux 6.0).
    pub single_issuer: bool,
    /// Completions are processed when that thread asks for them (Linux 6.1).
    pub defer_taskrun: bool,
    /// Completions interrupt nobody (Linux 5.19).
    pub coop_taskrun: bool,
}

const BEST_FIRST: [UringFeatures; 3] = [
    UringFeatures { single_issuer: true, defer_taskrun: true, coop_taskrun: false },
    UringFeatures { single_issuer: false, defer_taskrun: false, coop_taskrun: true },
    UringFeatures { single_issuer: false, defer_taskrun: false, coop_taskrun: false },
];

/// A ring with room for `entries` submissions, for the calling thread alone.
pub(super) fn build(entries: u32) -> Result<(IoUring, UringFeatures), Unavailable> {
    let mut refusal = None;
    for features in BEST_FIRST {
        match with(features, entries) {
            Ok(mut ring) => {
                check_operations(&ring)?;
                check_submission(&mut ring)?;
                return Ok((ring, features));
            }
            // An older kernel does not know a flag.
            Err(error) if error.raw_os_error() == Some(EINVAL) => refusal = Some(error),
            Err(error) => return Err(Unavailable::refused(error)),
        }
    }
    Err(refusal.map_or_else(|| Unavailable::because("no ring"), Unavailable::refused))
}

fn with(features: UringFeatures, entries: u32) -> std::io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.dontfork();
    if features.single_issuer {
        builder.setup_single_issuer();
    }
    if features.defer_taskrun {
        builder.setup_defer_taskrun().setup_taskrun_flag();
    }
    if features.coop_taskrun {
        builder.setup_coop_taskrun().setup_taskrun_flag();
    }
    builder.build(entries)
}

/// A filter may let a ring be made and forbid its use. What was submitted then would never be done.
fn check_submission(ring: &mut IoUring) -> Result<(), Unavailable> {
    // SAFETY: an operation that does nothing refers to nothing.
    let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
    if pushed.is_err() {
        return Err(Unavailable::because("a ring has no room"));
    }
    loop {
        match ring.submit_and_wait(1) {
            Ok(_) => break,
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) => return Err(Unavailable::refused(error)),
        }
    }
    ring.completion().for_each(drop);
    Ok(())
}

/// Rings came with Linux 5.1, reads and writes without vectors with 5.6.
fn check_operations(ring: &IoUring) -> Result<(), Unavailable> {
    let mut probe = Probe::new();
    let known = ring.submitter().register_probe(&mut probe).is_ok()
        && probe.is_supported(opcode::Read::CODE)
        && probe.is_supported(opcode::Write::CODE);
    if known { Ok(()) } else { Err(Unavailable::because("the kernel's rings are too old (before Linux 5.6)")) }
}
