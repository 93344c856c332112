use std::sync::Arc;

use cudarc::driver::CudaContext;
use warpio_core::ErrorKind;
use warpio_cuda::{CudaDeviceExt, cuda_device, from_context, wait_for_releases};

use crate::support::*;

#[test]
fn two_devices_keep_their_memory_apart() {
    let gpu = Gpu::new();
    let Some(_) = gpu.mock() else { return };
    let other = cuda_device(1, options()).unwrap();
    assert_ne!(gpu.device, other);
    assert_eq!((other.id().ordinal, other.to_string().as_str()), (1, "cuda:1"));
    let (one, two) = (pattern(100_000, 1), pattern(100_000, 2));
    let (first, second) = (upload(&gpu.device, &one).freeze(), upload(&other, &two).freeze());
    assert!(read_back(&first) == one && read_back(&second) == two);
    assert_eq!(second.device(), &other);
}

#[test]
fn handles_on_one_context_are_one_device() {
    let gpu = Gpu::new();
    let again = cuda_device(0, options()).unwrap();
    assert_eq!(gpu.device, again);
    // Memory of one may be used by streams of the other.
    let mut buffer = gpu.device.alloc(4096).unwrap();
    let stream = again.new_stream().unwrap();
    copy_in(&again, &stream, buffer.device_ptr(), &[8; 4096]);
    buffer.after(&stream).unwrap();
    drop((again, stream));
    assert_eq!(read_back(&buffer.freeze()), [8; 4096]);
}

#[test]
fn a_context_of_the_caller_is_a_device_of_its_own() {
    let gpu = Gpu::new();
    let theirs = CudaContext::new_non_primary(0, 0).unwrap();
    let device = from_context(theirs.clone(), options()).unwrap();
    assert_eq!(device.id().ordinal, 0);
    assert_ne!(device, gpu.device, "other memory");
    assert!(Arc::ptr_eq(device.cuda_context().unwrap(), &theirs));
    let data = pattern(2 * MIB + 1, 6);
    assert!(read_back(&upload(&device, &data).freeze()) == data);
    let stream = gpu.device.new_stream().unwrap();
    let mut buffer = device.alloc(16).unwrap();
    assert_eq!(warpio_cuda::memset(&mut buffer, 0, &stream).unwrap_err().kind(), ErrorKind::InvalidInput);
    drop((buffer, device));
    until(|| {
        wait_for_releases();
        Arc::strong_count(&theirs) == 1
    });
    theirs.synchronize().expect("it is still the caller's");
}

#[test]
fn a_primary_context_of_the_caller_is_the_device() {
    let gpu = Gpu::new();
    let device = from_context(CudaContext::new(0).unwrap(), options()).unwrap();
    assert_eq!(device, gpu.device);
}

#[test]
fn cudarcs_bookkeeping_is_left_alone() {
    let gpu = Gpu::new();
    let context = gpu.device.cuda_context().unwrap();
    upload(&gpu.device, &[1; 1000]);
    gpu.device.new_stream().unwrap();
    assert!(context.is_event_tracking() && !context.is_in_multi_stream_mode());
    let _stream = warpio_cuda::CudaStream::new(&gpu.device).unwrap();
    assert!(context.is_in_multi_stream_mode(), "cudarc must know of streams that its slices are used on");
}

#[test]
fn a_device_that_cannot_be_set_up_leaves_nothing_behind() {
    let session = session();
    let Some(mock) = mock_of(&session) else { return };
    for call in ["cuDevicePrimaryCtxRetain", "cuMemPoolCreate", "cuMemPoolSetAttribute", "cuStreamCreate", "cuCtxGetId"]
    {
        mock.ctl(&format!("fail {call} 304"));
        let error = cuda_device(0, options()).unwrap_err();
        assert!(error.kind() == ErrorKind::Device && error.to_string().contains("304"), "{call}: {error}");
        until(|| {
            wait_for_releases();
            mock.counters().contexts == 0
        });
    }
    cuda_device(0, options()).expect("the errors have passed");
}
