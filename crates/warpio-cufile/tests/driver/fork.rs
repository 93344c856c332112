//! A child that was forked from a process that uses cuFile.

use futures::executor::block_on;
use std::sync::Arc;
use warpio_core::{Error, ErrorKind};
use warpio_cufile::{EngineOptions, Setting, Unavailable, wait_for_releases};

use crate::support::{KIB, Rig, finished, succeeded_in_child};

fn is_forked(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<Unavailable>());
    error.kind() == ErrorKind::Unsupported && cause == Some(&Unavailable::Forked)
}

/// In a process of its own, as a fork of one that tests in parallel may find locks held.
#[test]
fn use_after_a_fork_is_an_error_and_no_hang() {
    if succeeded_in_child("fork::use_after_a_fork_is_an_error_and_no_hang") {
        return;
    }
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(256 * KIB);
    let bench = rig.engine(EngineOptions::default());
    let target = bench.target(&path, false);
    finished(bench.read(&target, 0, 64 * KIB));
    let buffer = rig.device.alloc(64 * KIB).unwrap();
    // SAFETY: the child calls what it tests and ends.
    match unsafe { libc::fork() } {
        0 => {
            let transfer = bench.starter().read(Arc::new(target), 0, buffer);
            let refused = [
                bench.driver.properties().is_err_and(|error| is_forked(&error)),
                bench.driver.scoped(Setting::MaxPinnedSize(0)).is_err_and(|error| is_forked(&error)),
                bench.driver.start_statistics(1).is_err_and(|error| is_forked(&error)),
                block_on(transfer).is_err_and(|failed| is_forked(&failed.error)),
            ];
            // Nothing that is dropped here may call the library either: the mock would end the process.
            drop(bench);
            wait_for_releases();
            // SAFETY: ends the child without the parent's exit handlers.
            unsafe { libc::_exit(if refused == [true; 4] { 0 } else { 1 }) }
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for the child that was just made.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status}");
        }
    }
    finished(bench.read(&bench.target(&path, false), 0, 64 * KIB));
}
