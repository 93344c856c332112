//! Fetches that are not wanted any more are dropped, and their memory with them.

use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use warpio_core::testing::FakeGpu;
use warpio_core::{AsyncDeviceRead, Device, ErrorKind, Staged, Transfer};

use crate::double::{Act, Double};
use crate::support::{Drops, block_on, poll, small_pool};

const PART: usize = 10_000;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn staged(double: &Double, device: &Device, runtime: &Runtime) -> Staged<Double> {
    Staged::with_parts(double.clone(), device.clone(), runtime.handle().clone(), PART, 3)
}

fn read(source: &Staged<Double>, len: usize) -> Transfer {
    source.read_at(0, source.device().alloc(len).unwrap())
}

#[test]
fn a_cancelled_transfer_drops_its_fetches_and_gives_its_buffer_back() {
    for device in [Device::host(), FakeGpu::device(0, small_pool()).0] {
        let (runtime, double) = (runtime(), Double::shut(20 * PART));
        let source = staged(&double, &device, &runtime);
        let transfer = read(&source, 20 * PART);
        double.wait_started(3);
        transfer.cancel();
        let failed = block_on(transfer).unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Cancelled, "on {device}");
        assert!(failed.buffer.is_some());
        assert_eq!(double.started(), 3, "the rest was not begun");
    }
}

#[test]
fn a_dropped_transfer_drops_its_fetches_and_its_memory() {
    let (runtime, double, drops) = (runtime(), Double::shut(20 * PART), Drops::default());
    let source = staged(&double, &Device::host(), &runtime);
    let transfer = source.read_at(0, drops.buffer(&Device::host(), 20 * PART));
    double.wait_started(3);
    assert_eq!(drops.count(), 0);
    drop(transfer);
    double.wait_abandoned(3);
    // The last of the transfer's segments goes with the tasks that pull, when the runtime has ended.
    drop(source);
    drop(runtime);
    assert_eq!(drops.count(), 1);
}

#[test]
fn a_transfer_that_expired_drops_its_fetches() {
    let (runtime, double) = (runtime(), Double::shut(20 * PART));
    let source = staged(&double, &Device::host(), &runtime);
    let transfer = read(&source, 20 * PART);
    double.wait_started(3);
    let failed = block_on(transfer.deadline(Instant::now() + Duration::from_millis(5))).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded);
    double.wait_abandoned(3);
}

#[test]
fn an_error_drops_the_fetches_beside_it() {
    let double = Double::shut(20 * PART).act(2 * PART as u64, Act::FailNow(ErrorKind::Changed));
    let runtime = runtime();
    let source = staged(&double, &Device::host(), &runtime);
    // The two parts before the third one hang for ever.
    let failed = block_on(read(&source, 20 * PART)).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Changed);
    assert!(failed.buffer.is_some(), "nothing writes it any more");
}

#[test]
fn others_go_on_when_one_is_cancelled() {
    let (runtime, double) = (runtime(), Double::shut(20 * PART));
    let source = staged(&double, &Device::host(), &runtime);
    let (first, second) = (read(&source, 20 * PART), read(&source, 20 * PART));
    double.wait_started(3);
    drop(first);
    double.release();
    assert_eq!(block_on(second).unwrap().n, 20 * PART);
}

#[test]
fn a_transfer_cancelled_while_it_waits_for_a_slot_does_not_wait_on() {
    let (device, _gpu) = FakeGpu::device(0, small_pool());
    let pool = device.staging();
    let _slots: Vec<_> = (0..pool.max_slots()).map(|_| pool.acquire_blocking(pool.slot_len()).unwrap()).collect();
    let (runtime, double) = (runtime(), Double::open(20 * PART));
    let source = staged(&double, &device, &runtime);
    let mut transfer = read(&source, 20 * PART);
    assert!(poll(&mut transfer).is_pending());
    transfer.cancel();
    let failed = block_on(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Cancelled);
    assert!(failed.buffer.is_some());
    assert_eq!(double.started(), 0);
}
