//! Sinks that only take host memory, for every device.

use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use warpio_core::testing::{FakeGpu, failed_write_contract, pattern, write_contract};
use warpio_core::{AsyncDeviceWrite, AsyncDeviceWriteExt, Device, DeviceBytes, Error, ErrorKind, StagedWriter};

use crate::double::{Act, Double};
use crate::support::{block_on, poll, ready, small_pool};

const PART: usize = 10_000;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn writer(double: &Double, device: &Device, runtime: &Runtime) -> StagedWriter<Double> {
    StagedWriter::new(double.clone(), device.clone(), runtime.handle().clone(), PART, 3)
}

fn data(device: &Device, len: usize) -> DeviceBytes {
    block_on(device.upload(&pattern(len))).unwrap().freeze()
}

fn devices() -> [Device; 2] {
    [Device::host(), FakeGpu::device(0, small_pool()).0]
}

#[test]
fn the_contract_from_host_memory() {
    let (runtime, double) = (runtime(), Double::open(0));
    let sink = writer(&double, &Device::host(), &runtime);
    runtime.block_on(write_contract(&sink, || std::future::ready(double.taken())));
    assert!(double.is_finished());
}

#[test]
fn the_contract_from_a_gpu() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let (runtime, double) = (runtime(), Double::open(0));
    let sink = writer(&double, &device, &runtime);
    runtime.block_on(write_contract(&sink, || std::future::ready(double.taken())));
    drop((sink, runtime));
    gpu.wait_freed();
}

#[test]
fn the_contract_of_writes_that_do_not_succeed() {
    for device in devices() {
        let (runtime, double) = (runtime(), Double::open(0));
        let sink = writer(&double, &device, &runtime);
        runtime.block_on(failed_write_contract(&sink));
        assert!(!double.is_finished(), "nothing is published");
    }
}

#[test]
fn a_write_that_failed_unseen_is_not_published() {
    for device in devices() {
        let (runtime, double) = (runtime(), Double::open(0).act(PART as u64, Act::Fail(ErrorKind::StorageFull)));
        let sink = writer(&double, &device, &runtime);
        // In the end nothing is left to be read of it but what finish says.
        let write = sink.write_at(0, data(&device, 3 * PART));
        block_on(sink.write_at(4 * PART as u64, data(&device, 10))).unwrap();
        let error = block_on(sink.finish()).unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::StorageFull, Some("finish")));
        assert!(error.to_string().contains("earlier write"), "{error}");
        assert!(!double.is_finished());
        assert!(block_on(write).is_err());
        let error = block_on(sink.finish()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull, "it is no better the second time");
    }
}

#[test]
fn a_dropped_write_whose_part_was_not_taken_is_not_published() {
    for device in devices() {
        let (runtime, double) = (runtime(), Double::shut(0));
        let sink = writer(&double, &device, &runtime);
        let write = sink.write_at(0, data(&device, 20 * PART));
        double.wait_started(3);
        drop(write);
        let error = block_on(sink.finish()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert!(!double.is_finished());
    }
}

#[test]
fn finish_waits_for_what_is_under_way_and_refuses_what_comes_later() {
    for device in devices() {
        let (runtime, double) = (runtime(), Double::shut(0));
        let sink = writer(&double, &device, &runtime);
        let write = sink.write_at(0, data(&device, PART));
        double.wait_started(1);
        let mut finish = sink.finish();
        assert!(poll(&mut finish).is_pending());
        assert!(!double.is_finished(), "a write is under way");
        let failed = block_on(sink.write_at(0, data(&device, 5))).unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(5));
        double.release();
        block_on(finish).unwrap();
        assert!(double.is_finished());
        assert!(block_on(write).is_ok());
    }
}

#[test]
fn references_and_boxes_of_sinks_are_sinks() {
    let (runtime, double) = (runtime(), Double::open(0));
    let sink: Box<dyn AsyncDeviceWrite> = Box::new(writer(&double, &Device::host(), &runtime));
    runtime.block_on(write_contract(&Arc::new(sink), || std::future::ready(double.taken())));
    assert!(double.is_finished(), "finish is passed on");
}

#[test]
fn no_more_parts_are_flushed_at_once_than_allowed() {
    for device in devices() {
        let (runtime, double) = (runtime(), Double::shut(0));
        let sink = writer(&double, &device, &runtime);
        let transfer = sink.write_at(0, data(&device, 20 * PART));
        double.wait_started(3);
        double.release();
        assert_eq!(block_on(transfer).unwrap().len(), 20 * PART);
        assert_eq!(double.peak(), 3);
        assert!(double.taken() == pattern(20 * PART), "on {device}");
    }
}

#[test]
fn an_error_gives_the_buffer_back() {
    for device in devices() {
        let (runtime, double) = (runtime(), Double::open(0).act(PART as u64, Act::Fail(ErrorKind::StorageFull)));
        let sink = writer(&double, &device, &runtime);
        let failed = block_on(sink.write_all_at(0, data(&device, 3 * PART))).unwrap_err();
        assert_eq!((failed.error.kind(), failed.error.operation()), (ErrorKind::StorageFull, Some("write")));
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(3 * PART));
    }
}

#[test]
fn a_flush_that_panics_is_an_error() {
    for device in devices() {
        let (runtime, double) = (runtime(), Double::open(0).act(PART as u64, Act::Panic));
        let sink = writer(&double, &device, &runtime);
        let failed = block_on(sink.write_at(0, data(&device, 3 * PART))).unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Gone);
        assert!(failed.buffer.is_some());
        assert!(block_on(sink.write_at(0, data(&device, PART))).is_ok(), "the sink is still there");
    }
}

#[test]
fn a_runtime_shut_down_in_mid_flight_is_gone() {
    for device in devices() {
        let (runtime, double) = (runtime(), Double::shut(0));
        let sink = writer(&double, &device, &runtime);
        let transfer = sink.write_at(0, data(&device, 20 * PART));
        double.wait_started(3);
        runtime.shutdown_background();
        let failed = block_on(transfer).unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Gone, "on {device}");
        assert!(failed.buffer.is_some());
    }
}

#[test]
fn a_cancelled_write_drops_its_flushes() {
    for device in devices() {
        let (runtime, double) = (runtime(), Double::shut(0));
        let sink = writer(&double, &device, &runtime);
        let transfer = sink.write_at(0, data(&device, 20 * PART));
        double.wait_started(3);
        transfer.cancel();
        let failed = block_on(transfer).unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Cancelled);
        assert!(failed.buffer.is_some());
        double.wait_abandoned(3);
        assert_eq!(double.started(), 3, "the rest was not begun");
    }
}

#[test]
fn nothing_is_flushed_before_the_device_has_written_it() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let (runtime, double) = (runtime(), Double::open(0));
    let sink = writer(&double, &device, &runtime);
    let data = data(&device, PART);
    gpu.hold();
    let mut transfer = sink.write_at(0, data);
    assert!(poll(&mut transfer).is_pending());
    assert_eq!(double.started(), 0);
    gpu.release();
    block_on(transfer).unwrap();
    assert!(double.taken() == pattern(PART));
}

#[test]
fn a_lost_device_is_an_error_with_the_buffer() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let (runtime, double) = (runtime(), Double::open(0));
    let sink = writer(&double, &device, &runtime);
    let data = data(&device, PART);
    gpu.hold();
    let transfer = sink.write_at(0, data);
    gpu.break_down();
    let failed = block_on(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeviceLost);
    assert!(failed.buffer.is_some());
    assert_eq!(double.started(), 0);
}

#[test]
fn what_a_sink_cannot_do_is_unsupported() {
    let (runtime, double) = (runtime(), Double::open(0));
    let sink = writer(&double, &Device::host(), &runtime);
    let failed = ready(sink.append(data(&Device::host(), 5))).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Unsupported);
    assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(5));
    assert_eq!(block_on(sink.set_len(7)).unwrap_err().kind(), ErrorKind::Unsupported);
    block_on(sink.sync()).unwrap();
    let error = Error::from(block_on(sink.write_at(u64::MAX, data(&Device::host(), 5))).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}
