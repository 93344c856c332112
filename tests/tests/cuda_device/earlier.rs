use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use warpio_core::DeviceEvent;
use warpio_cuda::CudaStream;

use crate::support::*;

fn earlier_work(gpu: &Gpu) -> DeviceEvent {
    gpu.device.backend().earlier_work().unwrap()
}

#[test]
fn earlier_work_is_that_of_every_stream() {
    for driver_marks_it in [true, false] {
        let gpu = Gpu::new();
        let Some(mock) = gpu.mock() else { return };
        if !driver_marks_it {
            mock.ctl("fail cuCtxRecordEvent 801 forever");
        }
        let (ours, users) = (gpu.device.new_stream().unwrap(), CudaStream::new(&gpu.device).unwrap());
        let buffer = gpu.device.alloc(8192).unwrap();
        mock.ctl("hold");
        copy_in(&gpu.device, &ours, buffer.device_ptr(), &[1; 4096]);
        copy_in(&gpu.device, users.as_device_stream(), buffer.device_ptr() + 4096, &[2; 4096]);
        mock.ctl("wait held 2");
        let event = earlier_work(&gpu);
        assert!(!event.is_done().unwrap());
        let told = watch(&gpu.device, event.clone());
        mock.ctl("release 1");
        until(|| mock.counters().copies_completed == 1);
        assert!(!event.is_done().unwrap() && told.try_recv().is_err());
        mock.ctl("release");
        outcome(&told).unwrap();
        assert!(event.is_done().unwrap());
    }
}

#[test]
fn without_earlier_work_the_event_happens_by_itself() {
    let gpu = Gpu::new();
    let event = earlier_work(&gpu);
    event.synchronize().unwrap();
    assert!(event.is_done().unwrap());
}

#[test]
fn bytes_without_a_fence_are_read_behind_earlier_work() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let users = CudaStream::new(&gpu.device).unwrap();
    let bytes = gpu.device.alloc(4096).unwrap().freeze();
    mock.ctl("hold");
    // A kernel of the user's, as far as the core knows.
    copy_in(&gpu.device, users.as_device_stream(), bytes.device_ptr(), &[4; 4096]);
    mock.ctl("wait held 1");
    let reader = std::thread::spawn(move || read_back(&bytes));
    until(|| mock.calls("cuCtxRecordEvent") > 0);
    assert_eq!(mock.counters().copies_submitted, 1, "the copy back is not even enqueued");
    mock.ctl("release");
    assert_eq!(reader.join().unwrap(), [4; 4096]);
}

#[test]
fn to_wait_for_all_earlier_work_ends_a_capture() {
    let gpu = Gpu::new();
    let user = CudaStream::new(&gpu.device).unwrap();
    user.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    let event = earlier_work(&gpu);
    let told = watch(&gpu.device, event);
    assert!(user.end_capture(CUgraphInstantiate_flags(0)).is_err(), "so the driver does it, and documents it");
    outcome(&told).unwrap();
}

#[test]
fn bytes_whose_stream_was_named_disturb_no_capture() {
    let gpu = Gpu::new();
    let user = CudaStream::new(&gpu.device).unwrap();
    let bytes = upload(&gpu.device, &[6; 4096]).freeze();
    bytes.used_on(&CudaStream::new(&gpu.device).unwrap()).unwrap();
    user.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    assert_eq!(std::thread::spawn(move || read_back(&bytes)).join().unwrap(), [6; 4096]);
    user.end_capture(CUgraphInstantiate_flags(0)).expect("the capture was not disturbed");
}

#[test]
fn a_driver_that_refuses_is_an_error() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    mock.ctl("fail cuCtxRecordEvent 304");
    let error = gpu.device.backend().earlier_work().unwrap_err();
    assert!(error.to_string().contains("cuCtxRecordEvent"), "{error}");
}
