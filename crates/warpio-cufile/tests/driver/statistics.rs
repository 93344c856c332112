//! What the library counts.

use warpio_core::ErrorKind;
use warpio_cufile::{EngineOptions, OpCounter};

use crate::support::{MIB, Rig, finished};

#[test]
fn levels_count_more_and_more() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(4 * MIB);
    let bench = rig.engine(EngineOptions::default());
    let (driver, target) = (&bench.driver, bench.alone(&path, false));
    finished(bench.read(&target, 0, 4096));
    for level in 1..=3 {
        driver.start_statistics(level).unwrap();
        driver.reset_statistics().unwrap();
        assert_eq!(driver.statistics_level().unwrap(), level);
        finished(bench.read(&target, 0, 4 * MIB));
        let counted = driver.statistics().unwrap();
        assert_eq!((counted.reads, counted.read_bytes), (OpCounter { ok: 1, failed: 0 }, 4 * MIB as u64));
        assert_eq!(counted.histograms.is_some(), level >= 2);
        assert_eq!(counted.gpus.len(), usize::from(level >= 3));
        if let Some(gpu) = counted.gpus.first() {
            assert_eq!((gpu.nvidia_fs_reads, gpu.posix_reads, gpu.peer_to_peer_reads), (1, 0, 0));
        }
        driver.stop_statistics().unwrap();
    }
    assert_eq!(driver.statistics().unwrap_err().kind(), ErrorKind::InvalidInput, "nothing is counted now");
}

#[test]
fn finding_out_about_storage_leaves_statistics_as_they_are() {
    for level in [0, 1, 3] {
        let Some(rig) = Rig::new("mode gds") else { return };
        let path = rig.file(MIB);
        let bench = rig.engine(EngineOptions::default());
        if level > 0 {
            bench.driver.start_statistics(level).unwrap();
        }
        finished(bench.read(&bench.target(&path, false), 0, MIB));
        assert_eq!(bench.driver.statistics_level().unwrap(), level);
        assert_eq!(bench.driver.statistics().is_ok(), level > 0);
    }
}

#[test]
fn a_level_that_is_none_is_refused() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let error = rig.driver().start_statistics(9).unwrap_err();
    assert!(error.to_string().contains("5022"), "{error}");
}
