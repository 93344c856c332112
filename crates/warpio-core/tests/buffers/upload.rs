//! Bytes of the host copied into device memory.

use warpio_core::testing::{FakeGpu, pattern};
use warpio_core::{Device, ErrorKind};

use crate::support::{block_on, leaks_on_purpose, poll, small_pool};

#[test]
fn uploads_of_every_length_arrive() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let slot = device.staging().slot_len();
    for len in [0, 1, slot - 1, slot, slot + 1, 9 * slot + 5] {
        let data = block_on(device.upload(&pattern(len))).unwrap().freeze();
        assert!(block_on(data.to_host()).unwrap() == pattern(len), "{len} bytes");
    }
    gpu.wait_freed();
    let host = block_on(Device::host().upload(b"abc")).unwrap();
    assert_eq!(host.as_slice(), Some(&b"abc"[..]));
}

#[test]
fn an_upload_given_up_half_way_frees_nothing_early() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    device.staging().warm(64 << 10);
    gpu.hold();
    let bytes = pattern(60_000);
    let mut upload = Box::pin(device.upload(&bytes));
    assert!(poll(&mut upload).is_pending(), "the copy is held back");
    drop(upload);
    assert_eq!(gpu.allocations(), 1, "the copy still writes this memory");
    let stats = device.staging().stats();
    assert!(stats.free < stats.allocated, "the copy still reads its slot");
    gpu.release();
    gpu.wait_freed();
}

#[test]
fn a_copy_whose_end_cannot_be_told_leaks_its_memory() {
    leaks_on_purpose(|| {
        let (device, gpu) = FakeGpu::device(0, small_pool());
        device.staging().warm(64 << 10);
        gpu.hold();
        gpu.fail_records(1);
        let error = block_on(device.upload(&pattern(60_000))).expect_err("no event could be recorded");
        assert_eq!(error.kind(), ErrorKind::Device);
        assert_eq!(gpu.allocations(), 1, "freed, while the copy that is held back will write it");
        gpu.release();
        device.new_stream().unwrap().record().unwrap().synchronize().unwrap();
        assert_eq!((gpu.copies(), gpu.allocations()), (1, 1), "the copy ran, into memory that is still there");
    });
}
