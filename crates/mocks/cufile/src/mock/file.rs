//! Registration of files.

use std::ffi::c_int;

use super::codes::{
    Descriptor, HANDLE_ALREADY_REGISTERED, HANDLE_NOT_REGISTERED, INVALID_FILE_OPEN_FLAG, INVALID_FILE_TYPE,
    INVALID_VALUE, Status,
};
use super::state::{State, enter, planned};

/// A registered file, known by the number of its descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File {
    pub(crate) fd: c_int,
    pub(crate) flags: c_int,
    /// Which file it was when it was registered.
    identity: (u64, u64),
}

impl File {
    pub(crate) fn readable(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_WRONLY
    }

    pub(crate) fn writable(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.flags & libc::O_DIRECT != 0
    }

    /// Whether the descriptor is still that of the file that was registered.
    pub(crate) fn is_still_there(&self) -> bool {
        identity(self.fd).is_some_and(|(identity, _)| identity == self.identity)
    }
}

/// Which file a descriptor is of, and of what kind.
fn identity(fd: c_int) -> Option<((u64, u64), libc::mode_t)> {
    // SAFETY: all zeros are a valid value; a place for the result.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: as above; any number may be asked for.
    let answer = unsafe { libc::fstat(fd, &mut stat) };
    (answer == 0).then_some(((stat.st_dev, stat.st_ino), stat.st_mode & libc::S_IFMT))
}

impl State {
    fn register(&mut self, fd: c_int) -> Result<u64, c_int> {
        let (identity, kind) = identity(fd).ok_or(INVALID_VALUE)?;
        if !matches!(kind, libc::S_IFREG | libc::S_IFBLK) {
            return Err(INVALID_FILE_TYPE);
        }
        // SAFETY: asks for a number.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        if flags & libc::O_APPEND != 0 {
            return Err(INVALID_FILE_OPEN_FLAG);
        }
        // Also where the number is now that of another file.
        if self.files.values().any(|file| file.fd == fd) {
            return Err(HANDLE_ALREADY_REGISTERED);
        }
        if !self.settings.udev {
            return Err(HANDLE_NOT_REGISTERED);
        }
        let handle = self.new_handle();
        self.files.insert(handle, File { fd, flags, identity });
        Ok(handle)
    }
}

/// # Safety
/// `handle` is null or a place for the result, `descriptor` null or a descriptor.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileHandleRegister(handle: *mut u64, descriptor: *const Descriptor) -> Status {
    let mut state = enter("HandleRegister");
    if let Some(status) = planned(&mut state, "HandleRegister") {
        return status;
    }
    if handle.is_null() || descriptor.is_null() {
        return Status::of(INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let descriptor = unsafe { descriptor.read() };
    if state.driver.open == 0 || descriptor.kind != 1 {
        return Status::of(if descriptor.kind == 1 { super::codes::DRIVER_NOT_INITIALIZED } else { INVALID_VALUE });
    }
    match state.register(descriptor.fd as c_int) {
        Ok(registered) => {
            // SAFETY: the caller's promise.
            unsafe { handle.write(registered) };
            Status::SUCCESS
        }
        Err(code) => Status::of(code),
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuFileHandleDeregister(handle: u64) {
    let mut state = enter("HandleDeregister");
    let _ = planned(&mut state, "HandleDeregister");
    // A second time is harmless, as it was seen to be.
    let Some(file) = state.files.remove(&handle) else { return };
    if !file.is_still_there() {
        state.violation("a file was closed before it was deregistered");
    }
    if state.device.uses_file(handle) {
        state.violation("a file is deregistered under an operation");
    }
}
