//! Deadlines, under any executor.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake};
use std::time::{Duration, Instant};

use warpio_core::{AsyncDeviceRead, AsyncDeviceReadExt, Device, ErrorKind};

use crate::support::{Drops, LONG, block_on, held, poll, read, ready};

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(5)
}

#[test]
fn a_deadline_in_the_past_ends_a_transfer_at_once() {
    let (engine, starter) = held(&Device::host(), 10);
    let transfer = read(&starter, 30).deadline(Instant::now());
    let failed = ready(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded);
    assert!(failed.buffer.is_none(), "the engine still has the memory");
    assert!(engine.take().iter().all(|held| held.segment().is_moot()), "and it is told to stop");
}

#[test]
fn a_result_that_is_there_beats_a_deadline_in_the_past() {
    let (engine, starter) = held(&Device::host(), 10);
    let transfer = read(&starter, 30);
    engine.take().into_iter().for_each(|held| held.fill(1));
    assert_eq!(ready(transfer.deadline(Instant::now())).unwrap().n, 30);
}

#[test]
fn a_deadline_that_passes_wakes_a_task_outside_of_tokio() {
    let (engine, starter) = held(&Device::host(), 10);
    let drops = Drops::default();
    let transfer = starter.read(Arc::new(()), 0, drops.buffer(&Device::host(), 30)).deadline(soon());
    let failed = block_on(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded);
    assert!(failed.buffer.is_none());
    assert_eq!(drops.count(), 0, "the engine still has the memory");
    engine.take().into_iter().for_each(|held| held.fill(1));
    assert_eq!(drops.count(), 1);
}

#[tokio::test]
async fn a_deadline_that_passes_wakes_a_tokio_task() {
    let (_engine, starter) = held(&Device::host(), 10);
    let failed = tokio::spawn(read(&starter, 30).deadline(soon())).await.unwrap().unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded);
}

#[test]
fn the_buffer_comes_back_if_the_engine_has_let_go_by_then() {
    let (engine, starter) = held(&Device::host(), 10);
    let transfer = read(&starter, 30).deadline(Instant::now());
    engine.take().into_iter().for_each(|held| held.abandon());
    let failed = ready(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded, "the reason, not the means");
    assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(30));
}

#[test]
fn an_error_of_the_source_is_not_hidden_by_the_deadline() {
    let (engine, starter) = held(&Device::host(), 10);
    let transfer = read(&starter, 10).deadline(Instant::now());
    engine.take().into_iter().for_each(|held| held.fail(warpio_core::Error::new(ErrorKind::Changed)));
    assert_eq!(ready(transfer).unwrap_err().error.kind(), ErrorKind::Changed);
}

#[test]
fn a_deadline_far_away_changes_nothing() {
    let (engine, starter) = held(&Device::host(), 10);
    let mut transfer = read(&starter, 30).deadline(Instant::now() + Duration::from_secs(3_000_000_000));
    assert!(poll(&mut transfer).is_pending());
    engine.take().into_iter().for_each(|held| held.fill(1));
    assert_eq!(ready(transfer).unwrap().n, 30);
}

#[test]
fn the_earliest_of_several_deadlines_counts() {
    let (_engine, starter) = held(&Device::host(), 10);
    let far = Instant::now() + LONG;
    let transfer = read(&starter, 30).deadline(far).deadline(soon()).deadline(far);
    assert_eq!(block_on(transfer).unwrap_err().error.kind(), ErrorKind::DeadlineExceeded);
    assert!(Instant::now() < far);
}

#[test]
fn deadlines_pass_in_their_order() {
    let (_engine, starter) = held(&Device::host(), 10);
    let late = read(&starter, 10).deadline(Instant::now() + LONG);
    let early = read(&starter, 10).deadline(soon());
    assert_eq!(block_on(early).unwrap_err().error.kind(), ErrorKind::DeadlineExceeded);
    let mut late = late;
    assert!(poll(&mut late).is_pending());
}

#[test]
fn a_deadline_covers_every_range_of_a_read() {
    #[derive(Debug)]
    struct Held(warpio_core::engine::Starter);
    impl AsyncDeviceRead for Held {
        fn device(&self) -> &Device {
            self.0.device()
        }
        fn describe(&self) -> warpio_core::Description {
            warpio_core::Description::new("held", "held", "held")
        }
        fn size(&self) -> futures::future::BoxFuture<'_, warpio_core::Result<u64>> {
            Box::pin(std::future::ready(Ok(100)))
        }
        fn read_at(&self, offset: u64, buf: warpio_core::DeviceBytesMut) -> warpio_core::Transfer {
            self.0.read(Arc::new(()), offset, buf)
        }
    }
    let (engine, starter) = held(&Device::host(), 10);
    let source = Held(starter);
    let ranges = source.read_ranges(&[0..10, 50..60], Device::host().alloc(20).unwrap());
    let failed = block_on(ranges.deadline(soon())).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded);
    assert!(failed.buffer.is_none());
    let exact = source.read_exact_at(0, Device::host().alloc(20).unwrap());
    assert_eq!(block_on(exact.deadline(soon())).unwrap_err().error.kind(), ErrorKind::DeadlineExceeded);
    assert!(engine.take().iter().all(|held| held.segment().is_moot()));
}

#[test]
fn a_waker_that_panics_does_not_stop_the_clock() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics");
        }
    }
    let (_engine, starter) = held(&Device::host(), 10);
    let mut first = read(&starter, 10);
    let waker = Arc::new(Panics).into();
    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&waker)).is_pending());
    let at = Instant::now() + Duration::from_millis(200);
    let _first = first.deadline(at);
    let second = read(&starter, 10).deadline(at + Duration::from_millis(1));
    assert_eq!(block_on(second).unwrap_err().error.kind(), ErrorKind::DeadlineExceeded);
}
