use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode, CUstreamCaptureStatus};
use futures::executor::block_on;
use warpio_core::{DeviceBytesMut, ErrorKind, Moved, Transfer};
use warpio_cuda::{CudaDeviceExt, CudaStream, cuda_device, memset};

use crate::support::*;

const MODES: [CUstreamCaptureMode; 3] = [
    CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
    CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
    CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED,
];

/// Ends a capture that must still be intact.
#[track_caller]
fn end(stream: &CudaStream) {
    assert_eq!(stream.capture_status().unwrap(), CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE);
    stream.end_capture(CUgraphInstantiate_flags(0)).expect("the capture was not disturbed");
}

#[test]
fn work_goes_on_while_a_stream_is_captured() {
    for mode in MODES {
        let gpu = Gpu::new();
        let user = CudaStream::new(&gpu.device).unwrap();
        user.begin_capture(mode).unwrap();
        // On the capturing thread, and on others.
        let work = || {
            let stream = gpu.device.new_stream().unwrap();
            let mut buffer = upload(&gpu.device, &pattern(3 * MIB + 5, 1));
            buffer.after(&stream).unwrap();
            let event = stream.record().unwrap();
            buffer.freeze().used_on(&stream).unwrap();
            event.synchronize().unwrap();
            outcome(&watch(&gpu.device, event)).unwrap();
            gpu.device.memory().unwrap();
            gpu.device.alloc(MIB).unwrap();
        };
        work();
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
        gpu.device.staging().trim();
        warpio_cuda::wait_for_releases();
        end(&user);
    }
}

#[test]
fn a_device_can_be_made_while_a_stream_is_captured() {
    let gpu = Gpu::new();
    let user = CudaStream::new(&gpu.device).unwrap();
    user.begin_capture(MODES[0]).unwrap();
    let device = cuda_device(0, options()).unwrap();
    upload(&device, &[1; 100]);
    drop(device);
    warpio_cuda::wait_for_releases();
    end(&user);
}

#[test]
fn a_captured_stream_is_refused_and_stays_intact() {
    let gpu = Gpu::new();
    let user = CudaStream::new(&gpu.device).unwrap();
    let mut buffer = gpu.device.alloc(16).unwrap();
    let idle = gpu.device.new_stream().unwrap().record().unwrap();
    user.begin_capture(MODES[1]).unwrap();
    let bytes = gpu.device.alloc(16).unwrap().freeze();
    let refused = [
        user.as_device_stream().record().unwrap_err(),
        buffer.after(&user).unwrap_err(),
        bytes.used_on(&user).unwrap_err(),
        memset(&mut buffer, 1, &user).unwrap_err(),
        warpio_cuda::copy(&bytes, &mut buffer, &user).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("captured into a graph"), "{error}");
    }
    idle.synchronize().unwrap();
    user.as_device_stream().wait(&idle).expect("what has happened needs no wait");
    end(&user);
    memset(&mut buffer, 1, &user).expect("the capture is over");
}

#[test]
fn a_transfer_in_the_order_of_a_captured_stream_is_refused() {
    let gpu = Gpu::new();
    let user = CudaStream::new(&gpu.device).unwrap();
    let buffer = gpu.device.alloc(16).unwrap();
    user.begin_capture(MODES[0]).unwrap();
    let (completer, transfer) = Transfer::<Moved<DeviceBytesMut>>::channel();
    let transfer = transfer.on_stream(&user);
    completer.complete(Ok(Moved { n: 16, buffer }));
    let failed = block_on(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
    assert!(failed.error.to_string().contains("being captured"), "{}", failed.error);
    assert!(failed.buffer.is_some(), "nothing touches it");
    end(&user);
}

#[test]
fn the_mode_of_the_calling_thread_is_what_it_was() {
    let gpu = Gpu::new();
    for mode in MODES {
        let mut exchanged = mode;
        // SAFETY: a valid place that holds a mode.
        unsafe { cudarc::driver::sys::cuThreadExchangeStreamCaptureMode(&mut exchanged) };
        upload(&gpu.device, &[1; 100]);
        gpu.device.memory().unwrap();
        let mut now = MODES[0];
        // SAFETY: as above.
        unsafe { cudarc::driver::sys::cuThreadExchangeStreamCaptureMode(&mut now) };
        assert_eq!(now, mode);
    }
}
