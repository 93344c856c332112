//! Calls that do not return.

use std::time::{Duration, Instant};

use futures::executor::block_on;
use warpio_core::ErrorKind;
use warpio_cufile::{EngineOptions, Route};

use crate::support::{Bench, KIB, MIB, Rig, assert_bytes, finished, outcome};

fn options(route: Route) -> EngineOptions {
    let mut options = EngineOptions::default();
    options.route = route;
    options.threads = 2;
    options.stall = Duration::from_millis(100);
    options
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(50)
}

fn rig(route: Route) -> Option<(Rig, Bench, std::path::PathBuf)> {
    let rig = Rig::new("mode gds")?;
    let path = rig.file(4 * MIB);
    let bench = rig.engine(options(route));
    finished(bench.read(&bench.alone(&path, false), 0, 4096));
    Some((rig, bench, path))
}

#[test]
fn a_deadline_holds_over_a_call_that_hangs() {
    let Some((rig, bench, path)) = rig(Route::Sync) else { return };
    rig.mock.ctl("on Read times 1 block");
    let failed = block_on(bench.read(&bench.target(&path, false), 0, MIB).deadline(soon())).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded);
    assert!(failed.buffer.is_none());
    assert_bytes(finished(bench.read(&bench.target(&path, false), 0, MIB)).buffer, 0, MIB);
}

#[test]
fn when_every_thread_hangs_other_engines_do_the_work() {
    let Some((rig, bench, path)) = rig(Route::Sync) else { return };
    let target = bench.target(&path, false);
    rig.mock.ctl("on Read times 2 block");
    let hanging: Vec<_> = (0..2).map(|i| bench.read(&target, i * 2 * MIB as u64, MIB)).collect();
    rig.mock.ctl("wait blocked 2");
    // One that waits already, and one that comes when it is known.
    assert_bytes(finished(bench.read(&target, MIB as u64, MIB)).buffer, MIB, MIB);
    assert_bytes(finished(bench.read(&target, MIB as u64, MIB)).buffer, MIB, MIB);
    assert!(bench.engine.stats().refused >= 2);
    let failed = outcome(bench.read(&bench.alone(&path, false), 0, MIB)).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Unavailable);
    rig.mock.ctl("release");
    for transfer in hanging {
        finished(transfer);
    }
}

#[test]
fn a_submission_that_hangs_lets_others_by() {
    let Some((rig, bench, path)) = rig(Route::Batch) else { return };
    let target = bench.target(&path, false);
    rig.mock.ctl("on BatchIOSubmit times 1 block");
    let hanging = bench.read(&target, 0, 64 * KIB);
    rig.mock.ctl("wait blocked 1");
    let transfers: Vec<_> =
        (1..20).map(|i| (i * 64 * KIB, bench.read(&target, (i * 64 * KIB) as u64, 64 * KIB))).collect();
    for (offset, transfer) in transfers {
        assert_bytes(finished(transfer).buffer, offset, 64 * KIB);
    }
    assert_eq!(bench.engine.stats().refused, 0, "by calls of cuFile");
    rig.mock.ctl("release");
    assert_bytes(finished(hanging).buffer, 0, 64 * KIB);
}

#[test]
fn a_stream_call_that_hangs_lets_others_by() {
    let Some((rig, bench, path)) = rig(Route::Stream) else { return };
    let target = bench.target(&path, false);
    rig.mock.ctl("on ReadAsync times 1 block");
    let hanging = bench.read(&target, 0, 64 * KIB);
    rig.mock.ctl("wait blocked 1");
    assert_bytes(finished(bench.read(&target, MIB as u64, 64 * KIB)).buffer, MIB, 64 * KIB);
    rig.mock.ctl("release");
    assert_bytes(finished(hanging).buffer, 0, 64 * KIB);
}

#[test]
fn a_stream_that_never_gets_on_lets_others_by() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(4 * MIB);
    let mut options = options(Route::Stream);
    options.stream_depth = 1;
    let bench = rig.engine(options);
    let target = bench.target(&path, false);
    finished(bench.read(&target, 0, 4096));
    rig.mock.ctl("on ReadAsync times 1 never");
    let hanging = bench.read(&target, 0, 64 * KIB);
    rig.mock.ctl("wait blocked 1");
    // The only place is taken, and does not come back.
    let behind: Vec<_> = (1..6).map(|i| (i * 64 * KIB, bench.read(&target, (i * 64 * KIB) as u64, 64 * KIB))).collect();
    let arrived: Vec<_> = behind.into_iter().map(|(offset, transfer)| (offset, finished(transfer).buffer)).collect();
    assert_eq!(bench.engine.stats().refused, 0, "by calls of cuFile");
    rig.mock.ctl("release");
    assert_bytes(finished(hanging).buffer, 0, 64 * KIB);
    // Copies to the host wait for the context's earlier work, and that stood still.
    for (offset, buffer) in arrived {
        assert_bytes(buffer, offset, 64 * KIB);
    }
}

#[test]
fn a_registration_that_hangs_costs_its_file_a_deadline() {
    let Some((rig, bench, path)) = rig(Route::Auto) else { return };
    rig.mock.ctl("on HandleRegister times 1 block");
    let failed = block_on(bench.read(&bench.target(&path, false), 0, 2 * MIB).deadline(soon())).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded);
    assert_bytes(finished(bench.read(&bench.target(&path, false), 0, 2 * MIB)).buffer, 0, 2 * MIB);
}

#[test]
fn dropping_everything_over_a_call_that_hangs_does_not_wait() {
    let Some((rig, bench, path)) = rig(Route::Sync) else { return };
    let target = bench.target(&path, false);
    rig.mock.ctl("on Read times 1 block");
    let transfer = bench.read(&target, 0, MIB);
    rig.mock.ctl("wait blocked 1");
    let began = Instant::now();
    drop((transfer, target, bench));
    assert!(began.elapsed() < Duration::from_secs(5), "a drop waited for the call");
    assert_eq!(rig.mock.counters().blocked, 1);
    assert_eq!(rig.gpu().counters().device_allocations, 1, "its memory stays");
    rig.mock.ctl("release");
}
