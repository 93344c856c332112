//! What is refused before any engine hears of it, and what resolves at once.

use std::sync::Arc;

use warpio_core::testing::FakeGpu;
use warpio_core::{Device, DeviceBytes, ErrorKind};

use crate::support::{held, ready, small_pool};

#[test]
fn a_range_that_overflows_is_refused_with_its_buffer() {
    let (engine, starter) = held(&Device::host(), 10);
    for offset in [u64::MAX, u64::MAX - 8, i64::MAX as u64 - 7] {
        let failed = ready(starter.read(Arc::new(()), offset, Device::host().alloc(8).unwrap())).unwrap_err();
        assert_eq!((failed.error.kind(), failed.error.offset()), (ErrorKind::InvalidInput, Some(offset)));
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(8));
        let data = DeviceBytes::from(bytes::Bytes::from_static(b"12345678"));
        let failed = ready(starter.write(Arc::new(()), offset, data)).unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(8));
    }
    assert!(engine.is_empty());
}

#[test]
fn the_last_byte_that_a_file_can_have_is_read() {
    let (engine, starter) = held(&Device::host(), 10);
    let transfer = starter.read(Arc::new(()), i64::MAX as u64 - 8, Device::host().alloc(8).unwrap());
    engine.take().into_iter().for_each(|held| held.fill(1));
    assert_eq!(ready(transfer).unwrap().n, 8);
}

#[test]
fn an_empty_buffer_resolves_at_once_wherever_the_offset_is() {
    let (engine, starter) = held(&Device::host(), 10);
    for offset in [0, 1 << 40, i64::MAX as u64, u64::MAX] {
        let moved = ready(starter.read(Arc::new(()), offset, Device::host().alloc(0).unwrap())).unwrap();
        assert_eq!((moved.n, moved.buffer.len()), (0, 0));
        let empty = Device::host().alloc(0).unwrap().freeze();
        assert!(ready(starter.write(Arc::new(()), offset, empty)).unwrap().is_empty());
    }
    assert!(engine.is_empty());
}

#[test]
fn a_buffer_of_another_device_is_refused_and_host_memory_is_not() {
    let (device, _gpu) = FakeGpu::device(0, small_pool());
    let (other, _other_gpu) = FakeGpu::device(1, small_pool());
    let (engine, starter) = held(&device, 10);
    let failed = ready(starter.read(Arc::new(()), 0, other.alloc(8).unwrap())).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
    let text = failed.error.to_string();
    assert!(text.contains("fake:1") && text.contains("fake:0"), "it names both: {text}");
    assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(8));
    let failed = ready(starter.write(Arc::new(()), 0, other.alloc(8).unwrap().freeze())).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
    assert!(engine.is_empty());
    let transfer = starter.read(Arc::new(()), 0, Device::host().alloc(8).unwrap());
    engine.take().into_iter().for_each(|held| held.fill(1));
    assert_eq!(ready(transfer).unwrap().n, 8);
}

#[test]
fn segments_for_a_gpu_fit_into_its_slots_and_those_of_the_host_need_not() {
    let (device, _gpu) = FakeGpu::device(0, small_pool());
    let slot = device.staging().slot_len();
    let (engine, starter) = held(&device, 4 * slot);
    let transfers = [&device, &Device::host()].map(|on| starter.read(Arc::new(()), 0, on.alloc(4 * slot).unwrap()));
    let lengths: Vec<_> = engine.take().iter().map(|held| held.segment().len()).collect();
    assert_eq!(lengths, [slot, slot, slot, slot, 4 * slot]);
    drop(transfers);
}

#[test]
fn a_source_is_named_without_its_secrets() {
    let engine = Arc::new(warpio_core::testing::HeldEngine::default());
    let split = warpio_core::plan::Split::new(10).unwrap();
    let name = "https://me:secret@host/file?token=1";
    let starter = warpio_core::engine::Starter::new(engine, split, name, Device::host());
    let failed = ready(starter.read(Arc::new(()), u64::MAX, Device::host().alloc(8).unwrap())).unwrap_err();
    let text = format!("{} {starter:?}", failed.error);
    assert!(text.contains("https://host/file") && !text.contains("secret") && !text.contains("token"), "{text}");
}
