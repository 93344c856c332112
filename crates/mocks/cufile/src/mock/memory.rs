//! Memory of callers: where it is, and whether it is still there.

use super::cuda::cuda;

/// Where the CPU finds `len` bytes at an address: device memory of the software GPU, or host memory as it is. `None` if
/// they are not there (any more).
pub(crate) fn resolve(address: u64, len: usize) -> Option<*mut u8> {
    let device = cuda().and_then(|cuda| cuda.resolve(address, len));
    device.or_else(|| is_readable(address, len).then_some(address as usize as *mut u8))
}

/// Whether the kernel can read memory at both ends of a range. Device addresses of the software GPU cannot be read.
fn is_readable(address: u64, len: usize) -> bool {
    let last = address.wrapping_add(len.saturating_sub(1) as u64);
    [address, last].into_iter().all(readable_at)
}

fn readable_at(address: u64) -> bool {
    let mut ends = [0; 2];
    // SAFETY: two places for descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return false;
    }
    // SAFETY: the kernel refuses an address that cannot be read; the descriptors are ours.
    unsafe {
        let written = libc::write(ends[1], address as usize as *const libc::c_void, 1);
        libc::close(ends[0]);
        libc::close(ends[1]);
        written == 1
    }
}
