//! A process without CUDA, and one with something else in its place. Nothing here loads the software GPU.

use std::process::Command;

use futures::executor::block_on;
use warpio_core::{Device, ErrorKind};
use warpio_cuda::{CudaDeviceExt, CudaOptions, CudaStream, Unavailable, cuda_device, devices, memset, probe};
use warpio_tests::mock_gpu::is_real;

/// Whether this machine has a driver, so that there is no such process here.
fn has_driver() -> bool {
    let has = is_real();
    if has {
        eprintln!("SKIPPED on a machine with a driver");
    }
    has
}

#[test]
fn the_reason_is_that_there_is_no_driver() {
    if has_driver() {
        return;
    }
    let reason = probe().unwrap_err();
    assert_eq!(reason, Unavailable::NoDriver);
    assert!(reason.to_string().starts_with("no driver"), "{reason}");
}

#[test]
fn a_device_is_refused_with_the_reason() {
    if has_driver() {
        return;
    }
    for error in [cuda_device(0, CudaOptions::default()).unwrap_err(), devices().unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::NoDevice);
        assert!(error.to_string().contains("no driver"), "{error}");
        let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<Unavailable>());
        assert_eq!(cause, Some(&Unavailable::NoDriver));
    }
}

#[test]
fn host_memory_works_all_the_same() {
    let data = block_on(Device::host().upload(b"bytes")).unwrap().freeze();
    assert_eq!(&block_on(data.to_host()).unwrap()[..], b"bytes");
    warpio_cuda::wait_for_releases();
}

#[test]
fn what_is_only_for_cuda_refuses_host_memory() {
    let device = Device::host();
    let mut buffer = device.alloc(8).unwrap();
    let stream = device.new_stream().unwrap();
    for error in [
        device.cuda_context().err().unwrap(),
        device.memory().unwrap_err(),
        CudaStream::new(&device).unwrap_err(),
        memset(&mut buffer, 0, &stream).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}

#[test]
fn a_library_that_is_not_the_driver_is_no_driver() {
    if has_driver() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps.lines().find_map(|line| line.split_whitespace().last().filter(|path| path.contains("/libc.so")));
    std::os::unix::fs::symlink(libc.expect("tests are linked to libc"), folder.path().join("libcuda.so")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_cuda_probe")).env("LD_LIBRARY_PATH", folder.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("lacks the function cuDriverGetVersion"), "{text}");
    assert!(text.contains("NoDevice: CUDA is not available"), "{text}");
}
