use warpio_core::ErrorKind;
use warpio_cuda::{CudaError, cuda_device};

use crate::support::*;

#[test]
fn every_watcher_learns_of_a_lost_context() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    mock.ctl("hold");
    let buffer = gpu.device.alloc(4096).unwrap();
    let streams: Vec<_> = (0..3).map(|_| gpu.device.new_stream().unwrap()).collect();
    for stream in &streams {
        copy_in(&gpu.device, stream, buffer.device_ptr(), &[1; 16]);
    }
    let outcomes: Vec<_> = (0..30).map(|n| watch(&gpu.device, streams[n % streams.len()].record().unwrap())).collect();
    mock.ctl("wait held 3; sticky 0 700");
    for seen in &outcomes {
        let error = outcome(seen).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceLost);
        assert!(error.to_string().contains("ILLEGAL_ADDRESS (700)"), "{error}");
    }
    // Watchers that come later are told at once.
    assert!(stream_fails(&streams[0]));
    let stats = gpu.device.staging().stats();
    assert_eq!(stats.free, stats.allocated, "the pinned memory is back in the pool");
}

fn stream_fails(stream: &warpio_core::DeviceStream) -> bool {
    stream.record().is_err_and(|error| error.kind() == ErrorKind::DeviceLost)
}

#[test]
fn nothing_works_on_a_lost_device_and_everything_on_another() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let other = cuda_device(1, options()).unwrap();
    let buffer = gpu.device.alloc(4096).unwrap();
    mock.ctl("sticky 0 719");
    let error = gpu.device.alloc(16).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost);
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<CudaError>());
    assert_eq!(cause.map(|cause| (cause.code(), cause.name())), Some((719, "CUDA_ERROR_LAUNCH_FAILED")));
    for error in [
        gpu.device.new_stream().unwrap_err(),
        gpu.device.backend().earlier_work().unwrap_err(),
        gpu.device.staging().acquire_blocking(MIB).unwrap_err(),
        futures::executor::block_on(gpu.device.upload(&[1; 10])).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
        assert!(error.to_string().contains("719"), "the first error is the one that is told: {error}");
    }
    drop(buffer);
    let data = pattern(3 * MIB, 9);
    assert_eq!(read_back(&upload(&other, &data).freeze()), data);
}

#[test]
fn every_code_after_which_nothing_works_means_a_lost_device() {
    for code in [700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999] {
        let gpu = Gpu::new();
        let Some(mock) = gpu.mock() else { return };
        mock.ctl(&format!("fail cuMemAllocFromPoolAsync {code}"));
        assert_eq!(gpu.device.alloc(16).unwrap_err().kind(), ErrorKind::DeviceLost, "{code}");
        // It stays lost, although the driver would go on.
        assert_eq!(gpu.device.new_stream().unwrap_err().kind(), ErrorKind::DeviceLost, "{code}");
    }
}

#[test]
fn a_copy_that_breaks_the_context_fails_the_read() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let bytes = upload(&gpu.device, &pattern(MIB, 1)).freeze();
    mock.ctl("wait idle; hold");
    let records = mock.calls("cuEventRecord");
    let reader = std::thread::spawn(move || futures::executor::block_on(bytes.to_host()).map(drop));
    // The copy is enqueued, and so is the event behind it.
    mock.ctl("wait held 1");
    until(|| mock.calls("cuEventRecord") > records);
    mock.ctl("sticky 0 714; release");
    let error = reader.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    until(|| {
        let stats = gpu.device.staging().stats();
        stats.free == stats.allocated
    });
}

#[test]
fn memory_of_a_lost_device_is_let_go_without_the_driver() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let buffer = gpu.device.alloc(4096).unwrap();
    mock.ctl("sticky 0 700");
    assert!(gpu.device.new_stream().is_err());
    drop(buffer);
    gpu.device.staging().trim();
    warpio_cuda::wait_for_releases();
    assert_eq!(mock.calls("cuMemFreeAsync"), 0);
}
