//! A file on which another process holds a lease, as file servers do. In a binary of its own for the signal's sake.

mod support;

use std::fs::File;
use std::io::{PipeWriter, Read};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use support::{disk_dir, file_with, skipped};
use warpio_local::open::OpenOptions;

static LEASE_BROKEN: OnceLock<PipeWriter> = OnceLock::new();

extern "C" fn on_lease_broken(_signal: libc::c_int) {
    if let Some(pipe) = LEASE_BROKEN.get() {
        // SAFETY: write may be called from a signal handler; the byte is a static's.
        unsafe { libc::write(pipe.as_raw_fd(), b"!".as_ptr().cast(), 1) };
    }
}

#[test]
fn a_leased_file_opens_once_the_lease_is_given_up() {
    let dir = disk_dir();
    let path = dir.path().join("x");
    drop(file_with(&path, b"leased"));
    let (mut broken, writer) = std::io::pipe().unwrap();
    LEASE_BROKEN.set(writer).unwrap();
    let handler: extern "C" fn(libc::c_int) = on_lease_broken;
    // SAFETY: the handler does nothing that a signal handler must not.
    unsafe { libc::signal(libc::SIGIO, handler as libc::sighandler_t) };

    let holder = File::options().read(true).write(true).open(&path).unwrap();
    // SAFETY: no memory is passed.
    let leased = unsafe { libc::fcntl(holder.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) };
    if leased != 0 {
        return skipped(&format!("no leases where the build lies ({})", std::io::Error::last_os_error()));
    }
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| OpenOptions::new().read(true).open(&path));
        // Signalled by the attempt that does not wait.
        broken.read_exact(&mut [0]).unwrap();
        // SAFETY: no memory is passed.
        let given_up = unsafe { libc::fcntl(holder.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
        assert_eq!(given_up, 0);
        opened.join().unwrap().unwrap();
    });
}
