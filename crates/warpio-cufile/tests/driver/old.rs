//! A library of 1.11, which lacks all that came later.

use warpio_core::{ErrorKind, PathKind};
use warpio_cufile::{BoolParameter, Driver, EngineOptions, LibraryVersion, Setting};
use warpio_tests::mock_cufile::Edition;

use crate::support::{MIB, Rig, assert_bytes, finished, options};

#[test]
fn transfers_work_with_what_there_is() {
    let Some(rig) = Rig::with(Edition::Old, "mode gds") else { return };
    assert_eq!(rig.library.version(), LibraryVersion { major: 1, minor: 11 });
    assert!(rig.library.optional().is_empty());
    let path = rig.file(4 * MIB);
    let bench = rig.engine(EngineOptions::default());
    for len in [64 << 10, 4 * MIB] {
        let transfer = bench.read(&bench.target(&path, false), 0, len);
        let report = transfer.report();
        assert_bytes(finished(transfer).buffer, 0, len);
        assert_eq!(report.bytes(PathKind::Gds), len as u64);
    }
}

#[test]
fn availability_rests_on_the_properties() {
    for (mode, on) in [("gds", true), ("p2p", true), ("compat", false)] {
        let Some(rig) = Rig::with(Edition::Old, &format!("mode {mode}")) else { return };
        assert_eq!(rig.driver().availability().unwrap().is_on(), on, "{mode}");
    }
}

#[test]
fn settings_that_every_version_has_apply_and_others_are_told() {
    let Some(rig) = Rig::with(Edition::Old, "mode gds") else { return };
    let settings = options().setting(Setting::MaxDirectIoSize(4 * MIB as u64));
    let driver = Driver::open(rig.library, &rig.device, &settings).unwrap();
    assert_eq!(driver.properties().unwrap().max_direct_io_size(), 4 * MIB as u64);
    drop(driver);
    crate::support::until(|| rig.mock.counters().open == 0);
    let parameters = options().bool_parameter(BoolParameter::UsePciP2pdma, true);
    let error = Driver::open(rig.library, &rig.device, &parameters).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("does not have the setting UsePciP2pdma"), "{error}");
}

#[test]
fn statistics_are_not_there() {
    let Some(rig) = Rig::with(Edition::Old, "mode gds") else { return };
    let driver = rig.driver();
    let error = driver.start_statistics(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("1.15"), "{error}");
    assert!(driver.peer_flags().is_empty());
}
