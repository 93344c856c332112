//! Little memory that may be locked, few threads, little address space.

use rustix::process::Resource;
use warpio::core::testing::pattern;
use warpio::{AsyncDeviceRead, AsyncDeviceReadExt, ErrorKind, Runtime};

use crate::support::child::{as_nobody, in_child, limit};
use crate::support::{KIB, MIB, block_on, builder, gpu, host, is};

#[test]
fn with_64_kib_of_locked_memory_everything_works() {
    in_child(
        "limits::with_64_kib_of_locked_memory_everything_works",
        |command| {
            // Root may lock what it wants.
            as_nobody(command);
            limit(command, Resource::Memlock, 64 * KIB as u64);
        },
        || {
            block_on(async {
                let (device, _control) = gpu();
                device.staging().warm(256 * KIB);
                for rt in [Runtime::new().unwrap(), builder().on_device(device).build().unwrap()] {
                    assert!(rt.engine() == "io-uring" || rt.why_no_io_uring().is_some());
                    let dir = tempfile::tempdir().unwrap();
                    let path = dir.path().join("file");
                    std::fs::write(&path, pattern(MIB)).unwrap();
                    let source = rt.open(&path).await.unwrap();
                    assert!(host(&source.read_all().await.unwrap()).await == pattern(MIB));
                }
            });
        },
    );
}

#[test]
fn without_threads_a_runtime_says_so() {
    in_child(
        "limits::without_threads_a_runtime_says_so",
        |command| {
            as_nobody(command);
        },
        || {
            block_on(async {
                // Not in the child from the start: the harness needs a thread itself.
                let none = rustix::process::Rlimit { current: Some(1), maximum: Some(1) };
                rustix::process::setrlimit(Resource::Nproc, none).unwrap();
                if std::thread::Builder::new().spawn(|| ()).is_ok() {
                    // Root, which has no such limit.
                    return;
                }
                let error = builder().build().unwrap_err();
                is(&error, ErrorKind::ResourceLimit, &["thread"]);
                assert!(error.is_retryable());
            });
        },
    );
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    in_child(
        "limits::memory_that_is_not_there_is_an_error",
        |command| limit(command, Resource::As, 4 << 30),
        || {
            block_on(async {
                let rt = builder().build().unwrap();
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join("huge");
                std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
                let source = rt.open(&path).await.unwrap();
                is(&source.read_all().await.unwrap_err(), ErrorKind::OutOfMemory, &[]);
                is(&rt.device().alloc(usize::MAX / 2).unwrap_err(), ErrorKind::OutOfMemory, &[]);
                let error = source.chunks(1 << 38).start().try_next().await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::OutOfMemory);
                let read = source.read_at((1 << 40) - 5, rt.device().alloc(10).unwrap()).await.unwrap();
                assert_eq!(read.n, 5);
            });
        },
    );
}
