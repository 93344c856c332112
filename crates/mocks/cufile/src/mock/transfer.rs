//! Moves bytes for real.

use std::ffi::{c_int, c_void};

use super::codes::{
    HANDLE_NOT_REGISTERED, INTERNAL_ERROR, INVALID_FILE_OPEN_FLAG, INVALID_MAPPING_RANGE, INVALID_VALUE,
};
use super::file::File;
use super::memory::resolve;
use super::state::State;

/// One read or write, checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) handle: u64,
    pub(crate) file: File,
    pub(crate) write: bool,
    pub(crate) offset: i64,
    pub(crate) address: u64,
    pub(crate) len: usize,
}

impl State {
    /// What the library checks, in its order. The error is what `errno` becomes.
    pub(crate) fn check(
        &self,
        handle: u64,
        write: bool,
        base: u64,
        len: usize,
        offset: i64,
        base_offset: i64,
    ) -> Result<Transfer, c_int> {
        if handle == 0 || base == 0 {
            return Err(libc::EINVAL);
        }
        let file = *self.files.get(&handle).ok_or(HANDLE_NOT_REGISTERED)?;
        if (write && !file.writable()) || (!write && !file.readable()) {
            return Err(INVALID_FILE_OPEN_FLAG);
        }
        if offset < 0 {
            return Err(INVALID_VALUE);
        }
        // Unregistered memory is not checked by the library, and neither here.
        if let Some((registered, whole)) = self.registered(base) {
            let at = (base - registered) as i64 + base_offset;
            let Ok(at) = u64::try_from(at) else { return Err(INTERNAL_ERROR) };
            if at + len as u64 > whole as u64 {
                return Err(INVALID_MAPPING_RANGE);
            }
        }
        let address = base.wrapping_add_signed(base_offset);
        Ok(Transfer { handle, file, write, offset, address, len })
    }
}

impl Transfer {
    /// Moves at most `most` bytes: how many, or the negative of an `errno`. `None` if the memory is gone.
    pub(crate) fn run(&self, most: usize) -> Option<i64> {
        let len = self.len.min(most);
        if len == 0 {
            return Some(0);
        }
        let memory = resolve(self.address, len)?;
        let mut done = 0;
        while done < len {
            // SAFETY: the memory is `len` bytes; audits have shown that it is not freed meanwhile.
            let n = unsafe { self.step(memory.add(done), len - done, self.offset + done as i64) };
            match n {
                0 => break,
                n if n > 0 => done += n as usize,
                n if n == -i64::from(libc::EINTR) => {}
                n => return Some(n),
            }
        }
        Some(done as i64)
    }

    /// # Safety
    /// `memory` is valid for `len` bytes.
    unsafe fn step(&self, memory: *mut u8, len: usize, offset: i64) -> i64 {
        if self.file.is_direct() && !self.write {
            // SAFETY: the caller's promise.
            return unsafe { self.read_direct(memory, len, offset) };
        }
        let fd = if self.file.is_direct() { self.buffered() } else { self.file.fd };
        // SAFETY: the caller's promise; the descriptor is open.
        let n = unsafe {
            match self.write {
                true => libc::pwrite(fd, memory.cast::<c_void>(), len, offset),
                false => libc::pread(fd, memory.cast::<c_void>(), len, offset),
            }
        };
        let result = if n < 0 { -i64::from(errno()) } else { n as i64 };
        if fd != self.file.fd && fd >= 0 {
            // SAFETY: opened by `buffered`.
            unsafe { libc::close(fd) };
        }
        result
    }

    /// Reads past the page cache into aligned memory, and copies from there.
    ///
    /// # Safety
    /// `memory` is valid for `len` bytes.
    unsafe fn read_direct(&self, memory: *mut u8, len: usize, offset: i64) -> i64 {
        const BLOCK: usize = 4096;
        const MOST: usize = 1 << 20;
        let head = offset as usize % BLOCK;
        let len = len.min(MOST - BLOCK);
        let span = (head + len).next_multiple_of(BLOCK);
        let mut bounce = std::ptr::null_mut();
        // SAFETY: a place for the result.
        if unsafe { libc::posix_memalign(&mut bounce, BLOCK, span) } != 0 {
            return -i64::from(libc::ENOMEM);
        }
        // SAFETY: `span` bytes were just allocated, and are freed behind their last use.
        unsafe {
            let n = libc::pread(self.file.fd, bounce, span, offset - head as i64);
            let result = if n < 0 {
                -i64::from(errno())
            } else {
                let moved = (n as usize).saturating_sub(head).min(len);
                memory.copy_from_nonoverlapping(bounce.cast::<u8>().add(head), moved);
                moved as i64
            };
            libc::free(bounce);
            result
        }
    }

    /// The same file without direct I/O, for writes from memory that is not aligned.
    fn buffered(&self) -> c_int {
        let path = format!("/proc/self/fd/{}\0", self.file.fd);
        // SAFETY: a NUL-terminated path.
        unsafe { libc::open(path.as_ptr().cast(), libc::O_WRONLY | libc::O_CLOEXEC) }
    }
}

fn errno() -> c_int {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() }
}

/// Sets `errno`.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() = value };
}
