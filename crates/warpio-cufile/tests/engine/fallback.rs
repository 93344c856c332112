//! Files and storage that cuFile does not serve.

use std::sync::Arc;

use futures::executor::block_on;
use warpio_core::{Device, ErrorKind, PathKind};
use warpio_cufile::{CuFileEngine, EngineOptions};

use crate::support::{KIB, MIB, Rig, assert_bytes, finished, in_child, outcome, text};

#[test]
fn without_gpudirect_storage_there_is_no_engine_and_a_reason() {
    let Some(rig) = Rig::new("mode compat") else { return };
    let error = CuFileEngine::start(&rig.driver(), EngineOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("nvidia-fs is not loaded"), "{error}");
}

#[test]
fn a_driver_that_claims_gpudirect_storage_and_does_not_do_it_is_found_out() {
    for mode in ["gds", "p2p"] {
        let Some(rig) = Rig::new(&format!("mode {mode}; truth compat")) else { return };
        let path = rig.file(2 * MIB);
        let bench = rig.engine(EngineOptions::default());
        let transfer = bench.read(&bench.target(&path, false), 0, 2 * MIB);
        let report = transfer.report();
        assert_bytes(finished(transfer).buffer, 0, 2 * MIB);
        assert_eq!(report.paths().collect::<Vec<_>>(), [(PathKind::PageCache, 2 * MIB as u64)], "{mode}");
        assert_eq!(rig.mock.calls("Read"), 1, "one read found out");
        let failed = outcome(bench.read(&bench.alone(&path, false), 0, MIB)).unwrap_err();
        assert!(failed.error.to_string().contains("compatibility mode"), "{}", failed.error);
        // The next file of the storage is not even registered.
        let before = rig.mock.calls("HandleRegister");
        finished(bench.read(&bench.target(&path, false), 0, MIB));
        assert_eq!((rig.mock.calls("HandleRegister"), rig.mock.calls("Read")), (before, 1));
    }
}

#[test]
fn what_truly_happens_counts_more_than_what_is_said() {
    let Some(rig) = Rig::new("mode gds; truth p2p") else { return };
    let path = rig.file(MIB);
    let bench = rig.engine(EngineOptions::default());
    let transfer = bench.read(&bench.target(&path, false), 0, MIB);
    let report = transfer.report();
    finished(transfer);
    assert_eq!(report.bytes(PathKind::P2p), MIB as u64);
}

#[test]
fn a_file_that_cannot_be_registered_goes_another_way_or_fails_with_the_code() {
    for code in [5008, 5018, 5019, 5027, 5028, 5030, 5033] {
        let Some(rig) = Rig::new(&format!("mode gds; on HandleRegister status {code}")) else { return };
        let path = rig.file(2 * MIB);
        let bench = rig.engine(EngineOptions::default());
        let transfer = bench.read(&bench.target(&path, false), 0, 2 * MIB);
        let report = transfer.report();
        assert_bytes(finished(transfer).buffer, 0, 2 * MIB);
        assert_eq!(report.bytes(PathKind::Gds), 0, "{code}");
        let failed = outcome(bench.read(&bench.alone(&path, false), 0, 256 * KIB)).unwrap_err();
        assert!(failed.error.to_string().contains(&code.to_string()), "{code}: {}", failed.error);
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(256 * KIB));
    }
}

#[test]
fn without_udev_no_file_is_registered_and_everything_is_read() {
    let Some(rig) = Rig::new("mode gds; udev off") else { return };
    let path = rig.file(MIB);
    let bench = rig.engine(EngineOptions::default());
    for _ in 0..3 {
        assert_bytes(finished(bench.read(&bench.target(&path, false), 0, MIB)).buffer, 0, MIB);
    }
    assert_eq!(rig.mock.calls("HandleRegister"), 1, "the storage is asked once");
}

/// In a process of its own, whose log is the test's.
#[test]
fn a_storage_or_file_that_is_refused_is_said_once() {
    let test = "fallback::a_storage_or_file_that_is_refused_is_said_once";
    let Some(output) = in_child(test) else {
        tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::WARN).init();
        let read = |plan: &str, path_of: fn(&Rig, usize) -> std::path::PathBuf| {
            let Some(rig) = Rig::new(plan) else { return };
            let bench = rig.engine(EngineOptions::default());
            for i in 0..5 {
                let path = path_of(&rig, i);
                let target = bench.target(&path, false);
                for _ in 0..3 {
                    assert_bytes(finished(bench.read(&target, 0, MIB)).buffer, 0, MIB);
                }
            }
        };
        read("mode gds; on HandleRegister status 5030", |rig, _| rig.file(MIB));
        read("mode gds; truth compat", |rig, _| rig.file(MIB));
        // The file is found out by its first transfer, behind the read that looks which way bytes take.
        read("mode gds; on Read nth 2 times 1000 ret -5008; on entry event 64 0", |rig, _| rig.file(MIB));
        return;
    };
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("cuFile does not serve this storage").count(), 2, "{said}");
    assert_eq!(said.matches("cuFile refuses a file").count(), 5, "one for each of five files: {said}");
}

#[test]
fn strict_targets_fail_instead() {
    let Some(rig) = Rig::new("mode gds; on HandleRegister status 5008") else { return };
    let path = rig.file(MIB);
    let bench = rig.engine(EngineOptions::default());
    let failed = outcome(bench.read(&bench.target(&path, false).strict(true), 0, MIB)).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Unsupported);
    assert!(failed.error.to_string().contains("5008"), "{}", failed.error);
}

#[test]
fn host_memory_goes_another_way() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(MIB);
    let bench = rig.engine(EngineOptions::default());
    let buffer = Device::host().alloc(MIB).unwrap();
    let transfer = bench.starter().read(Arc::new(bench.target(&path, false)), 0, buffer);
    let report = transfer.report();
    assert_bytes(finished(transfer).buffer, 0, MIB);
    assert_eq!(report.bytes(PathKind::PageCache), MIB as u64);
    let buffer = Device::host().alloc(MIB).unwrap();
    let alone = bench.starter().read(Arc::new(bench.alone(&path, false)), 0, buffer);
    assert_eq!(block_on(alone).unwrap_err().error.kind(), ErrorKind::Unsupported);
}

#[test]
fn a_target_that_is_none_of_cufile_is_refused() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let bench = rig.engine(EngineOptions::default());
    let transfer = bench.starter().read(Arc::new("no file"), 0, rig.device.alloc(4096).unwrap());
    assert_eq!(outcome(transfer).unwrap_err().error.kind(), ErrorKind::InvalidInput);
}
