use warpio_core::{ErrorKind, Result};
use warpio_cuda::{CudaOptions, Unavailable, cuda_device, probe};

use crate::support::*;

/// Runs `check` in a forked child, and says whether it returned true there.
fn in_child(check: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child only runs `check` and leaves without running anything else of this process.
    match unsafe { libc::fork() } {
        -1 => panic!("cannot fork"),
        0 => {
            let fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).unwrap_or(false);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if fine { 0 } else { 1 }) }
        }
        child => {
            let mut status = 0;
            // SAFETY: a child of ours, and a valid place for its status.
            let waited = unsafe { libc::waitpid(child, &mut status, 0) };
            waited == child && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
        }
    }
}

fn refused<T>(result: Result<T>) -> bool {
    result.is_err_and(|error| error.kind() == ErrorKind::NoDevice && error.to_string().contains("forked"))
}

#[test]
fn a_forked_child_is_told_that_it_cannot_use_cuda() {
    let gpu = Gpu::new();
    let device = &gpu.device;
    let stream = device.new_stream().unwrap();
    let mut buffer = device.alloc(4096).unwrap();
    let event = stream.record().unwrap();
    event.synchronize().unwrap();
    assert!(in_child(|| probe() == Err(Unavailable::Forked)));
    assert!(in_child(|| refused(cuda_device(0, CudaOptions::default()))));
    assert!(in_child(|| refused(device.alloc(16))));
    assert!(in_child(|| refused(device.new_stream())));
    assert!(in_child(|| refused(device.staging().acquire_blocking(16))));
    assert!(in_child(|| refused(stream.record())));
    assert!(in_child(|| refused(device.backend().earlier_work())));
    assert!(in_child(|| refused(buffer.after(&stream))));
    assert_eq!(read_back(&buffer.freeze()).len(), 4096, "the parent goes on");
}

#[test]
fn a_forked_child_is_not_made_to_wait() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let stream = gpu.device.new_stream().unwrap();
    let buffer = gpu.device.alloc(4096).unwrap();
    mock.ctl("hold");
    copy_in(&gpu.device, &stream, buffer.device_ptr(), &[1; 4096]);
    let event = stream.record().unwrap();
    mock.ctl("wait held 1");
    assert!(in_child(|| refused(outcome(&watch(&gpu.device, event.clone())))));
    assert!(in_child(|| {
        drop(stream.clone());
        warpio_cuda::wait_for_releases();
        true
    }));
    mock.ctl("release");
    event.synchronize().unwrap();
}
