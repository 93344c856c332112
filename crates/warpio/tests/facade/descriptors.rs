//! Few file descriptors.

use std::fs::File;
use std::process::Command;

use futures::future::join_all;
use futures::{StreamExt, stream};
use rustix::process::Resource;
use warpio::core::testing::pattern;
use warpio::{AsyncDeviceReadExt, ErrorKind, Runtime};

use crate::support::child::{in_child, limit, tell_dir, told_dir};
use crate::support::{Scratch, block_on, host, is};

/// Gives a child a file and 64 descriptors.
fn few_descriptors(command: &mut Command) -> Scratch {
    let scratch = Scratch::on_disk();
    scratch.file("file", 300_000);
    tell_dir(command, scratch.dir());
    limit(command, Resource::Nofile, 64);
    scratch
}

#[test]
fn the_limit_is_told_and_what_is_open_goes_on() {
    in_child("descriptors::the_limit_is_told_and_what_is_open_goes_on", few_descriptors, || {
        block_on(async {
            let rt = Runtime::new().unwrap();
            let path = told_dir().join("file");
            let mut open = Vec::new();
            let error = loop {
                match rt.open(&path).await {
                    Ok(source) => open.push(source),
                    Err(error) => break error,
                }
            };
            is(&error, ErrorKind::ResourceLimit, &["file", "too many open files", "ulimit -n"]);
            assert!(error.is_retryable());
            for error in [
                rt.create(told_dir().join("new")).await.unwrap_err(),
                rt.open_options().write(true).open(&path).await.unwrap_err(),
            ] {
                is(&error, ErrorKind::ResourceLimit, &["ulimit -n"]);
            }
            // Past the cache needs a descriptor more; through it does not.
            for source in &open {
                assert!(host(&source.read_all().await.unwrap()).await == pattern(300_000));
            }
            open.truncate(open.len() - 3);
            assert!(rt.open(&path).await.is_ok());
            rt.create(told_dir().join("new")).await.unwrap();
        });
    });
}

#[test]
fn a_runtime_starts_with_what_is_left_or_says_what_is_missing() {
    in_child("descriptors::a_runtime_starts_with_what_is_left_or_says_what_is_missing", few_descriptors, || {
        block_on(async {
            let path = told_dir().join("file");
            for left in 0..12 {
                let mut taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
                taken.truncate(taken.len() - left);
                match Runtime::new() {
                    Ok(rt) => {
                        assert!(rt.engine() == "io-uring" || rt.why_no_io_uring().is_some());
                        match rt.open(&path).await {
                            Ok(source) => {
                                assert!(host(&source.read_all().await.unwrap()).await == pattern(300_000))
                            }
                            Err(error) => is(&error, ErrorKind::ResourceLimit, &["ulimit -n"]),
                        }
                    }
                    Err(error) => is(&error, ErrorKind::ResourceLimit, &[]),
                }
            }
        });
    });
}

const MANY: usize = 10_000;

#[test]
fn ten_thousand_files_at_once_are_read_or_told_to_wait() {
    in_child(
        "descriptors::ten_thousand_files_at_once_are_read_or_told_to_wait",
        |command| {
            let scratch = Scratch::on_disk();
            for n in 0..MANY {
                std::fs::write(scratch.path(&n.to_string()), content(n)).unwrap();
            }
            tell_dir(command, scratch.dir());
            limit(command, Resource::Nofile, 256);
            scratch
        },
        || {
            block_on(async {
                let rt = Runtime::new().unwrap();
                let dir = told_dir();
                let read = async |n: usize| -> Result<(), warpio::Error> {
                    let source = rt.open(dir.join(n.to_string())).await?;
                    assert!(host(&source.read_all().await?).await == content(n), "{n}");
                    Ok(())
                };
                // All at once: each is read right, or told that there are too many.
                let results = join_all((0..MANY).map(read)).await;
                let failed: Vec<_> = results.into_iter().filter_map(Result::err).collect();
                assert!(failed.len() < MANY, "some are read");
                for error in &failed {
                    is(error, ErrorKind::ResourceLimit, &["ulimit -n"]);
                    assert!(error.is_retryable());
                }
                // As many at once as the limit allows: all.
                stream::iter(0..MANY).for_each_concurrent(60, async |n| read(n).await.unwrap()).await;
            });
        },
    );
}

fn content(n: usize) -> Vec<u8> {
    pattern(n % 7000 + 1)
}
