//! Reads by calls of their own.

use warpio_core::{ErrorKind, PathKind};
use warpio_cufile::{CuFileError, EngineOptions, Route};

use crate::support::{Bench, KIB, MIB, Rig, aligned, assert_bytes, finished, outcome};

fn options() -> EngineOptions {
    let mut options = EngineOptions::default();
    options.route = Route::Sync;
    options
}

fn bench(rig: &Rig) -> Bench {
    rig.engine(options())
}

#[test]
fn a_large_read_goes_past_host_memory_in_large_requests() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(40 * MIB);
    let bench = bench(&rig);
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

#[test]
fn peer_to_peer_is_called_so() {
    let Some(rig) = Rig::new("mode p2p") else { return };
    let path = rig.file(2 * MIB);
    let bench = bench(&rig);
    let transfer = bench.read(&bench.target(&path, false), 0, 2 * MIB);
    let report = transfer.report();
    assert_bytes(finished(transfer).buffer, 0, 2 * MIB);
    assert_eq!(report.paths().collect::<Vec<_>>(), [(PathKind::P2p, 2 * MIB as u64)]);
}

#[test]
fn edges_go_another_way_and_the_body_this_one() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(MIB);
    let bench = bench(&rig);
    let target = bench.target(&path, false);
    // Memory that begins where the file's pages do, 100 bytes in.
    let mut buffer = aligned(&rig.device, MIB);
    let buffer = buffer.split_off(100);
    let len = buffer.len() - 50;
    let mut buffer = buffer;
    drop(buffer.split_off(len));
    let transfer = bench.starter().read(std::sync::Arc::new(target), 100, buffer);
    let report = transfer.report();
    let moved = finished(transfer);
    assert_eq!(moved.n, len);
    assert_bytes(moved.buffer, 100, len);
    let body = (MIB - 2 * 4096) as u64;
    assert_eq!(report.bytes(PathKind::Gds), body);
    assert_eq!(report.bytes(PathKind::PageCache), len as u64 - body);
}

#[test]
fn memory_that_lies_across_the_pages_of_the_file_goes_another_way() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(MIB);
    let bench = bench(&rig);
    let transfer = bench.read(&bench.target(&path, false), 100, 512 * KIB);
    let report = transfer.report();
    assert_bytes(finished(transfer).buffer, 100, 512 * KIB);
    assert_eq!(report.paths().collect::<Vec<_>>(), [(PathKind::PageCache, 512 * KIB as u64)]);
    assert_eq!(bench.engine.stats().calls, 0);
}

#[test]
fn without_another_way_everything_goes_this_one() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(MIB);
    let bench = bench(&rig);
    let transfer = bench.read(&bench.alone(&path, false), 100, 512 * KIB + 7);
    let report = transfer.report();
    assert_bytes(finished(transfer).buffer, 100, 512 * KIB + 7);
    assert_eq!(report.paths().collect::<Vec<_>>(), [(PathKind::Gds, 512 * KIB as u64 + 7)]);
}

#[test]
fn the_end_of_the_file_is_a_short_read() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(3 * MIB + 777);
    let bench = bench(&rig);
    for target in [bench.target(&path, false), bench.alone(&path, false)] {
        let moved = finished(bench.read(&target, MIB as u64, 8 * MIB));
        assert_eq!(moved.n, 2 * MIB + 777);
        assert_bytes(moved.buffer, MIB, 2 * MIB + 777);
        let behind = finished(bench.read(&target, 64 * MIB as u64, MIB));
        assert_eq!(behind.n, 0);
    }
}

/// As the library answers without a current context.
#[test]
fn an_end_that_is_none_is_not_believed() {
    for (route, plan) in [
        (Route::Sync, "on Read size 1048576 ret 0"),
        (Route::Batch, "on entry ret 0"),
        (Route::Stream, "on ReadAsync ret 0"),
    ] {
        let Some(rig) = Rig::new("mode gds") else { return };
        let path = rig.file(2 * MIB);
        let mut options = options();
        options.route = route;
        let bench = rig.engine(options);
        rig.mock.ctl(plan);
        let moved = finished(bench.read(&bench.target(&path, false), 0, MIB));
        assert_eq!(moved.n, MIB, "{plan}");
        assert_bytes(moved.buffer, 0, MIB);
    }
    let Some(rig) = Rig::new("mode gds; on Read size 1048576 ret 0") else { return };
    let path = rig.file(2 * MIB);
    let mut options = options();
    options.route = Route::Sync;
    let bench = rig.engine(options);
    let failed = outcome(bench.read(&bench.alone(&path, false), 0, MIB)).unwrap_err();
    assert!(failed.error.to_string().contains("although the file goes on"), "{}", failed.error);
}

#[test]
fn short_answers_are_asked_on() {
    for rule in ["on Read max 100000", "on Read every 2 percent 37", "on Read chance 50 7 max 4097"] {
        let Some(rig) = Rig::new("mode gds") else { return };
        let path = rig.file(5 * MIB);
        let bench = bench(&rig);
        let target = bench.target(&path, false);
        rig.mock.ctl(rule);
        let moved = finished(bench.read(&target, 0, 5 * MIB));
        assert_eq!(moved.n, 5 * MIB, "{rule}");
        assert_bytes(moved.buffer, 0, 5 * MIB);
        assert_eq!(bench.engine.stats().refused, 0, "{rule}");
    }
}

#[test]
fn signals_in_between_are_no_failure() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(MIB);
    let bench = bench(&rig);
    let target = bench.alone(&path, false);
    finished(bench.read(&target, 0, 4096));
    rig.mock.ctl("on Read times 20 errno 4");
    let moved = finished(bench.read(&target, 0, MIB));
    assert_bytes(moved.buffer, 0, MIB);
    rig.mock.ctl("on Read errno 4");
    let error = outcome(bench.read(&target, 0, MIB)).unwrap_err().error;
    assert_eq!(error.os_error(), Some(4), "not for ever: {error}");
}

/// Every way in which the library says that something failed, alone and with another engine beside.
#[test]
fn every_encoding_of_an_error_is_an_error_or_goes_another_way() {
    let cases = [
        ("errno 5", None, ErrorKind::Io),
        ("errno 5017", Some(5017), ErrorKind::InvalidInput),
        ("ret -5017", Some(5017), ErrorKind::InvalidInput),
        ("ret -5008", Some(5008), ErrorKind::Unsupported),
        ("errno 5030", Some(5030), ErrorKind::Io),
        ("errno 5016", Some(5016), ErrorKind::OutOfMemory),
        ("ret -5", None, ErrorKind::Io),
        ("ret 9999999999", None, ErrorKind::Io),
        ("ret -9999999", None, ErrorKind::Io),
        ("errno 5099", Some(5099), ErrorKind::Io),
    ];
    for (action, code, kind) in cases {
        let Some(rig) = Rig::new("mode gds") else { return };
        let path = rig.file(MIB);
        let bench = bench(&rig);
        let (alone, both) = (bench.alone(&path, false), bench.target(&path, false));
        // What is found out about the storage is found out first.
        finished(bench.read(&alone, 0, 4096));
        rig.mock.ctl(&format!("on Read {action}"));

        let failed = outcome(bench.read(&alone, 0, MIB)).unwrap_err();
        assert_eq!(failed.error.kind(), kind, "{action}: {}", failed.error);
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(MIB), "{action}: the buffer comes back");
        assert_eq!(failed.error.offset(), Some(0), "{action}");
        let cause = std::error::Error::source(&failed.error);
        let told = cause.and_then(|cause| cause.downcast_ref::<CuFileError>()).and_then(CuFileError::code);
        assert_eq!(told, code, "{action}");
        if let Some(code) = code {
            assert!(failed.error.to_string().contains(&code.to_string()), "{action}: {}", failed.error);
        }

        let moved = finished(bench.read(&both, 0, MIB));
        assert_bytes(moved.buffer, 0, MIB);
        assert_eq!(bench.engine.stats().refused, 1, "{action}");
    }
}

#[test]
fn a_part_that_was_read_before_the_failure_is_read_again_elsewhere() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(4 * MIB);
    let bench = bench(&rig);
    let target = bench.target(&path, false);
    finished(bench.read(&target, 0, 4096));
    rig.mock.ctl("on Read times 1 max 1000000; on Read errno 5");
    let moved = finished(bench.read(&target, 0, 4 * MIB));
    assert_bytes(moved.buffer, 0, 4 * MIB);
}

#[test]
fn many_at_once_share_the_threads() {
    let Some(rig) = Rig::new("mode gds; device_us 200") else { return };
    let path = rig.file(8 * MIB);
    let bench = bench(&rig);
    let target = bench.target(&path, false);
    let transfers: Vec<_> =
        (0..64).map(|i| (i * 128 * KIB, bench.read(&target, (i * 128 * KIB) as u64, 128 * KIB))).collect();
    for (offset, transfer) in transfers {
        assert_bytes(finished(transfer).buffer, offset, 128 * KIB);
    }
    let most = rig.mock.counters().max_in_flight;
    assert!((2..=8).contains(&most), "{most} at once");
}
