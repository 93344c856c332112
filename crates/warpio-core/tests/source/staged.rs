//! Sources that only fill host memory, for every device.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::runtime::{Builder, Handle, Runtime};
use warpio_core::testing::{FakeGpu, pattern};
use warpio_core::{AsyncDeviceRead, AsyncDeviceReadExt, Device, Error, ErrorKind, PathKind, Staged, Transfer};

use crate::double::{Act, Double};
use crate::support::{LONG, block_on, small_pool};

const PART: usize = 10_000;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn staged(double: &Double, device: &Device, runtime: &Runtime, concurrency: usize) -> Staged<Double> {
    Staged::with_parts(double.clone(), device.clone(), runtime.handle().clone(), PART, concurrency)
}

fn read(source: &Staged<Double>, len: usize) -> Transfer {
    source.read_at(0, source.device().alloc(len).unwrap())
}

/// Host memory, and a software GPU.
fn devices() -> [Device; 2] {
    [Device::host(), FakeGpu::device(0, small_pool()).0]
}

#[test]
fn no_more_parts_are_fetched_at_once_than_allowed() {
    for device in devices() {
        let (runtime, double) = (runtime(), Double::shut(20 * PART));
        let source = staged(&double, &device, &runtime, 3);
        let transfers: Vec<_> = (0..3).map(|_| read(&source, 20 * PART)).collect();
        double.wait_started(3);
        double.release();
        for transfer in transfers {
            assert_eq!(block_on(transfer).unwrap().n, 20 * PART);
        }
        assert_eq!(double.peak(), 3, "on {device}");
    }
}

#[test]
fn parts_for_a_gpu_pass_through_no_more_slots_than_there_are() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let (runtime, double) = (runtime(), Double::open(3_000_000));
    let source = Staged::new(double, device.clone(), runtime.handle().clone());
    let data = block_on(source.read_all()).unwrap();
    assert!(block_on(data.to_host()).unwrap() == pattern(3_000_000));
    let stats = device.staging().stats();
    assert!(stats.allocated <= stats.budget && gpu.staging_allocations() > 0);
}

#[test]
fn a_runtime_shut_down_in_mid_flight_is_gone() {
    for device in devices() {
        let (runtime, double) = (runtime(), Double::shut(20 * PART));
        let source = staged(&double, &device, &runtime, 3);
        let transfers = [read(&source, 20 * PART), read(&source, PART)];
        double.wait_started(3);
        runtime.shutdown_background();
        for transfer in transfers {
            let failed = block_on(transfer).unwrap_err();
            assert_eq!(failed.error.kind(), ErrorKind::Gone, "on {device}");
            assert!(failed.buffer.is_some(), "a fetch that was dropped touches nothing");
        }
    }
}

#[test]
fn a_runtime_that_has_ended_is_gone_at_once() {
    let (runtime, double) = (runtime(), Double::open(20 * PART));
    let source = staged(&double, &Device::host(), &runtime, 3);
    drop(runtime);
    for _ in 0..3 {
        let failed = block_on(read(&source, 20 * PART)).unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Gone);
        assert!(failed.buffer.is_some());
    }
    assert_eq!(double.started(), 0);
}

#[test]
fn a_runtime_of_one_thread_that_ends_takes_its_transfers_along() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let double = Double::shut(20 * PART);
    let source = staged(&double, &Device::host(), &runtime, 3);
    let transfer = read(&source, 20 * PART);
    drop(runtime);
    assert_eq!(block_on(transfer).unwrap_err().error.kind(), ErrorKind::Gone);
}

#[test]
fn a_fetch_that_panics_is_an_error() {
    for device in devices() {
        let (runtime, double) = (runtime(), Double::open(20 * PART).act(4 * PART as u64, Act::Panic));
        let source = staged(&double, &device, &runtime, 3);
        let failed = block_on(read(&source, 20 * PART)).unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Gone, "on {device}");
        assert!(failed.buffer.is_some());
        assert_eq!(block_on(read(&source, 4 * PART)).unwrap().n, 4 * PART, "the source is still there");
    }
}

#[test]
fn a_fetch_that_panics_fails_no_other_transfer() {
    let (runtime, double) = (runtime(), Double::shut(20 * PART).act(0, Act::Panic));
    let source = staged(&double, &Device::host(), &runtime, 1);
    let bad = read(&source, PART);
    let good: Vec<_> = (1..10).map(|i| source.read_at(i * PART as u64, Device::host().alloc(PART).unwrap())).collect();
    double.release();
    assert!(block_on(bad).is_err());
    for transfer in good {
        assert_eq!(block_on(transfer).unwrap().n, PART);
    }
}

#[test]
fn a_fetch_that_claims_too_much_is_not_believed() {
    for device in devices() {
        let (runtime, double) = (runtime(), Double::open(20 * PART).act(PART as u64, Act::Claim(PART + 1)));
        let source = staged(&double, &device, &runtime, 3);
        let failed = block_on(read(&source, 20 * PART)).unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Integrity, "on {device}");
        assert!(failed.error.to_string().contains("10001"), "{}", failed.error);
    }
}

#[test]
fn an_error_says_which_source_and_range() {
    let (runtime, double) = (runtime(), Double::open(20 * PART).act(0, Act::Fail(ErrorKind::Unavailable)));
    let source = staged(&double, &Device::host(), &runtime, 3);
    let error = Error::from(block_on(read(&source, 20 * PART)).unwrap_err());
    assert_eq!((error.kind(), error.source_name()), (ErrorKind::Unavailable, Some("double")));
    assert_eq!((error.operation(), error.length()), (Some("read"), Some(20 * PART as u64)));
    assert!(error.is_retryable());
}

#[test]
fn bytes_are_counted_by_their_path() {
    for device in devices() {
        let (runtime, double) = (runtime(), Double::open(3 * PART));
        let source = staged(&double, &device, &runtime, 3);
        let transfer = read(&source, 4 * PART);
        let report = transfer.report();
        assert_eq!(block_on(transfer).unwrap().n, 3 * PART);
        assert_eq!(report.paths().collect::<Vec<_>>(), [(PathKind::Remote, 3 * PART as u64)]);
    }
}

#[test]
fn a_lost_device_is_an_error_with_the_buffer() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let (runtime, double) = (runtime(), Double::shut(3 * PART));
    let source = staged(&double, &device, &runtime, 3);
    let transfer = read(&source, 3 * PART);
    double.wait_started(3);
    gpu.break_down();
    double.release();
    let failed = block_on(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeviceLost);
    assert!(failed.buffer.is_some());
}

#[test]
fn a_source_that_never_waits_lets_others_run() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let double = Double::open(50 * PART);
    let source = staged(&double, &Device::host(), &runtime, 1);
    let turns = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        let transfer = read(&source, 50 * PART);
        let counter = turns.clone();
        let other = tokio::spawn(async move {
            loop {
                counter.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        transfer.await.unwrap();
        other.abort();
    });
    assert!(turns.load(Ordering::Relaxed) >= 40, "{} turns during 50 parts", turns.load(Ordering::Relaxed));
}

#[test]
fn a_small_read_does_not_wait_for_a_large_one() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let double = Double::open(1000 * PART);
    let source = staged(&double, &Device::host(), &runtime, 1);
    let order = Mutex::new(Vec::new());
    runtime.block_on(async {
        let large = async {
            read(&source, 1000 * PART).await.unwrap();
            order.lock().unwrap().push("large");
        };
        let small = async {
            read(&source, 10).await.unwrap();
            order.lock().unwrap().push("small");
        };
        tokio::join!(large, small);
    });
    assert_eq!(*order.lock().unwrap(), ["small", "large"]);
}

#[test]
fn it_may_be_called_and_awaited_outside_of_its_runtime() {
    let (runtime, double) = (runtime(), Double::open(3 * PART));
    let source = Arc::new(staged(&double, &Device::host(), &runtime, 2));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let source = source.clone();
            std::thread::spawn(move || block_on(source.read_all()).unwrap().as_slice() == Some(&pattern(3 * PART)[..]))
        })
        .collect();
    assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
}

#[tokio::test]
async fn a_part_has_at_least_a_byte_and_one_is_fetched_at_least() {
    let source = Staged::with_parts(Double::open(5), Device::host(), Handle::current(), 0, 0);
    let data = tokio::time::timeout(LONG, source.read_all()).await.expect("it does not hang").unwrap();
    assert_eq!(data.as_slice(), Some(&pattern(5)[..]));
    assert_eq!(source.get_ref().started(), 5);
    assert!(format!("{source:?}").contains("double"));
}
