use warpio_core::ErrorKind;
use warpio_cuda::{CudaDeviceExt, CudaError, CudaOptions, DeviceAllocator, wait_for_releases};

use crate::support::*;

#[test]
fn memory_is_aligned_and_freed() {
    let gpu = Gpu::new();
    let buffers: Vec<_> = [1, 100, 4096, 5 * MIB].map(|len| gpu.device.alloc(len).unwrap()).into();
    for buffer in &buffers {
        assert_eq!(buffer.device_ptr() % 256, 0);
        assert!(buffer.as_slice().is_none(), "the processor cannot read it");
    }
    let Some(mock) = gpu.control() else { return };
    assert_eq!(mock.counters().device_allocations, 4);
    drop(buffers);
    mock.ctl("wait idle");
    assert_eq!(mock.counters().device_allocations, 0);
}

#[test]
fn nothing_is_allocated_for_no_bytes() {
    let gpu = Gpu::new();
    let buffer = gpu.device.alloc(0).unwrap();
    assert!(buffer.is_empty() && read_back(&buffer.freeze()).is_empty());
    if let Some(mock) = gpu.control() {
        assert_eq!(mock.calls("cuMemAllocFromPoolAsync"), 0);
    }
}

#[test]
fn out_of_memory_says_how_much_is_wanted_and_free() {
    let gpu = Gpu::new();
    if let Some(mock) = gpu.control() {
        mock.ctl(&format!("memory 0 {}", 64 * MIB));
    }
    let (_, total) = gpu.device.memory().unwrap();
    let wanted = total + 1;
    let error = gpu.device.alloc(wanted).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let text = error.to_string();
    assert!(text.contains(&format!("{wanted} bytes on cuda:0")) && text.contains(&format!("of its {total}")), "{text}");
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<CudaError>());
    assert_eq!(cause.map(|cause| (cause.code(), cause.name())), Some((2, "CUDA_ERROR_OUT_OF_MEMORY")));
    gpu.device.alloc(MIB).expect("a small one still fits");
}

#[test]
fn freed_memory_serves_again() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    mock.ctl(&format!("memory 0 {}", 64 * MIB));
    for _ in 0..20 {
        gpu.device.alloc(60 * MIB).unwrap();
    }
    assert_eq!(mock.counters().violations, 0);
}

#[test]
fn the_pool_gives_way_before_memory_runs_out() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    mock.ctl("fail cuMemAllocFromPoolAsync 2");
    gpu.device.alloc(MIB).expect("the second try succeeds");
    assert_eq!(mock.calls("cuMemPoolTrimTo"), 1);
}

#[test]
fn what_the_pool_keeps_can_be_given_back() {
    let gpu = Gpu::new();
    let free = || gpu.device.memory().unwrap().0;
    let before = free();
    drop(gpu.device.alloc(256 * MIB).unwrap());
    if gpu.mock().is_some() {
        assert!(free() + 256 * MIB <= before, "the pool keeps what was freed");
    }
    gpu.device.release_freed().unwrap();
    assert!(free() >= before, "{before} and then {} bytes are free", free());
    gpu.device.alloc(256 * MIB).expect("it can be had again");
}

#[test]
fn errors_of_the_driver_keep_code_name_and_call() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    mock.ctl("fail cuMemAllocFromPoolAsync 304");
    let error = gpu.device.alloc(MIB).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device);
    let text = error.to_string();
    assert!(text.contains("304") && text.contains("OPERATING_SYSTEM") && text.contains("cuMemAlloc"), "{text}");
    gpu.device.alloc(MIB).expect("the error was about one call");
}

fn allocate_directly(gpu: &Gpu) {
    let data = pattern(100_000, 3);
    let buffer = upload(&gpu.device, &data).freeze();
    assert_eq!(read_back(&buffer), data);
    let Some(mock) = gpu.control() else { return };
    assert_eq!((mock.calls("cuMemAlloc"), mock.calls("cuMemAllocFromPoolAsync")), (1, 0));
    drop(buffer);
    wait_for_releases();
    assert_eq!((mock.calls("cuMemFree"), mock.counters().device_allocations), (1, 0));
}

#[test]
fn pools_can_be_declined() {
    let direct = CudaOptions { allocator: DeviceAllocator::Direct, ..options() };
    allocate_directly(&Gpu::with(direct));
}

#[test]
fn a_device_without_pools_works() {
    const MEMORY_POOLS_SUPPORTED: u32 = 115;
    let session = session();
    let Some(mock) = mock_of(&session) else { return };
    mock.ctl(&format!("attribute 0 {MEMORY_POOLS_SUPPORTED} 0"));
    let device = warpio_cuda::cuda_device(0, options()).unwrap();
    allocate_directly(&Gpu::of(session, device));
}

#[test]
fn freeing_does_not_wait_for_the_device() {
    for allocator in [DeviceAllocator::Pool, DeviceAllocator::Direct] {
        let gpu = Gpu::with(CudaOptions { allocator, ..options() });
        let Some(mock) = gpu.mock() else { return };
        let (busy, unused) = (gpu.device.alloc(4096).unwrap(), gpu.device.alloc(4096).unwrap());
        let stream = gpu.device.new_stream().unwrap();
        mock.ctl("hold");
        copy_in(&gpu.device, &stream, busy.device_ptr(), &[1; 4096]);
        mock.ctl("wait held 1");
        // Were it to wait, it would wait for ever.
        drop(unused);
        mock.ctl("release");
        stream.record().unwrap().synchronize().unwrap();
        wait_for_releases();
        mock.ctl("wait idle");
        assert_eq!(mock.counters().device_allocations, 1);
    }
}

#[test]
fn memory_may_be_used_on_every_stream_at_once() {
    let gpu = Gpu::new();
    if let Some(mock) = gpu.control() {
        mock.ctl("delay_us 200 seed 5");
    }
    let streams: Vec<_> = (0..4).map(|_| gpu.device.new_stream().unwrap()).collect();
    for n in 0..40usize {
        let mut buffer = gpu.device.alloc(4096).unwrap();
        let stream = &streams[n % streams.len()];
        copy_in(&gpu.device, stream, buffer.device_ptr(), &[n as u8; 4096]);
        buffer.after(stream).unwrap();
        assert_eq!(read_back(&buffer.freeze()), [n as u8; 4096]);
    }
    if let Some(mock) = gpu.control() {
        assert_eq!(mock.counters().violations, 0);
    }
}
