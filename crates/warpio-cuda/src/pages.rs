//! Anonymous memory in huge pages, where the system has them, on a NUMA node.

use std::ffi::{c_long, c_ulong, c_void};
use std::ptr::{NonNull, null_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use warpio_core::{Error, ErrorKind, Result};

const PAGE: usize = 4096;
const HUGE: usize = 2 << 20;
/// `MPOL_PREFERRED`: another node serves where the named one is full.
const PREFERRED: c_long = 1;

/// Mapped, touched memory.
#[derive(Debug)]
pub(crate) struct Pages {
    base: NonNull<c_void>,
    len: usize,
}

// SAFETY: plain memory, owned.
unsafe impl Send for Pages {}
// SAFETY: nothing is accessible through a shared reference.
unsafe impl Sync for Pages {}

impl Pages {
    /// At least `len` bytes, zeroed and resident, of `node` if one is named.
    pub(crate) fn new(len: usize, node: Option<u32>) -> Result<Self> {
        let align = if len >= HUGE { HUGE } else { PAGE };
        let len = len.checked_next_multiple_of(align).ok_or_else(|| cannot_map(len))?;
        let pages = Self::map_aligned(len, align)?;
        let Self { base, len } = pages;
        if align == HUGE {
            // SAFETY: our mapping. Where the kernel has no huge pages, small ones serve.
            let _ = unsafe { madvise(base.as_ptr(), len, Advice::LinuxHugepage) };
        }
        if let Some(node) = node {
            prefer_node(base, len, node);
        }
        // SAFETY: our mapping, which nothing uses yet.
        unsafe { touch(base, len)? };
        Ok(pages)
    }

    fn map_aligned(len: usize, align: usize) -> Result<Self> {
        let room = if align > PAGE { len.checked_add(align).ok_or_else(|| cannot_map(len))? } else { len };
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { mmap_anonymous(null_mut(), room, protection, flags) };
        let start = start.map_err(|error| cannot_map(len).with_cause(std::io::Error::from(error)))?;
        let lead = (start as usize).next_multiple_of(align) - start as usize;
        // SAFETY: what lies in front of the aligned block and behind it belongs to the mapping made above, and both
        // are multiples of a page.
        unsafe {
            let base = start.byte_add(lead);
            unmap(start, lead);
            unmap(base.byte_add(len), room - lead - len);
            Ok(Self { base: NonNull::new(base).ok_or_else(|| cannot_map(len))?, len })
        }
    }

    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.base.cast()
    }

    /// The length in bytes: what was asked for, in whole pages.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: our mapping, which nothing uses any more.
        unsafe { unmap(self.base.as_ptr(), self.len) };
    }
}

fn cannot_map(len: usize) -> Error {
    Error::new(ErrorKind::OutOfMemory).with_message(format!("cannot map {len} bytes of host memory"))
}

/// # Safety
/// The range is mapped and belongs to the caller.
unsafe fn unmap(start: *mut c_void, len: usize) {
    if len == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    if let Err(error) = unsafe { munmap(start, len) } {
        tracing::warn!(%error, len, "host memory cannot be unmapped");
    }
}

/// Asks for pages of `node`. Where that is refused, as in some containers, any node serves.
fn prefer_node(base: NonNull<c_void>, len: usize, node: u32) {
    let bits = c_ulong::BITS;
    let mut mask = vec![0 as c_ulong; (node / bits) as usize + 1];
    mask[(node / bits) as usize] |= 1 << (node % bits);
    // The kernel reads one bit less than it is told.
    let bits = mask.len() * bits as usize + 1;
    let (base, len, flags): (_, _, c_long) = (base.as_ptr(), len as c_ulong, 0);
    // SAFETY: our mapping, and a mask of as many bits as are named, less one.
    let failed = unsafe { libc::syscall(libc::SYS_mbind, base, len, PREFERRED, mask.as_ptr(), bits as c_ulong, flags) };
    if failed != 0 {
        tracing::debug!(node, error = %std::io::Error::last_os_error(), "memory cannot be bound to a NUMA node");
    }
}

/// Makes the pages resident.
///
/// # Safety
/// The range is mapped, writable, and used by nothing else.
unsafe fn touch(base: NonNull<c_void>, len: usize) -> Result<()> {
    // SAFETY: the caller's promise.
    match unsafe { madvise(base.as_ptr(), len, Advice::LinuxPopulateWrite) } {
        Ok(()) => Ok(()),
        // Not enough memory, whereas touching it by hand would end the process.
        Err(error @ (rustix::io::Errno::NOMEM | rustix::io::Errno::FAULT)) => {
            Err(cannot_map(len).with_cause(std::io::Error::from(error)))
        }
        // A kernel before 5.14.
        Err(_) => {
            for offset in (0..len).step_by(PAGE) {
                // SAFETY: the caller's promise; the offset lies within the range.
                unsafe { base.cast::<u8>().add(offset).write_volatile(0) };
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_resident(pages: &Pages) -> bool {
        let mut state = vec![0u8; pages.len() / PAGE];
        // SAFETY: our mapping, and a byte for each of its pages.
        let failed = unsafe { libc::mincore(pages.base.as_ptr(), pages.len(), state.as_mut_ptr()) };
        failed == 0 && state.iter().all(|page| page & 1 == 1)
    }

    #[test]
    fn pages_are_whole_aligned_zeroed_and_resident() {
        for (len, rounded) in [(1, PAGE), (PAGE + 1, 2 * PAGE), (HUGE, HUGE), (HUGE + 1, 2 * HUGE), (5 << 20, 6 << 20)]
        {
            let pages = Pages::new(len, None).unwrap();
            assert_eq!(pages.len(), rounded);
            assert_eq!(pages.ptr().as_ptr() as usize % if len >= HUGE { HUGE } else { PAGE }, 0);
            assert!(is_resident(&pages), "{len}");
            // SAFETY: mapped and initialised.
            let bytes = unsafe { std::slice::from_raw_parts_mut(pages.ptr().as_ptr(), pages.len()) };
            assert!(bytes.iter().all(|&byte| byte == 0));
            bytes.fill(7);
        }
    }

    #[test]
    fn memory_of_a_node_that_does_not_exist_comes_from_another() {
        for node in [0, 1, 63, 64, 1000] {
            let pages = Pages::new(PAGE, Some(node)).unwrap();
            assert!(is_resident(&pages));
        }
    }

    #[test]
    fn a_length_that_no_machine_has_is_an_error() {
        for len in [usize::MAX, usize::MAX - HUGE, 1 << 60] {
            assert_eq!(Pages::new(len, None).unwrap_err().kind(), ErrorKind::OutOfMemory, "{len}");
        }
    }
}
