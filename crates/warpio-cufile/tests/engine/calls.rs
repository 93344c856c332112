//! Reads and writes by calls of their own.

use warpio_core::PathKind;
use warpio_cufile::{EngineOptions, Route};

use crate::support::{MIB, Rig, assert_bytes, finished};

fn options() -> EngineOptions {
    let mut options = EngineOptions::default();
    options.route = Route::Sync;
    options
}

#[test]
fn a_large_read_goes_past_host_memory_in_large_requests() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(40 * MIB);
    let bench = rig.engine(options());
    let target = bench.target(&path, false);
    let transfer = bench.read(&target, 0, 40 * MIB);
    let report = transfer.report();
    let moved = finished(transfer);
    assert_eq!(moved.n, 40 * MIB);
    assert_bytes(moved.buffer, 0, 40 * MIB);
    assert_eq!(report.paths().collect::<Vec<_>>(), [(PathKind::Gds, 40 * MIB as u64)]);
    let calls = bench.engine.stats().calls;
    assert!((3..=10).contains(&calls), "{calls} calls for ten segments of 4 MiB");
}
