//! How many bytes took which path.

use warpio_core::{Device, DeviceBytesMut, Moved, PathKind, Transfer};

use crate::support::{held, read, ready};

#[test]
fn a_report_counts_on_and_outlives_its_transfer() {
    let (completer, transfer) = Transfer::<Moved<DeviceBytesMut>>::channel();
    let report = transfer.report();
    completer.count(PathKind::Gds, 10);
    completer.count(PathKind::PageCache, 5);
    completer.count(PathKind::Gds, 1);
    drop((transfer, completer));
    assert_eq!((report.bytes(PathKind::Gds), report.bytes(PathKind::Direct)), (11, 0));
    assert_eq!(report.paths().collect::<Vec<_>>(), [(PathKind::Gds, 11), (PathKind::PageCache, 5)]);
}

#[test]
fn segments_of_one_transfer_may_take_different_paths() {
    let (engine, starter) = held(&Device::host(), 10);
    let transfer = read(&starter, 30);
    let report = transfer.report();
    for (segment, path) in engine.take().into_iter().zip([PathKind::Direct, PathKind::PageCache, PathKind::Direct]) {
        let mut segment = segment.into_segment();
        segment.set_path(path);
        segment.finish(Ok(10));
    }
    assert_eq!(ready(transfer).unwrap().n, 30);
    assert_eq!(report.paths().collect::<Vec<_>>(), [(PathKind::Direct, 20), (PathKind::PageCache, 10)]);
}

#[test]
fn bytes_that_did_not_arrive_are_not_counted() {
    let (engine, starter) = held(&Device::host(), 10);
    let transfer = read(&starter, 20);
    let report = transfer.report();
    let mut segments = engine.take().into_iter();
    segments.next().unwrap().finish(Ok(4));
    segments.next().unwrap().abandon();
    assert!(ready(transfer).is_err());
    assert_eq!(report.bytes(PathKind::PageCache), 4);
}

#[test]
fn every_path_has_a_name_of_its_own() {
    let names: std::collections::HashSet<_> = PathKind::ALL.into_iter().map(|path| path.to_string()).collect();
    assert_eq!(names.len(), PathKind::ALL.len());
}
