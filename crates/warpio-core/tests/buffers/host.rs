//! Device memory copied to the host.

use bytes::Bytes;
use warpio_core::testing::{FakeGpu, pattern};
use warpio_core::{Device, ErrorKind};

use crate::support::{block_on, poll, small_pool};

const LEN: usize = 300_007;

#[test]
fn host_memory_is_shared_and_not_copied() {
    let data = Device::host().alloc(100).unwrap().freeze();
    let host = block_on(data.to_host()).unwrap();
    assert_eq!(host.as_ptr() as u64, data.device_ptr());
}

#[test]
fn device_memory_is_copied_in_bounded_pieces() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let data = block_on(device.upload(&pattern(LEN))).unwrap().freeze();
    assert!(data.as_slice().is_none(), "the processor must not look at it");
    let host = block_on(data.to_host()).unwrap();
    assert!(host == pattern(LEN));
    assert_eq!(gpu.copies(), 2 * LEN.div_ceil(device.staging().slot_len()));
    assert!(device.staging().stats().allocated <= device.staging().stats().budget);
}

#[test]
fn device_memory_is_no_bytes() {
    let (device, _gpu) = FakeGpu::device(0, small_pool());
    let data = device.alloc(10).unwrap().freeze();
    let error = Bytes::try_from(data).expect_err("not host memory");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("to_host"), "it says what to do: {error}");
}

#[test]
fn a_copy_waits_for_the_work_recorded_on_the_buffer() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let stream = device.new_stream().unwrap();
    let mut buffer = device.alloc(10).unwrap();
    gpu.hold();
    buffer.after(&stream).unwrap();
    let data = buffer.freeze();
    let mut copy = Box::pin(data.to_host());
    assert!(poll(&mut copy).is_pending());
    assert_eq!(device.staging().stats().allocated, 0, "it holds no slot while it waits");
    gpu.release();
    assert_eq!(block_on(copy).unwrap().len(), 10);
}

#[test]
fn a_copy_given_up_half_way_keeps_slot_and_memory_until_it_has_run() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    device.staging().warm(64 << 10);
    let data = block_on(device.upload(&pattern(60_000))).unwrap().freeze();
    let mut copy = Box::pin({
        let data = data.clone();
        async move { data.to_host().await }
    });
    // It waits for earlier work first; once that has run, the copy is enqueued, and held back.
    gpu.hold();
    assert!(poll(&mut copy).is_pending());
    gpu.release();
    device.new_stream().unwrap().record().unwrap().synchronize().unwrap();
    gpu.hold();
    assert!(poll(&mut copy).is_pending());
    let before = device.staging().stats();
    assert!(before.free < before.allocated, "a slot is in use");
    drop(copy);
    drop(data);
    assert_eq!((gpu.allocations(), device.staging().stats()), (1, before), "the copy has not run yet");
    gpu.release();
    gpu.wait_freed();
}

#[test]
fn a_lost_device_is_an_error() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let data = device.alloc(10).unwrap().freeze();
    gpu.break_down();
    assert_eq!(block_on(data.to_host()).unwrap_err().kind(), ErrorKind::DeviceLost);
}
