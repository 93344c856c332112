//! Reads by batches.

use std::time::{Duration, Instant};

use warpio_core::{ErrorKind, PathKind};
use warpio_cufile::{EngineOptions, Route};

use crate::support::{Bench, KIB, MIB, Rig, assert_bytes, finished, outcome};

fn options() -> EngineOptions {
    let mut options = EngineOptions::default();
    options.route = Route::Batch;
    options.stall = Duration::from_millis(500);
    options
}

const PIECE: usize = 64 * KIB;
const COUNT: usize = 100;

/// Reads every piece of a file, all at once, and looks at the bytes.
fn read_pieces(bench: &Bench, path: &std::path::Path) {
    let target = bench.target(path, false);
    let transfers: Vec<_> = (0..COUNT).map(|i| (i * PIECE, bench.read(&target, (i * PIECE) as u64, PIECE))).collect();
    for (offset, transfer) in transfers {
        let moved = finished(transfer);
        assert_eq!(moved.n, PIECE);
        assert_bytes(moved.buffer, offset, PIECE);
    }
}

/// Reads every piece under a plan, after the storage has been found out about.
fn read_under(plan: &str) -> Option<(Rig, Bench)> {
    let rig = Rig::new("mode gds")?;
    let path = rig.file(COUNT * PIECE);
    let bench = rig.engine(options());
    finished(bench.read(&bench.alone(&path, false), 0, 4096));
    rig.mock.ctl(plan);
    read_pieces(&bench, &path);
    Some((rig, bench))
}

#[test]
fn small_reads_go_in_batches_by_themselves() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(3 * MIB);
    let bench = rig.engine(EngineOptions::default());
    let target = bench.target(&path, false);
    let transfer = bench.read(&target, 0, 256 * KIB);
    let report = transfer.report();
    assert_bytes(finished(transfer).buffer, 0, 256 * KIB);
    assert_eq!(report.paths().collect::<Vec<_>>(), [(PathKind::Gds, 256 * KIB as u64)]);
    let stats = bench.engine.stats();
    assert_eq!((stats.entries, stats.calls), (1, 0));
    assert_bytes(finished(bench.read(&target, 0, 3 * MIB)).buffer, 0, 3 * MIB);
    assert_eq!(bench.engine.stats().calls, 1, "a large one by a call");
}

#[test]
fn a_setting_forces_batches_and_large_reads_are_cut() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(9 * MIB + 123);
    let bench = rig.engine(options());
    let moved = finished(bench.read(&bench.alone(&path, false), 0, 10 * MIB));
    assert_eq!(moved.n, 9 * MIB + 123);
    assert_bytes(moved.buffer, 0, 9 * MIB + 123);
    let stats = bench.engine.stats();
    assert!(stats.entries >= 10 && stats.calls == 0, "{stats:?}");
}

#[test]
fn events_in_any_order_end_what_they_are_about() {
    for order in ["order reversed", "order shuffled 42", "order shuffled 7; device_us 300 parallel 8"] {
        let Some((_rig, bench)) = read_under(order) else { return };
        assert_eq!(bench.engine.stats().retries, 0, "{order}");
    }
}

#[test]
fn events_that_come_one_by_one_or_late_are_waited_for() {
    for plan in ["on BatchIOGetStatus max 1", "on BatchIOGetStatus times 30 empty", "device_us 20000"] {
        let Some((_rig, bench)) = read_under(plan) else { return };
        assert_eq!(bench.engine.stats().lost_batches, 0, "{plan}");
    }
}

#[test]
fn failed_entries_are_done_by_calls() {
    for (event, what) in [(64, -5), (64, 0), (32, 0), (4, 0), (8, 0), (16, -5), (16, -5019), (128, 0)] {
        let Some((_rig, bench)) = read_under(&format!("on entry every 3 event {event} {what}")) else { return };
        let stats = bench.engine.stats();
        assert!(stats.retries >= 30, "{event} {what}: {stats:?}");
        assert_eq!((stats.refused, stats.lost_batches), (0, 0), "{event} {what}");
    }
}

#[test]
fn an_entry_that_no_call_does_either_goes_another_way_or_fails() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(MIB);
    let bench = rig.engine(options());
    let (alone, both) = (bench.alone(&path, false), bench.target(&path, false));
    finished(bench.read(&alone, 0, 4096));
    rig.mock.ctl("on entry event 64 -5; on Read ret -5022");
    let failed = outcome(bench.read(&alone, 0, PIECE)).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
    assert!(failed.error.to_string().contains("5022"), "{}", failed.error);
    assert_bytes(finished(bench.read(&both, 0, PIECE)).buffer, 0, PIECE);
    assert_eq!(bench.engine.stats().refused, 1);
}

#[test]
fn short_entries_are_asked_on() {
    for rule in ["on entry max 4096", "on entry every 2 percent 50", "on entry max 1000"] {
        let Some((_rig, bench)) = read_under(rule) else { return };
        let stats = bench.engine.stats();
        assert!(stats.entries > COUNT as u64 && stats.calls == 0, "{rule}: {stats:?}");
    }
}

#[test]
fn signals_in_between_are_no_failure() {
    let Some((_rig, bench)) = read_under("on entry every 2 event 16 -4") else { return };
    assert_eq!(bench.engine.stats().retries, 0);
}

#[test]
fn a_submission_that_wipes_the_batch_loses_nothing() {
    for code in [5037, 5019, 5040, 5035] {
        // The second one wipes what the first one has in flight.
        let plan = format!("device_us 5000; on BatchIOSubmit nth 2 status {code}");
        let Some((rig, bench)) = read_under(&plan) else { return };
        let stats = bench.engine.stats();
        assert_eq!((stats.lost_batches, stats.refused), (1, 0), "{code}: {stats:?}");
        assert!(stats.retries > 0, "{code}: {stats:?}");
        assert_eq!(rig.mock.counters().violations, 0);
    }
}

#[test]
fn submissions_that_all_fail_are_done_by_calls() {
    let Some((_rig, bench)) = read_under("on BatchIOSubmit status 5035") else { return };
    let stats = bench.engine.stats();
    assert!(stats.calls >= COUNT as u64 && stats.refused == 0, "{stats:?}");
}

#[test]
fn without_a_batch_calls_do_it() {
    let Some(rig) = Rig::new("mode gds; on BatchIOSetUp status 5039") else { return };
    let path = rig.file(COUNT * PIECE);
    let bench = rig.engine(options());
    read_pieces(&bench, &path);
    let stats = bench.engine.stats();
    assert_eq!((stats.entries, stats.refused), (0, 0));
}

#[test]
fn a_library_that_tells_no_events_for_a_while_is_asked_again() {
    for (plan, lost) in [("on BatchIOGetStatus times 10 status 5041", false), ("on BatchIOGetStatus status 5041", true)]
    {
        let Some((_rig, bench)) = read_under(plan) else { return };
        assert_eq!(bench.engine.stats().lost_batches > 0, lost, "{plan}: but not for ever");
    }
}

#[test]
fn an_event_that_never_comes_costs_its_batch_and_no_bytes() {
    let Some((_rig, bench)) = read_under("on entry nth 20 lose") else { return };
    let stats = bench.engine.stats();
    assert!(stats.lost_batches >= 1 && stats.refused == 0, "{stats:?}");
}

/// With more entries than the library has bounce buffers, a submission would wait for ever.
#[test]
fn a_hundred_and_twenty_eight_pieces_of_a_mebibyte_complete_in_compatibility_mode() {
    let Some(rig) = Rig::new("mode compat; slab 64; device_us 1000") else { return };
    let path = rig.file(8 * MIB);
    let mut options = options();
    options.allow_compat = true;
    let bench = rig.engine(options);
    for count in [65, 128] {
        let target = bench.alone(&path, false);
        let transfers: Vec<_> =
            (0..count).map(|i| (i % 8 * MIB, bench.read(&target, (i % 8 * MIB) as u64, MIB))).collect();
        for (offset, transfer) in transfers {
            assert_bytes(finished(transfer).buffer, offset, MIB);
        }
        assert_eq!(bench.engine.stats().lost_batches, 0);
    }
    assert!(rig.mock.counters().max_in_flight <= 64);
}

#[test]
fn places_are_counted_for_batches_of_every_size() {
    for most in [1, 3, 16] {
        let Some(rig) = Rig::new(&format!("mode gds; max_batch {most}; device_us 100")) else { return };
        let path = rig.file(COUNT * PIECE);
        let bench = rig.engine(options());
        read_pieces(&bench, &path);
        assert!(rig.mock.counters().max_in_flight <= most);
        assert_eq!(bench.engine.stats().lost_batches, 0);
    }
}

#[test]
fn one_batch_is_used_again_and_again() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(COUNT * PIECE);
    let bench = rig.engine(options());
    for _ in 0..5 {
        read_pieces(&bench, &path);
    }
    assert_eq!(rig.mock.calls("BatchIOSetUp"), 1);
    assert_eq!(rig.mock.calls("BatchIOCancel"), 0, "nothing is ever cancelled: no event would tell");
}

#[test]
fn a_deadline_holds_although_the_entry_never_ends() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(MIB);
    let bench = rig.engine(options());
    let target = bench.target(&path, false);
    finished(bench.read(&target, 0, 4096));
    rig.mock.ctl("on entry nth 1 never");
    let transfer = bench.read(&target, 0, PIECE).deadline(Instant::now() + Duration::from_millis(50));
    let failed = futures::executor::block_on(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded);
    assert!(failed.buffer.is_none(), "its memory may still be written");
    // Others are not disturbed.
    assert_bytes(finished(bench.read(&target, 0, PIECE)).buffer, 0, PIECE);
}
