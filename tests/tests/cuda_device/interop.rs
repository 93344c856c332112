use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::CudaContext;
use warpio_core::{Device, DeviceBytesMut, ErrorKind};
use warpio_cuda::dlpack::{
    self, DataType, DeviceType, ManagedTensor, ManagedTensorVersioned, PackVersion, READ_ONLY, Tensor, TensorDevice,
};
use warpio_cuda::{AsCuda, AsCudaMut, CudaStream, FromCudarc, copy, memset, wait_for_releases};

use crate::support::*;

#[test]
fn a_slice_of_cudarc_becomes_a_buffer() {
    let gpu = Gpu::new();
    let (stream, _) = cudarc_stream(&gpu.device);
    let numbers: Vec<f32> = (0..1000u16).map(f32::from).collect();
    let slice = stream.clone_htod(&numbers).unwrap();
    let buffer = DeviceBytesMut::from_cudarc(&gpu.device, slice).unwrap();
    assert_eq!((buffer.len(), buffer.device()), (4000, &gpu.device));
    let bytes = read_back(&buffer.freeze());
    let back: Vec<f32> = bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
    assert_eq!(back, numbers);
    if let Some(mock) = gpu.control() {
        wait_for_releases();
        mock.ctl("wait idle");
        assert_eq!((mock.counters().device_allocations, mock.counters().violations), (0, 0));
    }
}

#[test]
fn a_slice_comes_with_the_work_that_cudarc_knows_of() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let ((stream, _), (other, _)) = (cudarc_stream(&gpu.device), cudarc_stream(&gpu.device));
    let source = stream.clone_htod(&[7u8; 4096]).unwrap();
    let mut slice = stream.alloc_zeros::<u8>(4096).unwrap();
    stream.synchronize().unwrap();
    mock.ctl("hold");
    // Written on another stream than its own.
    other.memcpy_dtod(&source, &mut slice).unwrap();
    mock.ctl("wait held 1");
    let buffer = DeviceBytesMut::from_cudarc(&gpu.device, slice).unwrap().freeze();
    let reader = std::thread::spawn(move || read_back(&buffer));
    mock.ctl("release");
    assert_eq!(reader.join().unwrap(), [7; 4096]);
}

#[test]
fn a_slice_is_freed_behind_the_transfers_into_it() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let (cudarc, _) = cudarc_stream(&gpu.device);
    let slice = cudarc.alloc_zeros::<u32>(1024).unwrap();
    let mut buffer = DeviceBytesMut::from_cudarc(&gpu.device, slice).unwrap();
    let stream = gpu.device.new_stream().unwrap();
    mock.ctl("wait idle; hold");
    copy_in(&gpu.device, &stream, buffer.device_ptr(), &[3; 4096]);
    buffer.after(&stream).unwrap();
    mock.ctl("wait held 1");
    drop(buffer);
    wait_for_releases();
    assert_eq!(mock.calls("cuMemFreeAsync"), 0);
    mock.ctl("release");
    until(|| {
        wait_for_releases();
        mock.ctl("wait idle");
        mock.counters().device_allocations == 0
    });
    assert_eq!(mock.counters().violations, 0);
}

#[test]
fn a_slice_of_another_context_is_refused() {
    let gpu = Gpu::new();
    let theirs = CudaContext::new_non_primary(0, 0).unwrap().new_stream().unwrap();
    let error = DeviceBytesMut::from_cudarc(&gpu.device, theirs.alloc_zeros::<u8>(16).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn an_empty_slice_is_an_empty_buffer() {
    let gpu = Gpu::new();
    let (stream, _) = cudarc_stream(&gpu.device);
    // Kernels and drivers have no use for no bytes, but programs come by them.
    let slice = stream.alloc_zeros::<u8>(0).unwrap();
    assert!(DeviceBytesMut::from_cudarc(&gpu.device, slice).unwrap().is_empty());
}

#[test]
fn cudarc_reads_and_writes_buffers() {
    let gpu = Gpu::new();
    let (cudarc, stream) = cudarc_stream(&gpu.device);
    let data = pattern(10_000, 4);
    let mut buffer = upload(&gpu.device, &data);
    {
        let mut lent = buffer.as_cuda_mut(&stream).unwrap();
        assert_eq!(lent.view().len(), 10_000);
        cudarc.memset_zeros(&mut lent.view_mut().slice_mut(100..200)).unwrap();
    }
    let bytes = buffer.freeze();
    let expected: Vec<u8> = data[..100].iter().chain(&[0; 100]).chain(&data[200..]).copied().collect();
    let lent = bytes.as_cuda(&stream).unwrap();
    assert!(cudarc.clone_dtoh(&lent.view()).unwrap() == expected);
    drop(lent);
    assert!(read_back(&bytes) == expected);
    if let Some(mock) = gpu.control() {
        assert_eq!((mock.counters().device_allocations, mock.counters().violations), (1, 0), "it was only lent");
    }
}

#[test]
fn a_lent_buffer_is_freed_behind_what_was_done_with_it() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let ((cudarc, stream), (other, _)) = (cudarc_stream(&gpu.device), cudarc_stream(&gpu.device));
    let bytes = upload(&gpu.device, &[5; 4096]).freeze();
    let mut target = other.alloc_zeros::<u8>(4096).unwrap();
    other.synchronize().unwrap();
    mock.ctl("hold");
    let lent = bytes.as_cuda(&stream).unwrap();
    // On another stream than it was lent for: cudarc notes that.
    other.memcpy_dtod(&lent.view(), &mut target).unwrap();
    drop(lent);
    mock.ctl("wait held 1");
    let freed = mock.calls("cuMemFreeAsync");
    drop(bytes);
    assert_eq!(mock.calls("cuMemFreeAsync"), freed);
    mock.ctl("release");
    until(|| mock.calls("cuMemFreeAsync") == freed + 1);
    assert_eq!(cudarc.clone_dtoh(&target).unwrap(), [5; 4096]);
    assert_eq!(mock.counters().violations, 0);
}

#[test]
fn buffers_are_filled_and_copied_on_a_stream() {
    let gpu = Gpu::new();
    let stream = gpu.device.new_stream().unwrap();
    let mut buffer = gpu.device.alloc(10_000).unwrap();
    memset(&mut buffer, 0x5a, &stream).unwrap();
    let source = buffer.freeze();
    let mut target = gpu.device.alloc(20_000).unwrap();
    memset(&mut target, 1, &stream).unwrap();
    copy(&source, &mut target, &stream).unwrap();
    let target = read_back(&target.freeze());
    assert!(target[..10_000].iter().all(|&byte| byte == 0x5a) && target[10_000..].iter().all(|&byte| byte == 1));
    let error = copy(&source, &mut gpu.device.alloc(9_999).unwrap(), &stream).unwrap_err();
    assert!(error.to_string().contains("10000 bytes do not fit in a buffer of 9999 bytes"), "{error}");
    let mut none = gpu.device.alloc(0).unwrap();
    memset(&mut none, 1, &stream).unwrap();
    copy(&none.freeze(), &mut gpu.device.alloc(0).unwrap(), &stream).unwrap();
}

#[test]
fn a_copy_keeps_both_buffers_until_it_has_ended() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let stream = gpu.device.new_stream().unwrap();
    let (source, mut target) = (upload(&gpu.device, &[1; 4096]).freeze(), gpu.device.alloc(4096).unwrap());
    mock.ctl("hold");
    copy(&source, &mut target, &stream).unwrap();
    mock.ctl("wait held 1");
    drop((source, target));
    assert_eq!(mock.calls("cuMemFreeAsync"), 0);
    mock.ctl("release");
    until(|| mock.calls("cuMemFreeAsync") == 2);
    assert_eq!(mock.counters().violations, 0);
}

/// What a consumer does in the end.
fn give_back(tensor: NonNull<ManagedTensor>) {
    // SAFETY: ours, and not used afterwards.
    unsafe { (tensor.as_ref().deleter.unwrap())(tensor.as_ptr()) }
}

#[test]
fn a_buffer_leaves_as_a_tensor_and_comes_back() {
    let gpu = Gpu::new();
    for device in [gpu.device.clone(), Device::host()] {
        let data = pattern(5000, 8);
        let buffer = upload(&device, &data);
        let address = buffer.device_ptr();
        let raw = dlpack::export_mut(buffer).unwrap().into_raw();
        // SAFETY: valid until it is given back.
        let tensor = unsafe { &raw.as_ref().dl_tensor };
        assert_eq!((tensor.data as u64, tensor.ndim, tensor.dtype, tensor.byte_offset), (address, 1, DataType::U8, 0));
        // SAFETY: both have one element.
        assert_eq!(unsafe { (*tensor.shape, *tensor.strides) }, (5000, 1));
        let kind = if device.is_host_visible() { DeviceType::CPU } else { DeviceType::CUDA };
        assert_eq!(tensor.device, TensorDevice { device_type: kind, device_id: 0 });
        // SAFETY: the tensor is ours, and nothing else uses it.
        let back = unsafe { dlpack::import(&gpu.device, raw) }.unwrap();
        assert_eq!((back.device_ptr(), back.device()), (address, &device));
        assert!(read_back(&back.freeze()) == data);
    }
    if let Some(mock) = gpu.control() {
        until(|| {
            mock.ctl("wait idle");
            mock.counters().device_allocations == 0
        });
    }
}

#[test]
fn a_tensor_of_a_shared_buffer_says_that_it_is_read_only() {
    let gpu = Gpu::new();
    let bytes = upload(&gpu.device, &[1; 64]).freeze();
    let versioned = |exported: dlpack::Exported| {
        let tensor = exported.into_versioned();
        // SAFETY: valid until it is given back.
        let (version, flags) = unsafe { (tensor.as_ref().version, tensor.as_ref().flags) };
        assert_eq!(version, PackVersion { major: 1, minor: 0 });
        (tensor, flags)
    };
    let (tensor, flags) = versioned(dlpack::export(bytes.slice(8..16)).unwrap());
    assert_eq!(flags, READ_ONLY);
    // SAFETY: the tensor is ours, and nothing else uses it.
    let error = unsafe { dlpack::import_versioned(&gpu.device, tensor) }.unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
    // SAFETY: still ours, and not used afterwards.
    unsafe { (tensor.as_ref().deleter.unwrap())(tensor.as_ptr()) };
    let (tensor, flags) = versioned(dlpack::export_mut(upload(&gpu.device, &[2; 64])).unwrap());
    assert_eq!(flags, 0);
    // SAFETY: the tensor is ours, and nothing else uses it.
    let back = unsafe { dlpack::import_versioned(&gpu.device, tensor) }.unwrap();
    assert_eq!(read_back(&back.freeze()), [2; 64]);
    drop(bytes);
}

#[test]
fn memory_lent_as_a_tensor_is_freed_behind_the_consumers_work() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let (_, stream) = cudarc_stream(&gpu.device);
    let bytes = upload(&gpu.device, &[1; 4096]);
    let address = bytes.device_ptr();
    let tensor = dlpack::export_mut(bytes).unwrap().into_raw();
    mock.ctl("wait idle; hold");
    copy_in(&gpu.device, stream.as_device_stream(), address, &[2; 4096]);
    mock.ctl("wait held 1");
    give_back(tensor);
    assert_eq!(mock.calls("cuMemFreeAsync"), 0);
    mock.ctl("release");
    until(|| mock.calls("cuMemFreeAsync") == 1);
    assert_eq!(mock.counters().violations, 0);
}

#[test]
fn a_tensor_that_is_not_exported_after_all_is_no_leak() {
    let gpu = Gpu::new();
    drop(dlpack::export_mut(gpu.device.alloc(64).unwrap()).unwrap());
    drop(dlpack::export(gpu.device.alloc(0).unwrap().freeze()).unwrap());
    if let Some(mock) = gpu.control() {
        mock.ctl("wait idle");
        assert_eq!(mock.counters().device_allocations, 0);
    }
}

/// A tensor of another library.
struct Foreign {
    memory: Vec<u8>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    deleted: Arc<AtomicUsize>,
}

unsafe extern "C" fn delete_foreign(tensor: *mut ManagedTensor) {
    // SAFETY: made by `foreign`, and deleted once.
    let tensor = unsafe { Box::from_raw(tensor) };
    // SAFETY: as above.
    let owner = unsafe { Box::from_raw(tensor.manager_ctx.cast::<Foreign>()) };
    owner.deleted.fetch_add(1, Ordering::SeqCst);
}

fn foreign(
    deleted: &Arc<AtomicUsize>,
    shape: &[i64],
    strides: &[i64],
    kind: DeviceType,
    id: i32,
) -> NonNull<ManagedTensor> {
    let mut owner = Box::new(Foreign {
        memory: (0..100).collect(),
        shape: shape.to_vec(),
        strides: strides.to_vec(),
        deleted: deleted.clone(),
    });
    let dl_tensor = Tensor {
        data: owner.memory.as_mut_ptr().cast(),
        device: TensorDevice { device_type: kind, device_id: id },
        ndim: shape.len() as i32,
        dtype: DataType { code: 2, bits: 16, lanes: 1 },
        shape: owner.shape.as_mut_ptr(),
        strides: if strides.is_empty() { std::ptr::null_mut() } else { owner.strides.as_mut_ptr() },
        byte_offset: 4,
    };
    let manager_ctx = Box::into_raw(owner).cast();
    NonNull::from(Box::leak(Box::new(ManagedTensor { dl_tensor, manager_ctx, deleter: Some(delete_foreign) })))
}

#[test]
fn a_tensor_of_another_library_becomes_a_buffer_and_is_given_back_once() {
    let gpu = Gpu::new();
    for kind in [DeviceType::CPU, DeviceType::CUDA_HOST] {
        let deleted = Arc::default();
        let tensor = foreign(&deleted, &[2, 3], &[3, 1], kind, 0);
        // SAFETY: a valid tensor that nothing else uses.
        let mut buffer = unsafe { dlpack::import(&gpu.device, tensor) }.unwrap();
        assert_eq!(buffer.as_slice(), Some(&[4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15][..]));
        let tail = buffer.split_off(6);
        drop(buffer);
        assert_eq!(deleted.load(Ordering::SeqCst), 0);
        drop(tail);
        assert_eq!(deleted.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn a_tensor_that_cannot_be_a_buffer_stays_the_callers() {
    let gpu = Gpu::new();
    let deleted = Arc::default();
    for (shape, strides, kind, id, why) in [
        (&[2, 3][..], &[1, 2][..], DeviceType::CPU, 0, "not contiguous"),
        (&[6], &[2], DeviceType::CPU, 0, "not contiguous"),
        (&[6], &[], DeviceType::CUDA, 7, "not on cuda:0"),
        (&[6], &[], DeviceType(10), 0, "of kind 10"),
        (&[-1], &[], DeviceType::CPU, 0, "negative"),
        (&[i64::MAX, 3], &[], DeviceType::CPU, 0, "overflows"),
    ] {
        let tensor = foreign(&deleted, shape, strides, kind, id);
        // SAFETY: a valid tensor that nothing else uses.
        let error = unsafe { dlpack::import(&gpu.device, tensor) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(why), "{error}");
        give_back(tensor);
    }
    assert_eq!(deleted.load(Ordering::SeqCst), 6);
}

#[test]
fn a_tensor_of_a_later_dlpack_is_refused() {
    let gpu = Gpu::new();
    let mut tensor = dlpack::export_mut(gpu.device.alloc(64).unwrap()).unwrap().into_versioned();
    // SAFETY: ours.
    unsafe { tensor.as_mut().version.major = 2 };
    // SAFETY: ours.
    let error = unsafe { dlpack::import_versioned(&gpu.device, tensor) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let delete = |tensor: NonNull<ManagedTensorVersioned>| {
        // SAFETY: ours, and not used afterwards.
        unsafe { (tensor.as_ref().deleter.unwrap())(tensor.as_ptr()) }
    };
    delete(tensor);
}

#[test]
fn a_stream_of_another_device_borrows_nothing() {
    let gpu = Gpu::new();
    let theirs = warpio_cuda::from_context(CudaContext::new_non_primary(0, 0).unwrap(), options()).unwrap();
    let stream = CudaStream::new(&theirs).unwrap();
    let mut buffer = gpu.device.alloc(16).unwrap();
    assert_eq!(buffer.as_cuda_mut(&stream).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(buffer.freeze().as_cuda(&stream).unwrap_err().kind(), ErrorKind::InvalidInput);
}
