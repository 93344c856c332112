//! `warpio cache`. The files lie where the build does, which is on a disk more often than the temporary directory.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    DONE, FAILED, MIB, Run, Scratch, WRONG_USAGE, args, bytes, json, on_bind_mount, on_tmpfs, program, skipped, warpio,
};

const PAGE: u64 = 4096;

/// A file of 4 MiB that is on the disk, and that can be dropped from the cache.
fn disk_file() -> Option<(TempDir, PathBuf)> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, bytes(4 * MIB)).unwrap();
    std::fs::File::open(&path).unwrap().sync_all().unwrap();
    if json(args!["cache", "drop", path])["cached_pages"] != 0 {
        skipped("the build lies on a file system that is nothing but memory");
        return None;
    }
    Some((dir, path))
}

/// The kernel took pages of the file out of the cache meanwhile, which it may at any time.
struct Evicted;

/// Runs `check` on a file of 4 MiB of which nothing is cached; on a new one where the kernel interfered.
fn on_cold_file(check: impl Fn(&Path) -> Result<(), Evicted>) {
    for _ in 0..10 {
        let Some((_dir, path)) = disk_file() else { return };
        if check(&path).is_ok() {
            return;
        }
    }
    panic!("the kernel evicted pages of each of ten files");
}

/// What `warpio cache` reports, unless the kernel has evicted pages of the range.
fn kept<const N: usize>(arguments: [&OsStr; N]) -> Result<Value, Evicted> {
    let report = json(arguments);
    if report["evicted_pages"].as_u64().is_some_and(|pages| pages > 0) { Err(Evicted) } else { Ok(report) }
}

/// Whether what `warpio cache` prints names pages that the kernel has evicted.
fn tells_of_evicted(text: &str) -> bool {
    text.contains(" evicted earlier") && !text.contains(" 0 evicted earlier")
}

fn cached(report: &Value) -> (u64, u64) {
    (report["cached_pages"].as_u64().unwrap(), report["cached_bytes"].as_u64().unwrap())
}

#[test]
fn a_file_is_dropped_and_warmed_and_shown() {
    on_cold_file(|path| {
        let shown = json(args!["cache", "show", path]);
        assert_eq!(cached(&shown), (0, 0));
        assert_eq!((&shown["action"], &shown["pages"]), (&"shown".into(), &1024.into()));
        assert!(shown["cached_pages_before"].is_null(), "{shown}");

        let warmed = kept(args!["cache", "warm", path])?;
        assert_eq!(cached(&warmed), (1024, 4 * MIB as u64));
        assert_eq!((&warmed["action"], &warmed["cached_pages_before"]), (&"warmed".into(), &0.into()));
        assert_eq!(cached(&kept(args!["cache", "show", path])?).0, 1024);

        let dropped = kept(args!["cache", "drop", path])?;
        assert_eq!((cached(&dropped), &dropped["cached_pages_before"]), ((0, 0), &1024.into()));
        assert_eq!((&dropped["action"], &dropped["cached_bytes_before"]), (&"dropped".into(), &(4 * MIB).into()));
        Ok(())
    });
}

#[test]
fn a_range_is_treated_and_the_rest_left() {
    on_cold_file(|path| {
        kept(args!["cache", "warm", path])?;
        let dropped = json(args!["cache", "drop", path, "--offset", "1MiB", "--length", "1MiB"]);
        assert_eq!((cached(&dropped).0, &dropped["pages"]), (0, &256.into()));
        assert_eq!((&dropped["offset"], &dropped["length"]), (&MIB.into(), &MIB.into()));
        assert_eq!(cached(&kept(args!["cache", "show", path])?).0, 768);
        let warmed = kept(args!["cache", "warm", path, "--offset", "1MiB", "--length", "4096"])?;
        assert_eq!((cached(&warmed), &warmed["cached_pages_before"]), ((1, PAGE), &0.into()));
        let behind = kept(args!["cache", "show", path, "--offset", "3MiB"])?;
        assert_eq!((cached(&behind).0, &behind["length"]), (256, &MIB.into()));
        Ok(())
    });
}

/// Pages that the kernel evicts, here because it is asked to, are counted, until a drop forgets them.
#[test]
fn what_the_kernel_evicted_is_told() {
    let Some((_dir, path)) = disk_file() else { return };
    json(args!["cache", "warm", path]);
    let paged_out = page_out(&path);
    let evicted = |report: &Value| report["evicted_pages"].as_u64();
    let shown = json(args!["cache", "show", path]);
    if paged_out.is_err() || evicted(&shown).is_none() {
        return skipped("this kernel does not tell what it evicted, or does not evict what it is asked to");
    }
    // It keeps a few that it is just busy with.
    let many = evicted(&shown).unwrap();
    assert!(many > 512 && many + cached(&shown).0 == 1024, "{shown}");
    assert!(kept(args!["cache", "show", path]).is_err());
    let text = warpio(args!["cache", "show", path]).expect(DONE).stdout;
    assert!(tells_of_evicted(&text), "{text}");
    assert!(evicted(&json(args!["cache", "drop", path])) >= Some(many), "as it was before the drop");
    assert_eq!(evicted(&json(args!["cache", "drop", path])), Some(0), "forgotten");
}

/// Asks the kernel to evict all of a file.
fn page_out(path: &Path) -> rustix::io::Result<()> {
    let file = std::fs::File::open(path).unwrap();
    let len = file.metadata().unwrap().len() as usize;
    // SAFETY: a mapping at a place that the kernel chooses, which nobody reads.
    unsafe {
        let map = mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, &file, 0)?;
        let advised =
            madvise(map, len, Advice::LinuxPopulateRead).and_then(|()| madvise(map, len, Advice::LinuxPageOut));
        munmap(map, len)?;
        advised
    }
}

#[test]
fn what_is_not_on_the_disk_yet_is_told_and_written_before_it_is_dropped() {
    let Some((_dir, path)) = disk_file() else { return };
    std::fs::write(&path, bytes(MIB)).unwrap();
    let shown = json(args!["cache", "show", path]);
    if shown["found_by"] == "cachestat" {
        // As many as the kernel has not written by itself meanwhile.
        assert!(shown["dirty_pages"].as_u64().unwrap() <= 256, "{shown}");
    }
    assert_eq!(cached(&json(args!["cache", "drop", path])).0, 0);
    assert_eq!(std::fs::read(&path).unwrap(), bytes(MIB));
}

#[test]
fn text_tells_pages_bytes_and_what_was_done() {
    on_cold_file(|path| {
        let text = |action: &str| {
            let text = warpio(args!["cache", action, path]).expect(DONE).stdout;
            if tells_of_evicted(&text) { Err(Evicted) } else { Ok(text) }
        };
        let shown = text("show")?;
        assert!(shown.contains("0 of 1024 pages are cached (0 B of 4.00 MiB)"), "{shown}");
        let warmed = text("warm")?;
        assert!(warmed.contains("1024 of 1024") && warmed.contains("1024 warmed in"), "{warmed}");
        let dropped = text("drop")?;
        assert!(dropped.contains("0 of 1024") && dropped.contains("1024 dropped in"), "{dropped}");
        Ok(())
    });
}

#[test]
fn a_file_system_in_memory_keeps_its_pages_and_says_why() {
    on_tmpfs("size=1m", |dir| {
        std::fs::write(dir.join("file"), bytes(100_000)).unwrap();
        let dropped = warpio(args!["cache", "drop", dir.join("file")]).expect(DONE).stdout;
        assert!(dropped.contains("25 of 25") && dropped.contains("nothing but memory"), "{dropped}");
        assert_eq!(std::fs::read(dir.join("file")).unwrap(), bytes(100_000));
    });
}

#[test]
fn an_empty_file_has_no_pages() {
    let scratch = Scratch::new();
    let empty = scratch.file("empty", 0);
    for action in ["show", "warm", "drop"] {
        let report = json(args!["cache", action, empty]);
        assert_eq!((cached(&report), &report["pages"]), ((0, 0), &0.into()), "{action}");
    }
}

#[test]
fn what_is_no_file_is_refused() {
    let scratch = Scratch::new();
    for action in ["show", "drop", "warm"] {
        let refused = |path: &Path, why: &str| {
            let line = warpio(args!["cache", action, path]).error(FAILED);
            assert!(line.contains(path.to_str().unwrap()) && line.contains(why), "{line}");
        };
        refused(&scratch.path("missing"), "no such file");
        refused(scratch.dir(), "directory");
        refused(Path::new("/dev/null"), "character device");
    }
    let line = warpio(args!["cache", "warm", scratch.fifo("fifo")]).error(FAILED);
    assert!(line.contains("pipe"), "{line}");
    let file = scratch.file("file", 10);
    let line = warpio(args!["cache", "show", file, "--offset", "11"]).error(FAILED);
    assert!(line.contains("--offset"), "{line}");
}

#[test]
fn the_whole_machine_is_meant_only_where_it_is_said() {
    let file = Scratch::new().path("file");
    for wrong in [&args!["cache", "drop"][..], &args!["cache", "drop", "--system", file]] {
        warpio(wrong).expect(WRONG_USAGE);
    }
    warpio(["cache", "drop", "--system", "--offset", "1"]).expect(WRONG_USAGE);
    warpio(["cache", "warm", "--system"]).expect(WRONG_USAGE);
}

#[test]
fn the_caches_of_the_machine_are_dropped_after_a_warning() {
    let scratch = Scratch::new();
    let switch = scratch.file("switch", 0);
    // A file in the place of the kernel's: other programs here keep their caches.
    on_bind_mount(&switch, Path::new("/proc/sys/vm/drop_caches"), || {
        let run = warpio(["cache", "drop", "--system", "--json"]).expect(DONE);
        assert!(run.stderr.contains("warning") && run.stderr.contains("every file"), "{run:#?}");
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!((&report["system"], &report["action"]), (&true.into(), &"dropped".into()));
        assert_eq!(std::fs::read(&switch).unwrap(), b"1\n");
    });
}

#[test]
fn the_caches_of_the_machine_are_not_anybodys_to_drop() {
    let mut command = program(["cache", "drop", "--system"]);
    if rustix::process::geteuid().is_root() {
        if Run::of(as_nobody(["--version"])).code.is_none() {
            return;
        }
        command = as_nobody(["cache", "drop", "--system"]);
    }
    let run = Run::of(command).expect(FAILED);
    let last = run.stderr.lines().last().unwrap();
    assert!(last.contains("not permitted") && last.contains("root"), "{run:#?}");
}

/// The program as a user who owns nothing, from where everybody can run it.
fn as_nobody(arguments: impl IntoIterator<Item = &'static str>) -> std::process::Command {
    let mut command = program(arguments);
    command.uid(65534).gid(65534).current_dir("/");
    command
}
