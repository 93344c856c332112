//! What is dropped, and when: the mock ends the process where memory, files or parameters go too early.

use futures::executor::block_on;
use warpio_core::ErrorKind;
use warpio_cufile::{EngineOptions, Route};

use crate::support::{KIB, MIB, Rig, assert_bytes, finished, until};

fn options(route: Route) -> EngineOptions {
    let mut options = EngineOptions::default();
    options.route = route;
    options
}

#[test]
fn a_dropped_transfer_keeps_its_memory_until_the_device_is_done() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(4 * MIB);
    let bench = rig.engine(options(Route::Batch));
    let target = bench.target(&path, false);
    finished(bench.read(&target, 0, 4096));
    until(|| rig.gpu().counters().device_bytes == 0);
    rig.mock.ctl("hold");
    let transfers: Vec<_> = (0..4).map(|i| bench.read(&target, i * MIB as u64, MIB)).collect();
    rig.mock.ctl("wait held 4");
    drop(transfers);
    assert_eq!(rig.gpu().counters().device_allocations, 4, "the device may still write it");
    rig.mock.ctl("complete; wait idle");
    until(|| rig.gpu().counters().device_bytes == 0);
    assert_eq!(rig.mock.counters().bytes_read, 4 * MIB as u64 + 2 * 4096);
}

#[test]
fn a_dropped_call_keeps_its_memory_until_it_returns() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(4 * MIB);
    let bench = rig.engine(options(Route::Sync));
    let target = bench.target(&path, false);
    finished(bench.read(&target, 0, 4096));
    until(|| rig.gpu().counters().device_bytes == 0);
    rig.mock.ctl("on Read times 1 block");
    let transfer = bench.read(&target, 0, MIB);
    rig.mock.ctl("wait blocked 1");
    drop(transfer);
    assert_eq!(rig.gpu().counters().device_allocations, 1);
    rig.mock.ctl("release");
    until(|| rig.gpu().counters().device_bytes == 0);
}

#[test]
fn what_waits_behind_a_cancelled_transfer_is_skipped() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(MIB);
    let mut options = options(Route::Sync);
    options.threads = 1;
    let bench = rig.engine(options);
    let target = bench.target(&path, false);
    finished(bench.read(&target, 0, 4096));
    rig.mock.ctl("on Read times 1 block");
    let first = bench.read(&target, 0, 64 * KIB);
    rig.mock.ctl("wait blocked 1");
    let calls = rig.mock.calls("Read");
    let second = bench.read(&target, 512 * KIB as u64, 64 * KIB);
    second.cancel();
    rig.mock.ctl("release");
    assert_eq!(block_on(second).unwrap_err().error.kind(), ErrorKind::Cancelled);
    assert_bytes(finished(first).buffer, 0, 64 * KIB);
    assert_eq!(rig.mock.calls("Read"), calls, "the second was never asked for");
}

#[test]
fn an_engine_dropped_in_flight_finishes_what_was_submitted() {
    for route in [Route::Sync, Route::Batch, Route::Stream] {
        let Some(rig) = Rig::new("mode gds; device_us 2000; on entry every 3 percent 50; on Read every 3 percent 50")
        else {
            return;
        };
        let path = rig.file(4 * MIB);
        let bench = rig.engine(options(route));
        let target = bench.target(&path, false);
        let transfers: Vec<_> =
            (0..32).map(|i| (i * 128 * KIB, bench.read(&target, (i * 128 * KIB) as u64, 128 * KIB))).collect();
        drop((bench, target));
        for (offset, transfer) in transfers {
            assert_bytes(finished(transfer).buffer, offset, 128 * KIB);
        }
        // Threads end, files are deregistered, and the driver is closed, in this order.
        until(|| rig.mock.counters().open == 0);
        let left = rig.mock.counters();
        assert_eq!(
            (left.handles, left.batches, left.streams, left.leaks, left.violations),
            (0, 0, 0, 0, 0),
            "{route:?}"
        );
    }
}

#[test]
fn a_file_is_deregistered_before_it_is_closed_however_it_is_dropped() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(MIB);
    let bench = rig.engine(options(Route::Batch));
    rig.mock.ctl("hold");
    let target = bench.target(&path, false);
    let transfer = bench.read(&target, 0, 64 * KIB);
    // The first read of a storage is a call, which nothing holds.
    rig.mock.ctl("wait held 1");
    drop(target);
    rig.mock.ctl("complete");
    finished(transfer);
    until(|| rig.mock.counters().handles == 0);
    assert_eq!(rig.mock.counters().violations, 0);
    // The number of the descriptor is used again, for another file.
    for _ in 0..4 {
        assert_bytes(finished(bench.read(&bench.target(&path, false), 0, 64 * KIB)).buffer, 0, 64 * KIB);
    }
}

#[test]
fn the_order_of_ends_does_not_matter_to_the_audit() {
    for seed in 0..4 {
        let plan = format!("mode gds; order shuffled {seed}; device_us 500 parallel 4");
        let Some(rig) = Rig::new(&plan) else { return };
        let path = rig.file(2 * MIB);
        let bench = rig.engine(EngineOptions::default());
        let target = bench.target(&path, false);
        for i in 0..40u64 {
            let transfer = bench.read(&target, i % 16 * 64 * KIB as u64, 64 * KIB);
            if i % 3 == 0 {
                drop(transfer);
            } else if i % 3 == 1 {
                transfer.cancel();
                drop(transfer);
            } else {
                finished(transfer);
            }
        }
        drop((bench, target));
        until(|| rig.mock.counters().open == 0);
        assert_eq!(rig.mock.counters().violations, 0);
    }
}
