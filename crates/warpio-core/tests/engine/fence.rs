//! Transfers wait for the device work that their buffer carries, before anything is fetched.

use std::sync::Arc;

use warpio_core::testing::FakeGpu;
use warpio_core::{Device, DeviceStream, ErrorKind};

use crate::support::{block_on, held, poll, ready, small_pool};

/// Returns once everything enqueued so far has run.
fn settle(stream: &DeviceStream) {
    let _ = stream.record().and_then(|event| event.synchronize());
}

#[test]
fn a_read_begins_when_the_work_on_its_buffer_has_ended() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let (engine, starter) = held(&device, 4096);
    let stream = device.new_stream().unwrap();
    let mut buffer = device.alloc(8192).unwrap();
    gpu.hold();
    buffer.after(&stream).unwrap();
    let mut transfer = starter.read(Arc::new(()), 0, buffer);
    assert!(engine.is_empty(), "the stream may still use the memory");
    assert!(poll(&mut transfer).is_pending());
    gpu.release();
    settle(&stream);
    assert_eq!(engine.take().len(), 2);
}

#[test]
fn a_read_into_host_memory_that_a_gpu_uses_waits_and_blocks_nobody() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let (engine, starter) = held(&device, 4096);
    let stream = device.new_stream().unwrap();
    let mut buffer = Device::host().alloc(10).unwrap();
    gpu.hold();
    buffer.after(&stream).unwrap();
    let (tx, rx) = std::sync::mpsc::channel();
    let reading = std::thread::spawn({
        let starter = starter.clone();
        move || tx.send(starter.read(Arc::new(()), 0, buffer)).unwrap()
    });
    let transfer = rx.recv_timeout(crate::support::LONG / 6);
    let early = engine.len();
    gpu.release();
    reading.join().unwrap();
    assert!(transfer.is_ok(), "starting a read waited for a device");
    assert_eq!(early, 0);
}

#[test]
fn a_read_dropped_while_it_waits_is_moot_when_it_begins() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let (engine, starter) = held(&device, 4096);
    let stream = device.new_stream().unwrap();
    let mut buffer = device.alloc(4096).unwrap();
    gpu.hold();
    buffer.after(&stream).unwrap();
    drop(starter.read(Arc::new(()), 0, buffer));
    assert_eq!(gpu.allocations(), 1, "the stream may still use the memory");
    gpu.release();
    settle(&stream);
    assert!(engine.take().into_iter().all(|held| held.segment().is_moot()));
    gpu.wait_freed();
}

#[test]
fn a_read_behind_work_that_failed_fails_with_its_buffer() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let (engine, starter) = held(&device, 4096);
    let mut buffer = device.alloc(8192).unwrap();
    gpu.hold();
    buffer.after(&device.new_stream().unwrap()).unwrap();
    let transfer = starter.read(Arc::new(()), 0, buffer);
    gpu.break_down();
    let failed = block_on(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeviceLost);
    assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(8192));
    assert!(engine.is_empty(), "nothing was begun");
}

#[test]
fn a_write_waits_for_the_work_that_its_buffer_names() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let (engine, starter) = held(&device, 4096);
    let stream = device.new_stream().unwrap();
    let data = device.alloc(10).unwrap().freeze();
    gpu.hold();
    data.used_on(&stream).unwrap();
    let _transfer = starter.write(Arc::new(()), 0, data);
    assert!(engine.is_empty());
    gpu.release();
    settle(&stream);
    assert_eq!(engine.len(), 1);
    drop(engine.take());
}

#[test]
fn a_write_of_a_buffer_that_names_nothing_waits_for_all_earlier_work() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let (engine, starter) = held(&device, 4096);
    let stream = device.new_stream().unwrap();
    let data = device.alloc(10).unwrap().freeze();
    gpu.hold();
    let kernel = stream.record().unwrap();
    let _transfer = starter.write(Arc::new(()), 0, data);
    assert!(engine.is_empty(), "a kernel may be writing what is to be written");
    gpu.release();
    kernel.synchronize().unwrap();
    settle(&stream);
    assert_eq!(engine.len(), 1);
    drop(engine.take());
}

#[test]
fn a_write_of_host_memory_waits_for_no_device() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let (engine, starter) = held(&device, 4096);
    gpu.hold();
    let transfer = starter.write(Arc::new(()), 0, Device::host().alloc(10).unwrap().freeze());
    engine.take().into_iter().for_each(|held| held.finish(Ok(10)));
    assert_eq!(ready(transfer).unwrap().len(), 10);
}

#[test]
fn a_write_from_a_lost_device_is_an_error_with_its_buffer() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let (engine, starter) = held(&device, 4096);
    let data = device.alloc(10).unwrap().freeze();
    gpu.break_down();
    let failed = ready(starter.write(Arc::new(()), 0, data)).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeviceLost);
    assert!(failed.buffer.is_some() && engine.is_empty());
}
