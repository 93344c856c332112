//! What the environment sets, and what the machine refuses.

use warpio::config::{EngineChoice, Switch};
use warpio::core::testing::pattern;
use warpio::{AsyncDeviceRead, AsyncDeviceReadExt, Error, ErrorKind, Runtime};

use crate::support::child::{in_child, refuse, tell_dir, told_dir};
use crate::support::{Scratch, block_on, host, is};

fn start() -> Result<Runtime, Error> {
    block_on(async { Runtime::new() })
}

/// What a child says that is started with this variable.
fn refused(test: &str, variable: &str, value: &str, words: &[&str]) {
    in_child(
        test,
        |command| {
            command.env(variable, value).env("WARPIO_TEST_WORDS", words.join("|"));
        },
        || {
            let error = start().unwrap_err();
            let words = std::env::var("WARPIO_TEST_WORDS").unwrap();
            is(&error, ErrorKind::InvalidConfig, &words.split('|').collect::<Vec<_>>());
        },
    );
}

#[test]
fn a_setting_that_cannot_be_used_is_named() {
    for (variable, value, words) in [
        ("WARPIO_THREDS", "4", &["WARPIO_THREDS=4", "no such setting", "WARPIO_THREADS"][..]),
        ("WARPIO_THREADS", "0", &["WARPIO_THREADS", "between 1 and 1024"]),
        ("WARPIO_THREADS", "5000", &["WARPIO_THREADS", "5000"]),
        ("WARPIO_THREADS", "many", &["WARPIO_THREADS=many", "whole number"]),
        ("WARPIO_THREADS", "", &["WARPIO_THREADS"]),
        ("WARPIO_TASK_SIZE", "8Mibble", &["WARPIO_TASK_SIZE=8Mibble"]),
        ("WARPIO_TASK_SIZE", "100", &["WARPIO_TASK_SIZE", "multiple of 4KiB"]),
        ("WARPIO_SLOT_SIZE", "2GiB", &["WARPIO_SLOT_SIZE", "1GiB"]),
        ("WARPIO_STAGING_BUDGET", "1", &["WARPIO_STAGING_BUDGET"]),
        ("WARPIO_STAGING_BUDGET", "-1", &["WARPIO_STAGING_BUDGET=-1"]),
        ("WARPIO_STAGING_BUDGET", "99999999999999999999", &["WARPIO_STAGING_BUDGET"]),
        ("WARPIO_STAGING_WARM", "1TiB", &["WARPIO_STAGING_WARM"]),
        ("WARPIO_DEVICE", "gpu", &["WARPIO_DEVICE=gpu", "cuda:N"]),
        ("WARPIO_ENGINE", "steam", &["WARPIO_ENGINE=steam", "io-uring"]),
        ("WARPIO_IO_URING", "maybe", &["WARPIO_IO_URING=maybe", "off"]),
        ("WARPIO_DIRECT_READ", "often", &["WARPIO_DIRECT_READ=often", "never"]),
        ("WARPIO_DIRECT_WRITE", "1", &["WARPIO_DIRECT_WRITE=1", "always"]),
        ("WARPIO_LEAVE_CACHE_CLEAN", "perhaps", &["WARPIO_LEAVE_CACHE_CLEAN=perhaps"]),
    ] {
        refused("settings::a_setting_that_cannot_be_used_is_named", variable, value, words);
    }
}

#[test]
fn a_device_that_is_not_there_is_an_error_and_never_host_memory() {
    in_child(
        "settings::a_device_that_is_not_there_is_an_error_and_never_host_memory",
        |command| {
            command.env("WARPIO_DEVICE", "cuda:999");
        },
        || is(&start().unwrap_err(), ErrorKind::NoDevice, &["cuda:999", "host"]),
    );
}

#[test]
fn what_the_program_says_goes_before_the_environment() {
    in_child(
        "settings::what_the_program_says_goes_before_the_environment",
        |command| {
            command.env("WARPIO_ENGINE", "posix").env("WARPIO_THREADS", "3").env("UNRELATED", "x");
        },
        || {
            block_on(async {
                let rt = Runtime::builder().threads(2).build().unwrap();
                assert_eq!((rt.engine(), *rt.config().threads.get()), ("posix", 2));
                let rt = Runtime::builder().ignore_environment().io_uring(Switch::Off).build().unwrap();
                assert!(rt.why_no_io_uring().unwrap().contains("switched off"));
            });
        },
    );
}

/// A cold file of some segments is read right, with whatever reads it.
fn reads(dir: &std::path::Path) -> Runtime {
    block_on(async {
        let rt = Runtime::new().unwrap();
        let path = dir.join("file");
        let file = std::fs::File::open(&path).unwrap();
        for _ in 0..2 {
            let source = rt.open(&path).await.unwrap();
            assert!(host(&source.read_all().await.unwrap()).await == pattern(3_000_001));
            assert_eq!(source.describe().engine, rt.engine());
            warpio::local::page_cache::drop_range(&file, 0..u64::MAX).unwrap();
        }
        rt
    })
}

/// Runs `body` in a child that is told where a file is.
fn with_file(test: &str, prepare: impl FnOnce(&mut std::process::Command), body: impl FnOnce(&std::path::Path)) {
    in_child(
        test,
        |command| {
            let scratch = Scratch::on_disk();
            let file = std::fs::File::open(scratch.file("file", 3_000_001)).unwrap();
            // Not cached, where it can be helped.
            warpio::local::page_cache::drop_range(file, 0..u64::MAX).unwrap();
            tell_dir(command, scratch.dir());
            prepare(command);
            scratch
        },
        || body(&told_dir()),
    );
}

#[test]
fn io_uring_switched_off_changes_the_engine() {
    let test = "settings::io_uring_switched_off_changes_the_engine";
    with_file(
        test,
        |command| {
            command.env("WARPIO_IO_URING", "off");
        },
        |dir| {
            let rt = reads(dir);
            assert_eq!(rt.engine(), "posix");
            let why = rt.why_no_io_uring().unwrap();
            assert!(why.contains("io_uring") && why.contains("off"), "{why}");
        },
    );
}

#[test]
fn io_uring_is_used_where_nothing_forbids_it() {
    with_file(
        "settings::io_uring_is_used_where_nothing_forbids_it",
        |_| {},
        |dir| {
            let rt = reads(dir);
            match rt.why_no_io_uring() {
                None => assert_eq!(rt.engine(), "io-uring"),
                Some(why) => assert!(rt.engine() == "posix" && !why.is_empty(), "{why}"),
            }
        },
    );
}

fn filtered(test: &str, call: libc::c_long, errno: i32) {
    let forbid = |command: &mut std::process::Command| refuse(command, call, errno);
    with_file(test, forbid, |dir| {
        let rt = reads(dir);
        assert_eq!(rt.engine(), "posix");
        let why = rt.why_no_io_uring().unwrap();
        assert!(why.contains("seccomp"), "{why}");
        for engine in [EngineChoice::IoUring, EngineChoice::TokioUring] {
            let error = block_on(async { Runtime::builder().engine(engine).build().unwrap_err() });
            is(&error, ErrorKind::Unsupported, &[&engine.to_string(), "seccomp", "auto or posix"]);
        }
    });
}

#[test]
fn io_uring_forbidden_by_a_container_gives_threads_and_the_reason() {
    let test = "settings::io_uring_forbidden_by_a_container_gives_threads_and_the_reason";
    filtered(test, libc::SYS_io_uring_setup, libc::EPERM);
}

#[test]
fn io_uring_hidden_by_a_container_gives_threads_and_the_reason() {
    let test = "settings::io_uring_hidden_by_a_container_gives_threads_and_the_reason";
    filtered(test, libc::SYS_io_uring_setup, libc::ENOSYS);
}

#[test]
fn a_ring_that_can_be_made_and_not_used_is_none() {
    let test = "settings::a_ring_that_can_be_made_and_not_used_is_none";
    for errno in [libc::EPERM, libc::ENOSYS] {
        filtered(test, libc::SYS_io_uring_enter, errno);
    }
}

#[test]
fn other_calls_that_a_container_forbids_are_done_without() {
    // What asks for residency, reads without waiting, and tells alignment.
    for (call, errno) in [
        (451, libc::EPERM),
        (451, libc::ENOSYS),
        (libc::SYS_preadv2, libc::ENOSYS),
        (libc::SYS_preadv2, libc::EPERM),
        (libc::SYS_statx, libc::ENOSYS),
        (libc::SYS_statx, libc::EPERM),
        (libc::SYS_io_uring_register, libc::EPERM),
        (libc::SYS_io_uring_enter, libc::EPERM),
        (libc::SYS_io_uring_enter, libc::ENOSYS),
        (libc::SYS_sched_getaffinity, libc::EPERM),
        (libc::SYS_fadvise64, libc::EPERM),
        (libc::SYS_mincore, libc::EPERM),
    ] {
        with_file(
            "settings::other_calls_that_a_container_forbids_are_done_without",
            |command| refuse(command, call, errno),
            |dir| {
                let rt = block_on(async {
                    let rt = Runtime::new().unwrap();
                    let source = rt.open(dir.join("file")).await.unwrap();
                    assert!(host(&source.read_all().await.unwrap()).await == pattern(3_000_001));
                    let part = source.read_exact_at(5, rt.device().alloc(4000).unwrap()).await.unwrap();
                    assert!(host(&part.freeze()).await == pattern(4005)[5..]);
                    rt
                });
                assert!(!rt.engine().is_empty());
            },
        );
    }
}
