//! File systems that a test makes for itself.

use std::ffi::CString;
use std::io::Write;
use std::path::Path;

use rustix::mm::{MapFlags, ProtFlags, mlock, mmap, munmap};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change, mount_remount};

/// Says so that it cannot be overlooked that a test did not run here; an error where the environment asks for all.
pub(crate) fn skipped(why: &str) {
    assert!(std::env::var_os("WARPIO_TEST_ALL").is_none(), "WARPIO_TEST_ALL is set, but {why}");
    // Past the capture of the test harness.
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "\n!!! SKIPPED {name}: {why}\n");
}

/// Runs `test` on a tmpfs of its own with these mount options. It is seen by this thread and those that it starts, and
/// ends with them.
pub(crate) fn on_tmpfs(options: &str, test: impl FnOnce(&Path) + Send) {
    let dir = tempfile::tempdir().unwrap();
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    let mounted = std::thread::scope(|scope| {
        let run = || {
            private_tmpfs(dir.path(), options)?;
            test(dir.path());
            rustix::io::Result::Ok(())
        };
        let thread = std::thread::Builder::new().name(name).spawn_scoped(scope, run).unwrap();
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    if let Err(error) = mounted {
        skipped(&format!("no tmpfs can be mounted ({error}); run as root with CAP_SYS_ADMIN"));
    }
}

/// Keeps what is cached of a file in the cache, where a process may lock as much.
pub(crate) struct Held {
    map: *mut std::ffi::c_void,
    len: usize,
}

pub(crate) fn hold_in_cache(file: &std::fs::File) -> Held {
    let len = file.metadata().unwrap().len() as usize;
    // SAFETY: a mapping at a place that the kernel chooses, which nobody reads; unmapped once, at the end.
    unsafe {
        let map = mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0).unwrap();
        // Where it is refused, the kernel is only unlikely to evict them.
        let _ = mlock(map, len);
        Held { map, len }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: mapped above.
        unsafe { munmap(self.map, self.len) }.unwrap();
    }
}

/// Makes what the calling thread has mounted at `path` read-only.
pub(crate) fn make_read_only(path: &Path) {
    mount_remount(path, MountFlags::RDONLY, "").unwrap();
}

fn private_tmpfs(at: &Path, options: &str) -> rustix::io::Result<()> {
    // SAFETY: FILES is not among the flags, so that all threads keep the same descriptors.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS)? };
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let options = CString::new(options).unwrap();
    mount("tmpfs", at, "tmpfs", MountFlags::empty(), options.as_c_str())
}
