//! What the calling thread has asked of the disks.

use std::mem::MaybeUninit;

/// How many blocks of 512 bytes this thread has had read from disks since it began. Always zero where the kernel does
/// not keep account.
pub fn blocks_read() -> libc::c_long {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is that of a live local with room for one rusage.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: a rusage is integers only, for which zeros are values; the call has at most overwritten them.
    unsafe { usage.assume_init() }.ru_inblock
}
