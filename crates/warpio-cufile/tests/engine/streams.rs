//! Reads and writes in the order of a stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use warpio_core::{ErrorKind, PathKind};
use warpio_cuda::CudaStream;
use warpio_cufile::{EngineOptions, Route};

use crate::support::{
    Bench, KIB, MIB, Rig, assert_bytes, bytes, finished, outcome, succeeded_in_child, to_host, upload,
};

fn options() -> EngineOptions {
    let mut options = EngineOptions::default();
    options.route = Route::Stream;
    options.stall = Duration::from_millis(300);
    options
}

fn rig() -> Option<(Rig, Bench, std::path::PathBuf)> {
    let rig = Rig::new("mode gds")?;
    let path = rig.file(9 * MIB + 55);
    let bench = rig.engine(options());
    // What is found out about the storage is found out first.
    finished(bench.read(&bench.alone(&path, false), 0, 4096));
    Some((rig, bench, path))
}

#[test]
fn reads_come_in_whole_and_end_short_at_the_end_of_the_file() {
    let Some((rig, bench, path)) = rig() else { return };
    let transfer = bench.read(&bench.target(&path, false), 0, 10 * MIB);
    let report = transfer.report();
    let moved = finished(transfer);
    assert_eq!(moved.n, 9 * MIB + 55);
    assert_bytes(moved.buffer, 0, 9 * MIB + 55);
    assert!(report.bytes(PathKind::Gds) >= 9 * MIB as u64);
    let stats = bench.engine.stats();
    assert!(stats.stream_calls >= 3 && stats.retries == 0, "{stats:?}");
    assert_eq!(rig.mock.counters().streams, 1, "one registered stream serves the device");
}

#[test]
fn what_asked_for_a_streams_order_is_seen_by_that_stream() {
    let Some((rig, bench, path)) = rig() else { return };
    let stream = CudaStream::new(&rig.device).unwrap();
    let transfer = bench.read(&bench.target(&path, false), 0, MIB).on_stream(&stream);
    let moved = block_on(transfer).unwrap();
    // A copy on that stream, enqueued now, has the bytes.
    let copy = rig.device.alloc(MIB).unwrap();
    let (from, to) = (moved.buffer.freeze(), copy);
    let mut to = to;
    let (source, target) = (from.device_ptr() as usize as *mut u8, to.as_mut_ptr());
    // SAFETY: both are `MIB` bytes of this device, and live until the copy has been read back.
    unsafe {
        let (to, from) = (std::ptr::NonNull::new(target).unwrap(), std::ptr::NonNull::new(source).unwrap());
        stream.as_device_stream().backend().copy_on_device(to, from, MIB).unwrap();
    }
    to.after(&stream).unwrap();
    assert!(to_host(to) == bytes()[..MIB]);
}

#[test]
fn writes_go_the_same_way() {
    let Some((rig, bench, path)) = rig() else { return };
    let inverted: Vec<u8> = bytes()[..MIB].iter().map(|byte| !byte).collect();
    let target = Arc::new(bench.target(&path, true));
    let write = bench.starter().write(target, 4096, upload(&rig.device, &inverted));
    block_on(write).unwrap();
    assert!(std::fs::read(&path).unwrap()[4096..4096 + MIB] == inverted);
    assert_eq!(rig.mock.calls("WriteAsync"), 1);
}

#[test]
fn what_fails_on_the_stream_is_done_by_a_call() {
    for plan in [
        "on ReadAsync ret -5",
        "on ReadAsync ret -5017",
        "on ReadAsync status 5038",
        "on ReadAsync status 5011 700",
        "on ReadAsync percent 40",
        "on ReadAsync times 3 ret -4",
    ] {
        let Some((rig, bench, path)) = rig() else { return };
        rig.mock.ctl(plan);
        let moved = finished(bench.read(&bench.target(&path, false), 0, 4 * MIB));
        assert_bytes(moved.buffer, 0, 4 * MIB);
        assert_eq!(bench.engine.stats().refused, 0, "{plan}");
        assert_eq!(rig.mock.counters().violations, 0, "{plan}");
    }
}

#[test]
fn what_no_call_does_either_fails_with_the_code() {
    let Some((rig, bench, path)) = rig() else { return };
    rig.mock.ctl("on ReadAsync ret -5; on Read errno 5022");
    let failed = outcome(bench.read(&bench.alone(&path, false), 0, MIB)).unwrap_err();
    assert!(failed.error.to_string().contains("5022"), "{}", failed.error);
    assert!(failed.buffer.is_some());
}

#[test]
fn a_stream_that_cannot_be_registered_is_used_all_the_same() {
    let Some(rig) = Rig::new("mode gds; on StreamRegister status 5022") else { return };
    let path = rig.file(MIB);
    let bench = rig.engine(options());
    // The library now reads the parameters when the stream gets there.
    rig.gpu().ctl("delay_us 2000 seed 3");
    let transfers: Vec<_> = (0..8)
        .map(|i| (i * 128 * KIB, bench.read(&bench.target(&path, false), (i * 128 * KIB) as u64, 128 * KIB)))
        .collect();
    for (offset, transfer) in transfers {
        assert_bytes(finished(transfer).buffer, offset, 128 * KIB);
    }
}

#[test]
fn a_stream_that_never_gets_there_costs_a_deadline_and_memory() {
    let Some((rig, bench, path)) = rig() else { return };
    rig.mock.ctl("on ReadAsync nth 1 never");
    let transfer = bench.read(&bench.target(&path, false), 0, MIB).deadline(Instant::now() + Duration::from_millis(50));
    let failed = block_on(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded);
    assert!(failed.buffer.is_none(), "its memory may still be written");
    drop(bench);
    // Parameters and memory are there when the stream gets on.
    rig.mock.ctl("release; wait idle");
    assert_eq!(rig.mock.counters().violations, 0);
}

/// What leaks is in a process of its own: the driver stays open for it.
#[test]
fn a_result_that_is_never_left_ends_the_transfer_without_its_buffer() {
    if succeeded_in_child("streams::a_result_that_is_never_left_ends_the_transfer_without_its_buffer") {
        return;
    }
    let Some((rig, bench, path)) = rig() else { return };
    rig.mock.ctl("on ReadAsync nth 1 lose");
    let failed = outcome(bench.read(&bench.target(&path, false), 0, MIB)).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Io);
    assert!(failed.buffer.is_none(), "nobody said that it is over");
    assert_bytes(finished(bench.read(&bench.target(&path, false), 0, MIB)).buffer, 0, MIB);
}

#[test]
fn a_context_that_breaks_ends_transfers_and_keeps_their_memory() {
    if succeeded_in_child("streams::a_context_that_breaks_ends_transfers_and_keeps_their_memory") {
        return;
    }
    let Some((rig, bench, path)) = rig() else { return };
    // The first copy on the stream of another transfer breaks the context; here it is the host function itself.
    rig.mock.ctl("on ReadAsync nth 1 block 20");
    let transfer = bench.read(&bench.target(&path, false), 0, 2 * MIB);
    rig.gpu().ctl("sticky 0 700");
    let failed = outcome(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeviceLost, "{}", failed.error);
    rig.gpu().ctl("reset");
}

#[test]
fn many_at_once_are_bounded() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(8 * MIB);
    let mut options = options();
    options.stall = EngineOptions::default().stall;
    let bench = rig.engine(options);
    finished(bench.read(&bench.alone(&path, false), 0, 4096));
    let target = bench.target(&path, false);
    let transfers: Vec<_> = (0..134).map(|i| (i % 8 * MIB, bench.read(&target, (i % 8 * MIB) as u64, MIB))).collect();
    for (offset, transfer) in transfers {
        assert_bytes(finished(transfer).buffer, offset, MIB);
    }
    assert!(rig.mock.counters().max_in_flight <= 16, "{:?}", rig.mock.counters());
    assert_eq!(bench.engine.stats().retries, 0);
}
