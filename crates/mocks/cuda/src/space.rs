//! Where device memory lives.
//!
//! Each device has one region of addresses mapped `PROT_NONE`: those are the device pointers, and the CPU faults on
//! them as it does on a real GPU's. The bytes are in a memfd of the same size, mapped a second time, readable and
//! writable, at an alias that only the mock knows. Both are sparse: a page costs memory once it is written.

use std::{collections::BTreeMap, ffi::c_void, io, os::fd::OwnedFd, ptr};

use rustix::{
    fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create},
    mm::{MapFlags, ProtFlags, mmap, mmap_anonymous},
};

/// The addresses of one device: enough to reuse one only after hundreds of GiB were allocated, so that a pointer used
/// after its memory was freed is noticed.
const REGION: u64 = 256 << 30;
const PAGE: u64 = 4096;

/// Memory below this size starts in the middle of a page: CUDA promises 256 bytes of alignment, not 4096.
const SMALL: u64 = 64 << 10;
const SMALL_OFFSET: u64 = 512;

/// The address region of one device.
#[derive(Debug)]
pub(crate) struct Space {
    base: u64,
    alias: u64,
    file: OwnedFd,
    /// Pages taken: offset of the first one to their length in bytes.
    taken: BTreeMap<u64, u64>,
    /// Where to look next. It only moves on, so that addresses are reused as late as possible.
    cursor: u64,
}

impl Space {
    pub(crate) fn new() -> io::Result<Self> {
        let file = memfd_create("mock-cuda", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, REGION)?;
        let len = usize::try_from(REGION).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else can know it.
        let base = unsafe {
            mmap_anonymous(ptr::null_mut(), len, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE)
        }?;
        // SAFETY: likewise; the file is ours alone and stays as long as this region.
        let alias = unsafe {
            mmap(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                &file,
                0,
            )
        }?;
        Ok(Self { base: base as u64, alias: alias as u64, file, taken: BTreeMap::new(), cursor: 0 })
    }

    pub(crate) fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.base) < REGION
    }

    /// Finds room for `len` bytes and gives their device address.
    pub(crate) fn take(&mut self, len: u64) -> Option<u64> {
        let lead = if len < SMALL { SMALL_OFFSET } else { 0 };
        let pages = len.checked_add(lead)?.checked_next_multiple_of(PAGE)?;
        let start = self.room(self.cursor, pages).or_else(|| self.room(0, pages))?;
        self.taken.insert(start, pages);
        // The next one follows at once, as a driver's pools have it: whoever takes two for one is found out.
        self.cursor = start + pages;
        Some(self.base + start + lead)
    }

    /// The first gap of `len` bytes at or after `from`.
    fn room(&self, from: u64, len: u64) -> Option<u64> {
        let before = self.taken.range(..=from).next_back();
        let mut start = before.map_or(from, |(offset, taken)| from.max(offset + taken));
        for (offset, taken) in self.taken.range(from..) {
            if start.checked_add(len)? <= *offset {
                break;
            }
            start = start.max(offset + taken);
        }
        (start.checked_add(len)? <= REGION).then_some(start)
    }

    /// Returns memory that [`take`](Self::take) gave, its pages to the system.
    pub(crate) fn give_back(&mut self, address: u64) {
        let start = (address - self.base) & !(PAGE - 1);
        if let Some(pages) = self.taken.remove(&start) {
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            if let Err(error) = fallocate(&self.file, punch, start, pages) {
                eprintln!("mock-cuda: freed device memory stays in use: {error}");
            }
        }
    }

    /// The address at which the CPU finds the byte of a device address of this region.
    pub(crate) fn alias(&self, address: u64) -> *mut c_void {
        (self.alias + (address - self.base)) as *mut c_void
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_not_reused_soon() {
        let mut space = Space::new().unwrap();
        let first = space.take(100).unwrap();
        space.give_back(first);
        let second = space.take(100).unwrap();
        assert_ne!(first, second);
    }

    #[test]
    fn room_is_found_again_after_wrapping_around() {
        let mut space = Space::new().unwrap();
        let kept = space.take(SMALL).unwrap();
        let whole = space.take(REGION - 4 * SMALL).unwrap();
        assert!(space.take(REGION / 2).is_none());
        space.give_back(whole);
        let half = space.take(REGION / 2).unwrap();
        assert!(half >= kept + SMALL);
        assert!(space.take(REGION).is_none());
    }

    #[test]
    fn whole_pages_follow_each_other() {
        let mut space = Space::new().unwrap();
        let first = space.take(SMALL).unwrap();
        assert_eq!(space.take(SMALL).unwrap(), first + SMALL);
    }

    #[test]
    fn bytes_live_behind_the_alias_until_given_back() {
        let mut space = Space::new().unwrap();
        let address = space.take(8).unwrap();
        let byte = space.alias(address).cast::<u8>();
        // SAFETY: the alias of eight taken bytes, which nothing else uses.
        unsafe { byte.write(7) };
        space.give_back(address);
        // SAFETY: the alias mapping stays for the life of the process; the page was given back and reads as zero.
        assert_eq!(unsafe { byte.read() }, 0);
    }
}
