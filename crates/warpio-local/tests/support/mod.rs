//! What several test binaries need. Each uses a part of it.
#![allow(dead_code, unused_imports)]

pub(crate) mod engines;
pub(crate) mod evicted;
pub(crate) mod fuse;
pub(crate) mod place;

use proptest::prelude::*;
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::process::{Uid, geteuid};
use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
pub(crate) use warpio_core::testing::pattern;

/// A directory where the build lies, which is on a disk more often than the system's temporary one.
pub(crate) fn disk_dir() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Ranges of a source of `len` bytes that are empty, alike, next to each other, overlapping, across its end or behind it,
/// and longer than a slot.
pub(crate) fn any_ranges(len: usize) -> impl Strategy<Value = Vec<Range<u64>>> {
    let (end, pages) = (len as u64, len as u64 / 4096 + 1);
    let start = prop_oneof![0..end + 9000, 0..5000u64, (0..pages).prop_map(|page| page * 4096)];
    let len = prop_oneof![Just(0u64), Just(4096), Just(512), 1..300u64, 1..9000u64, 60_000..200_000u64];
    prop::collection::vec((start, len).prop_map(|(start, len)| start..start + len), 0..60)
}

/// Runs `test` in a tokio runtime of its own.
pub(crate) fn run(test: impl AsyncFnOnce()) {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(test());
}

/// A file with these bytes, on the disk and in the page cache.
pub(crate) fn file_with(path: &Path, bytes: &[u8]) -> File {
    let mut file = File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
    file
}

/// Says so that it cannot be overlooked that a test did not run here; an error where the environment asks for all.
pub(crate) fn skipped(why: &str) {
    assert!(std::env::var_os("WARPIO_TEST_ALL").is_none(), "WARPIO_TEST_ALL is set, but {why}");
    // Past the capture of the test harness.
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test").to_owned();
    let _ = writeln!(std::io::stderr(), "\n!!! SKIPPED {name}: {why}\n");
}

/// Runs `test` on a tmpfs of its own with these mount options. The mount is seen by this one thread and ends with it.
pub(crate) fn on_tmpfs(options: &str, test: impl FnOnce(&Path) + Send) {
    on_mount("tmpfs", options, test);
}

/// As [`on_tmpfs`], on a file system that has no direct I/O.
pub(crate) fn on_ramfs(test: impl FnOnce(&Path) + Send) {
    on_mount("ramfs", "", test);
}

fn on_mount(kind: &str, options: &str, test: impl FnOnce(&Path) + Send) {
    let dir = tempfile::tempdir().unwrap();
    let mounted = in_thread(|| {
        private_mount(dir.path(), kind, options)?;
        test(dir.path());
        Ok::<(), rustix::io::Errno>(())
    });
    if let Err(e) = mounted {
        skipped(&format!("cannot mount a {kind} ({e}); run as root with CAP_SYS_ADMIN"));
    }
}

/// Makes what the calling thread has mounted at `path` read-only.
pub(crate) fn make_read_only(path: &Path) {
    rustix::mount::mount_remount(path, MountFlags::RDONLY, "").unwrap();
}

fn private_mount(at: &Path, kind: &str, options: &str) -> rustix::io::Result<()> {
    // SAFETY: FILES is not among the flags, so all threads keep the same descriptors.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS)? };
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private)?;
    let options = CString::new(options).unwrap();
    rustix::mount::mount(kind, at, kind, MountFlags::empty(), options.as_c_str())
}

/// Runs `test` on a disk that is this file.
pub(crate) fn on_loop_device(file: &Path, test: impl FnOnce(&Path)) {
    let losetup = |args: &[&str], path: &Path| {
        let output = Command::new("losetup").args(args).arg(path).output();
        output.map_err(|e| e.to_string()).and_then(|output| match output.status.success() {
            true => Ok(String::from_utf8(output.stdout).unwrap()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        })
    };
    let device = match losetup(&["--find", "--show"], file) {
        Ok(device) => device,
        Err(e) => return skipped(&format!("cannot make a loop device ({e}); run as root")),
    };
    let device = Path::new(device.trim());
    // Held open, it is detached now and goes with its last descriptor, even if the test panics.
    let held = File::open(device);
    losetup(&["--detach"], device).unwrap();
    match held {
        Ok(_held) => test(device),
        Err(e) => skipped(&format!("cannot open a loop device: {e}")),
    }
}

/// Runs `test` as a user who owns nothing, if this is root; else as who we are. That user has no capabilities.
pub(crate) fn as_nobody<T: Send>(test: impl FnOnce() -> T + Send) -> T {
    in_thread(|| {
        if geteuid().is_root() {
            // Only this thread's; it ends with it.
            rustix::thread::set_thread_res_uid(None, Uid::from_raw(65534), None).unwrap();
        }
        test()
    })
}

/// Runs it in a thread that bears the name of this one.
fn in_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(name).spawn_scoped(scope, run).unwrap();
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Memory that begins at a multiple of an alignment.
pub(crate) struct AlignedBuf {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuf {
    pub(crate) fn new(len: usize, align: usize) -> Self {
        let bytes = vec![0; len + align];
        let start = bytes.as_ptr().align_offset(align);
        Self { bytes, start, len }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}
