//! Writes.

use std::sync::Arc;
use std::time::Instant;

use futures::executor::block_on;
use warpio_core::{DeviceBytes, ErrorKind, Failed, PathKind, Transfer};
use warpio_cufile::{CuFileTarget, EngineOptions, Route};

use crate::support::{Bench, KIB, MIB, PATIENCE, Rig, bytes, upload};

fn write(bench: &Bench, target: &CuFileTarget, offset: u64, bytes: DeviceBytes) -> Transfer<DeviceBytes> {
    bench.starter().write(Arc::new(target.clone()), offset, bytes)
}

fn outcome(transfer: Transfer<DeviceBytes>) -> Result<DeviceBytes, Failed<DeviceBytes>> {
    block_on(transfer.deadline(Instant::now() + PATIENCE))
}

fn routes() -> impl Iterator<Item = EngineOptions> {
    [Route::Sync, Route::Batch, Route::Stream].into_iter().map(|route| {
        let mut options = EngineOptions::default();
        options.route = route;
        options
    })
}

#[test]
fn bytes_get_into_the_file_by_every_interface() {
    for options in routes() {
        let Some(rig) = Rig::new("mode gds") else { return };
        let path = rig.path("new.bin");
        std::fs::write(&path, []).unwrap();
        let route = options.route;
        let bench = rig.engine(options);
        let bytes = bytes()[..3 * MIB + 1234].to_vec();
        let target = bench.target(&path, true);
        let transfer = write(&bench, &target, 0, upload(&rig.device, &bytes));
        let report = transfer.report();
        outcome(transfer).unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes, "{route:?}");
        assert_eq!(report.bytes(PathKind::Gds), 3 * MIB as u64, "{route:?}");
        assert_eq!(report.bytes(PathKind::PageCache), 1234, "{route:?}: the edge");
    }
}

#[test]
fn neighbouring_bytes_stay_as_they_are() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(MIB);
    let bench = rig.engine(EngineOptions::default());
    let target = bench.target(&path, true);
    let fill = vec![7; 200_000];
    outcome(write(&bench, &target, 5_001, upload(&rig.device, &fill))).unwrap();
    let mut want = bytes()[..MIB].to_vec();
    want[5_001..205_001].copy_from_slice(&fill);
    assert!(std::fs::read(&path).unwrap() == want);
}

#[test]
fn short_writes_are_gone_on_with() {
    for (options, rule) in routes().zip(["on Write max 100000", "on entry percent 30", "on WriteAsync percent 30"]) {
        let Some(rig) = Rig::new("mode gds") else { return };
        let path = rig.file(2 * MIB);
        let bench = rig.engine(options);
        let target = bench.target(&path, true);
        let bytes = vec![9; 2 * MIB];
        rig.mock.ctl(rule);
        outcome(write(&bench, &target, 0, upload(&rig.device, &bytes))).unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes, "{rule}");
    }
}

#[test]
fn a_full_disk_is_told_and_not_tried_again() {
    for (code, kind) in [(28, ErrorKind::StorageFull), (122, ErrorKind::StorageFull), (27, ErrorKind::StorageFull)] {
        let Some(rig) = Rig::new("mode gds") else { return };
        let path = rig.file(2 * MIB);
        let bench = rig.engine(EngineOptions::default());
        let target = bench.target(&path, true);
        rig.mock.ctl(&format!("on Write errno {code}"));
        let failed = outcome(write(&bench, &target, 0, upload(&rig.device, &[1; 2 * MIB]))).unwrap_err();
        assert_eq!((failed.error.kind(), failed.error.os_error()), (kind, Some(code)));
        assert!(failed.buffer.is_some());
        assert_eq!(bench.engine.stats().refused, 0);
    }
}

#[test]
fn what_cufile_refuses_to_write_another_engine_writes() {
    for rule in ["on Write ret -5008", "on Write errno 5", "on Write ret 0"] {
        let Some(rig) = Rig::new("mode gds") else { return };
        let path = rig.file(2 * MIB);
        let bench = rig.engine(EngineOptions::default());
        let target = bench.target(&path, true);
        rig.mock.ctl(rule);
        let bytes = vec![3; 2 * MIB];
        outcome(write(&bench, &target, 0, upload(&rig.device, &bytes))).unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes, "{rule}");
    }
}

#[test]
fn a_file_for_reading_only_is_not_written() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(MIB);
    let bench = rig.engine(EngineOptions::default());
    let failed =
        outcome(write(&bench, &bench.alone(&path, false), 0, upload(&rig.device, &[1; 64 * KIB]))).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Unsupported);
    assert_eq!(rig.mock.calls("Write") + rig.mock.counters().entries, 0, "cuFile is not asked for what cannot be");
}
