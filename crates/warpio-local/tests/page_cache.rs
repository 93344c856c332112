//! The page cache, asked and changed through real files.

mod support;

use rustix::fs::OFlags;
use std::fs::{File, Permissions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use support::evicted::{Evicted, kept, still_kept, undisturbed};
use support::{as_nobody, disk_dir, file_with, on_tmpfs, pattern, skipped};
use warpio_local::page_cache::{Coverage, PageCacheError, Source, drop_range, page_map, residency, warm_range};
use warpio_local::sys::cache;
use warpio_local::sys::reopen::reopen;
use warpio_local::sys::statx::page_size;
use warpio_local::sys::usage;

const MIB: u64 = 1 << 20;
const LEN: u64 = 16 * MIB;

/// A file on disk of which nothing is cached; `None` where the file system does not let go of its pages.
fn cold_file(len: u64) -> Option<(tempfile::TempDir, File)> {
    let dir = disk_dir();
    let file = file_with(&dir.path().join("x"), &pattern(len as usize));
    if drop_range(&file, 0..len).unwrap().pages > 0 {
        skipped("the file system where the build lies does not let go of pages");
        return None;
    }
    Some((dir, file))
}

/// Runs `check` on a file on disk of which nothing is cached; on a new one where the kernel interfered.
fn on_cold_file(len: u64, check: impl Fn(&File, &Path) -> Result<(), Evicted>) {
    undisturbed(|| match cold_file(len) {
        Some((dir, file)) => check(&file, &dir.path().join("x")),
        None => Ok(()),
    });
}

#[test]
fn dropped_and_warmed_again() {
    on_cold_file(LEN, |file, _path| {
        let cold = residency(file, 0..LEN).unwrap();
        assert_eq!((cold.pages, cold.bytes, cold.total_pages), (0, 0, LEN / page_size() as u64));
        assert_eq!((cold.is_full(), cold.fraction()), (false, 0.0));
        let warm = kept(warm_range(file, 0..LEN))?;
        assert_eq!((warm.pages, warm.bytes), (warm.total_pages, LEN));
        assert_eq!((warm.is_full(), warm.fraction()), (true, 1.0));
        assert_eq!(kept(residency(file, 0..LEN))?.pages, warm.pages);
        Ok(())
    });
}

#[test]
fn a_part_is_warmed_and_the_map_shows_which() {
    on_cold_file(LEN, |file, _path| {
        assert!(kept(warm_range(file, 4 * MIB..5 * MIB))?.is_full());
        let map = page_map(file, 0..LEN).unwrap().expect("the owner is told");
        let counted = kept(residency(file, 0..LEN))?;
        assert_eq!(map.total_pages(), LEN / page_size() as u64);
        assert_eq!(map.coverage(4 * MIB..5 * MIB), Coverage::Full);
        // The kernel reads ahead behind what was asked for, but neither before it nor that far.
        assert_eq!(map.coverage(0..4 * MIB), Coverage::Absent);
        assert_eq!(map.coverage(12 * MIB..LEN), Coverage::Absent);
        assert_eq!(map.coverage(0..LEN), Coverage::Partial);
        assert_eq!((counted.pages, counted.bytes), (map.cached_pages(), map.cached_bytes(0..LEN)));
        let first = map.runs().find(|run| run.cached).unwrap();
        assert_eq!(first.range.start, 4 * MIB);
        Ok(())
    });
}

#[test]
fn dropping_a_part_leaves_its_neighbours() {
    on_cold_file(LEN, |file, _path| {
        let page = page_size() as u64;
        kept(warm_range(file, 0..LEN))?;
        // Half pages at the ends stay.
        let left = kept(drop_range(file, 4 * MIB - 1..8 * MIB + 1))?;
        assert_eq!((left.pages, left.total_pages), (2, 4 * MIB / page + 2));
        let map = page_map(file, 0..LEN).unwrap().unwrap();
        still_kept(file, 0..LEN)?;
        let runs: Vec<_> = map.runs().map(|run| (run.range, run.cached)).collect();
        assert_eq!(runs, [(0..4 * MIB, true), (4 * MIB..8 * MIB, false), (8 * MIB..LEN, true)]);
        Ok(())
    });
}

#[test]
fn a_page_cut_short_by_the_end_of_the_file_is_dropped_too() {
    let len = 3 * page_size() as u64 + 5;
    on_cold_file(len, |file, _path| {
        let warm = kept(warm_range(file, 0..len))?;
        assert_eq!((warm.pages, warm.bytes), (4, len));
        assert_eq!(drop_range(file, 0..u64::MAX).unwrap().pages, 0);
        Ok(())
    });
}

#[test]
fn what_is_dirty_is_written_before_it_is_dropped() {
    on_cold_file(LEN, |file, path| {
        let bytes = vec![0xA5; MIB as usize];
        file.write_all_at(&bytes, 2 * MIB).unwrap();
        let written = kept(residency(file, 2 * MIB..3 * MIB))?;
        assert!(written.is_full());
        if let Some(dirty) = written.dirty {
            assert!(dirty + written.writeback.unwrap() > 0, "{written:?}");
        }
        let dropped = drop_range(file, 2 * MIB..3 * MIB).unwrap();
        assert_eq!((dropped.pages, dropped.dirty.unwrap_or(0)), (0, 0));
        let back = std::fs::read(path).unwrap();
        assert!(back[2 * MIB as usize..3 * MIB as usize] == bytes);
        Ok(())
    });
}

#[test]
fn writing_back_makes_pages_clean_and_keeps_them() {
    on_cold_file(LEN, |file, _path| {
        file.write_all_at(&vec![1; MIB as usize], 0).unwrap();
        cache::write_back(file.as_fd(), &(0..MIB)).unwrap();
        let clean = kept(residency(file, 0..MIB))?;
        assert!(clean.is_full());
        assert_eq!((clean.dirty.unwrap_or(0), clean.writeback.unwrap_or(0)), (0, 0));
        Ok(())
    });
}

#[test]
fn ranges_are_clipped_to_the_file() {
    undisturbed(|| {
        let dir = disk_dir();
        let file = file_with(&dir.path().join("x"), &pattern(10_000));
        let pages = 10_000u64.div_ceil(page_size() as u64);
        for range in [0..10_000, 0..u64::MAX, 0..20_000] {
            let found = kept(residency(&file, range.clone()))?;
            assert_eq!((found.total_pages, found.pages, found.bytes), (pages, pages, 10_000));
            assert_eq!(page_map(&file, range).unwrap().unwrap().range(), 0..10_000);
        }
        for range in [0..0, 5..5, 10_000..20_000, u64::MAX - 1..u64::MAX] {
            for found in [
                residency(&file, range.clone()).unwrap(),
                warm_range(&file, range.clone()).unwrap(),
                drop_range(&file, range.clone()).unwrap(),
            ] {
                assert_eq!((found.total_pages, found.pages, found.is_full()), (0, 0, true));
            }
            assert_eq!(page_map(&file, range).unwrap().unwrap().total_pages(), 0);
        }
        assert!(kept(residency(&file, 0..10_000))?.is_full(), "dropping nothing dropped nothing");
        Ok(())
    });
}

#[test]
fn a_hole_is_not_cached_until_it_is_read() {
    undisturbed(|| {
        let dir = disk_dir();
        let file = file_with(&dir.path().join("x"), b"");
        file.set_len(4 * MIB).unwrap();
        assert_eq!(residency(&file, 0..4 * MIB).unwrap().pages, 0);
        assert_eq!(page_map(&file, 0..4 * MIB).unwrap().unwrap().cached_pages(), 0);
        assert!(kept(warm_range(&file, 0..4 * MIB))?.is_full());
        Ok(())
    });
}

/// To those who neither own nor may write a file, mincore says that all of it is cached. Nobody must believe it.
#[test]
fn those_who_are_not_told_do_not_claim_that_all_is_cached() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can make a file that is not its own");
    }
    on_cold_file(LEN, |file, path| {
        file.set_permissions(Permissions::from_mode(0o444)).unwrap();
        let read_only = File::open(path).unwrap();
        let (map, cold) = as_nobody(|| (page_map(&read_only, 0..LEN).unwrap(), residency(&read_only, 0..LEN).unwrap()));
        assert_eq!(map, None);
        assert_ne!(cold.source, Source::Mincore);
        assert_eq!(cold.total_pages, LEN / page_size() as u64);
        assert_eq!(cold.pages, 0, "{cold:?}");
        let after = residency(file, 0..LEN).unwrap();
        assert!(after.fraction() < 0.2, "the estimate warmed the file: {after:?}");

        drop_range(file, 0..LEN).unwrap();
        warm_range(file, 0..LEN / 2).unwrap();
        // What the estimate above was just reading may have stayed.
        let truth = residency(file, 0..LEN).unwrap();
        let half = as_nobody(|| residency(&read_only, 0..LEN)).unwrap();
        assert!((half.fraction() - truth.fraction()).abs() < 0.1, "{half:?} but {truth:?}");
        warm_range(file, 0..LEN).unwrap();
        let full = as_nobody(|| residency(&read_only, 0..LEN)).unwrap();
        still_kept(file, 0..LEN)?;
        assert!(full.is_full());
        Ok(())
    });
}

#[test]
fn what_a_thread_reads_from_disk_is_told_from_what_it_finds_cached() {
    let Some((_dir, file)) = cold_file(LEN) else {
        return;
    };
    let before = usage::blocks_read();
    file.read_exact_at(&mut vec![0; MIB as usize], 0).unwrap();
    let cold = usage::blocks_read();
    if cold == before {
        return skipped("this kernel or file system keeps no account of what is read");
    }
    assert!(cold - before >= MIB as libc::c_long / 512);
    file.read_exact_at(&mut [0], 0).unwrap();
    assert_eq!(usage::blocks_read(), cold);
    drop_range(&file, 0..LEN).unwrap();
    std::thread::scope(|scope| scope.spawn(|| file.read_exact_at(&mut [0], 0).unwrap()).join()).unwrap();
    assert_eq!(usage::blocks_read(), cold, "another thread's are not ours");
}

#[test]
fn those_who_may_not_even_read_are_told_so() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can make a file that is not its own");
    }
    let Some((dir, file)) = cold_file(LEN) else {
        return;
    };
    file.set_permissions(Permissions::from_mode(0o400)).unwrap();
    let read_only = File::open(dir.path().join("x")).unwrap();
    match as_nobody(|| residency(&read_only, 0..LEN)) {
        // Kernels between 6.5 and the one that began to ask who asks.
        Ok(found) => assert_eq!((found.source, found.pages), (Source::CacheStat, 0)),
        Err(e) => assert!(matches!(e, PageCacheError::NotPermitted { .. }), "{e}"),
    }
}

#[test]
fn each_descriptor_does_what_it_can() {
    on_cold_file(LEN, |file, path| {
        let write_only = File::options().write(true).open(path).unwrap();
        assert!(page_map(&write_only, 0..LEN).unwrap().is_none(), "a map needs a mapping, that needs reading");
        assert_eq!(residency(&write_only, 0..LEN).unwrap().pages, 0);
        assert!(kept(warm_range(&write_only, 0..MIB))?.is_full());
        drop_range(&write_only, 0..LEN).unwrap();
        let read_only = File::open(path).unwrap();
        assert!(kept(warm_range(&read_only, 0..MIB))?.is_full());
        assert_eq!(drop_range(&read_only, 0..LEN).unwrap().pages, 0);
        assert_eq!(residency(file, 0..LEN).unwrap().pages, 0);
        Ok(())
    });
}

#[test]
fn a_direct_descriptor_warms_the_cache_all_the_same() {
    on_cold_file(LEN, |file, _path| {
        let Ok(direct) = reopen(file.as_fd(), OFlags::RDONLY | OFlags::DIRECT) else {
            skipped("no direct I/O where the build lies");
            return Ok(());
        };
        assert!(kept(warm_range(&direct, 0..MIB))?.is_full());
        assert!(kept(residency(file, 0..MIB))?.is_full());
        Ok(())
    });
}

#[test]
fn a_tmpfs_is_all_cache_and_says_so_after_a_drop() {
    on_tmpfs("size=4m", |path| {
        let file = file_with(&path.join("x"), &pattern(MIB as usize));
        let left = drop_range(&file, 0..MIB).unwrap();
        assert!(left.is_full(), "{left:?}");
        assert_eq!(page_map(&file, 0..MIB).unwrap().unwrap().coverage(0..MIB), Coverage::Full);
    });
}

#[test]
fn a_map_of_a_range_longer_than_one_mapping_is_whole() {
    undisturbed(|| {
        let dir = disk_dir();
        let file = file_with(&dir.path().join("x"), b"");
        let len = (5 << 30) / 2 + 1;
        file.set_len(len).unwrap();
        let last = len - 1;
        for at in [0, (1 << 30) - 1, 1 << 30, 2 << 30, last] {
            file.read_exact_at(&mut [0], at).unwrap();
        }
        let map = page_map(&file, 100..len).unwrap().unwrap();
        let counted = kept(residency(&file, 0..len))?;
        assert_eq!(map.range(), 100..len);
        for at in [100, (1 << 30) - 1, 1 << 30, 2 << 30, last] {
            assert_eq!(map.coverage(at..at + 1), Coverage::Full, "{at}");
        }
        assert_eq!(map.coverage(100 * MIB..900 * MIB), Coverage::Absent);
        assert_eq!(map.coverage(1100 * MIB..2000 * MIB), Coverage::Absent);
        assert_eq!(map.cached_pages(), counted.pages);
        Ok(())
    });
}
