use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::CUstream;
use futures::executor::block_on;
use warpio_core::{Device, DeviceBytesMut, ErrorKind, Moved, Transfer};
use warpio_cuda::{CudaDeviceExt, CudaStream, cuda_device, raw_stream, wait_for_releases};

use crate::support::*;

#[test]
fn bytes_go_there_and_back() {
    let gpu = Gpu::new();
    for len in [1, 255, 4096, 64 * KIB + 1, MIB, 5 * MIB + 3] {
        let data = pattern(len, len as u8);
        let buffer = upload(&gpu.device, &data).freeze();
        assert!(read_back(&buffer) == data, "{len} bytes");
        assert!(read_back(&buffer.slice(len / 3..len / 2)) == data[len / 3..len / 2]);
    }
}

#[test]
fn bytes_arrive_whatever_the_delays() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    for seed in 0..20u8 {
        mock.ctl(&format!("delay_us 500 seed {seed}"));
        let data = pattern(100 * KIB + usize::from(seed), seed);
        assert!(read_back(&upload(&gpu.device, &data).freeze()) == data, "seed {seed}");
    }
    assert_eq!(mock.counters().violations, 0);
}

#[test]
fn streams_are_used_again() {
    let gpu = Gpu::new();
    let before = gpu.control().map_or(0, |mock| mock.calls("cuStreamCreate"));
    for _ in 0..50 {
        let stream = gpu.device.new_stream().unwrap();
        stream.record().unwrap().synchronize().unwrap();
    }
    if let Some(mock) = gpu.control() {
        assert_eq!(mock.calls("cuStreamCreate") - before, 1);
    }
}

#[test]
fn a_stream_dropped_with_work_lets_it_run_out() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let mut buffer = gpu.device.alloc(4096).unwrap();
    let stream = gpu.device.new_stream().unwrap();
    mock.ctl("hold");
    copy_in(&gpu.device, &stream, buffer.device_ptr(), &[7; 4096]);
    buffer.after(&stream).unwrap();
    drop(stream);
    wait_for_releases();
    mock.ctl("wait held 1; release");
    assert_eq!(read_back(&buffer.freeze()), [7; 4096]);
    assert_eq!(mock.counters().copies_discarded, 0);
}

#[test]
fn a_stream_waits_for_an_event_of_another_and_of_another_device() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let other_device = cuda_device(1, options()).unwrap();
    for source in [&gpu.device, &other_device] {
        let (first, second) = (source.new_stream().unwrap(), gpu.device.new_stream().unwrap());
        let (from, to) = (source.alloc(4096).unwrap(), gpu.device.alloc(4096).unwrap());
        mock.ctl("hold");
        copy_in(source, &first, from.device_ptr(), &[1; 4096]);
        second.wait(&first.record().unwrap()).unwrap();
        copy_in(&gpu.device, &second, to.device_ptr(), &[2; 4096]);
        mock.ctl("wait held 1");
        let last = second.record().unwrap();
        assert!(!last.is_done().unwrap() && mock.counters().copies_held == 1);
        mock.ctl("release");
        last.synchronize().unwrap();
    }
}

#[test]
fn a_stream_cannot_wait_for_what_the_device_does_not_know() {
    #[derive(Debug)]
    struct Never;
    // SAFETY: it is never done.
    unsafe impl warpio_core::EventBackend for Never {
        fn is_done(&self) -> warpio_core::Result<bool> {
            Ok(false)
        }
        fn synchronize(&self) -> warpio_core::Result<()> {
            unreachable!()
        }
    }
    let gpu = Gpu::new();
    let stream = gpu.device.new_stream().unwrap();
    stream.wait(&Device::host().new_stream().unwrap().record().unwrap()).expect("what is done needs no wait");
    let error = stream.wait(&warpio_core::DeviceEvent::new(Arc::new(Never))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn a_transfer_is_ordered_by_a_stream_of_its_device_only() {
    let gpu = Gpu::new();
    let Some(_) = gpu.mock() else { return };
    let other = cuda_device(1, options()).unwrap();
    let stream = CudaStream::new(&other).unwrap();
    let mut buffer = gpu.device.alloc(16).unwrap();
    let error = warpio_cuda::memset(&mut buffer, 1, &stream).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("cuda:1") && error.to_string().contains("cuda:0"), "{error}");
    assert_eq!(stream.as_device_stream().device_id(), other.id());
}

#[test]
fn a_transfer_takes_a_stream_of_the_caller() {
    let gpu = Gpu::new();
    let stream = CudaStream::new(&gpu.device).unwrap();
    let (completer, transfer) = Transfer::<Moved<DeviceBytesMut>>::channel();
    let buffer = gpu.device.alloc(16).unwrap();
    let transfer = transfer.on_stream(&stream);
    completer.complete(Ok(Moved { n: 16, buffer }));
    assert_eq!(block_on(transfer).unwrap().n, 16);
}

/// Tells when it is dropped.
struct Token(Arc<AtomicBool>);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_stream_of_another_library_is_used_and_left_alone() {
    let gpu = Gpu::new();
    let (theirs, _) = cudarc_stream(&gpu.device);
    let gone = Arc::new(AtomicBool::new(false));
    let mut buffer = gpu.device.alloc(4096).unwrap();
    // SAFETY: `theirs` lives to the end of the test.
    let stream = unsafe { CudaStream::from_raw(&gpu.device, theirs.cu_stream(), Token(gone.clone())) }.unwrap();
    assert_eq!(raw_stream(&stream), Some(theirs.cu_stream()));
    assert_eq!(stream.cu_stream(), theirs.cu_stream());
    warpio_cuda::memset(&mut buffer, 5, &stream).unwrap();
    theirs.synchronize().unwrap();
    wait_for_releases();
    assert!(!gone.load(Ordering::SeqCst));
    drop(stream);
    wait_for_releases();
    assert!(gone.load(Ordering::SeqCst), "its owner is told that nobody uses it");
    theirs.synchronize().expect("it still exists");
    assert_eq!(read_back(&buffer.freeze()), [5; 4096]);
}

#[test]
fn default_streams_can_be_named() {
    let gpu = Gpu::new();
    for special in [0usize, 1, 2] {
        let mut buffer = gpu.device.alloc(4096).unwrap();
        // SAFETY: the driver's handles for its default streams are always valid.
        let stream = unsafe { CudaStream::from_raw(&gpu.device, special as CUstream, ()) }.unwrap();
        warpio_cuda::memset(&mut buffer, special as u8 + 1, &stream).unwrap();
        assert_eq!(read_back(&buffer.freeze()), [special as u8 + 1; 4096]);
    }
}

#[test]
fn a_stream_of_another_context_is_refused() {
    let gpu = Gpu::new();
    let theirs = cudarc::driver::CudaContext::new_non_primary(0, 0).unwrap().new_stream().unwrap();
    let error = CudaStream::from_cudarc(&gpu.device, theirs.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    // SAFETY: `theirs` lives to the end of the test.
    let error = unsafe { CudaStream::from_raw(&gpu.device, theirs.cu_stream(), ()) }.unwrap_err();
    assert!(error.to_string().contains("does not belong to the context of cuda:0"), "{error}");
}

#[test]
fn nothing_changes_what_is_current_on_the_calling_thread() {
    let session = session();
    let theirs = cudarc::driver::CudaContext::new_non_primary(0, 0).unwrap();
    // SAFETY: null for none, and a context that lives to the end of the test.
    let make_current = |context| unsafe { cudarc::driver::result::ctx::set_current(context) }.unwrap();
    for expected in [std::ptr::null_mut(), theirs.cu_ctx()] {
        make_current(expected);
        let device = cuda_device(0, options()).unwrap();
        assert_eq!(current(), expected, "making a device");
        let stream = device.new_stream().unwrap();
        let own = CudaStream::new(&device).unwrap();
        assert_eq!(current(), expected, "making streams");
        let mut buffer = upload(&device, &[1; 100]);
        warpio_cuda::memset(&mut buffer, 1, &own).unwrap();
        buffer.after(&stream).unwrap();
        assert_eq!(current(), expected, "copies and events");
        assert_eq!(read_back(&buffer.freeze()), [1; 100]);
        device.memory().unwrap();
        device.backend().earlier_work().unwrap().synchronize().unwrap();
        outcome(&watch(&device, stream.record().unwrap())).unwrap();
        assert!(device.alloc(usize::MAX / 2).is_err());
        device.staging().trim();
        drop((stream, own, device));
        assert_eq!(current(), expected, "dropping everything");
    }
    make_current(std::ptr::null_mut());
    drop((theirs, session));
}
