//! The two ends of a transfer.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll};

use warpio_core::{Completer, Device, DeviceBytesMut, ErrorKind, Moved, Transfer};

use crate::support::{Wakes, block_on, poll, ready};

fn channel() -> (Completer<Moved<DeviceBytesMut>>, Transfer) {
    Transfer::channel()
}

fn moved(n: usize) -> Moved<DeviceBytesMut> {
    Moved { n, buffer: Device::host().alloc(n).unwrap() }
}

fn poll_with(transfer: &mut Transfer, wakes: &Arc<Wakes>) -> bool {
    Pin::new(transfer).poll(&mut Context::from_waker(&wakes.waker())).is_ready()
}

#[test]
fn it_resolves_to_what_it_was_completed_with() {
    let (completer, mut transfer) = channel();
    assert!(poll(&mut transfer).is_pending());
    completer.complete(Ok(moved(3)));
    let done = ready(transfer).unwrap();
    assert_eq!((done.n, done.buffer.len()), (3, 3));
}

#[test]
fn a_completer_dropped_is_gone() {
    let (completer, transfer) = channel();
    drop(completer);
    let failed = ready(transfer).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Gone);
    assert!(failed.buffer.is_none(), "nobody knows what became of the memory");
}

#[test]
fn it_wakes_whoever_polled_last() {
    let (completer, mut transfer) = channel();
    let (first, second) = (Wakes::new(), Wakes::new());
    assert!(!poll_with(&mut transfer, &first));
    assert!(!poll_with(&mut transfer, &second));
    completer.complete(Ok(moved(1)));
    assert_eq!((first.count(), second.count()), (0, 1));
    assert!(poll_with(&mut transfer, &second));
}

#[test]
fn it_wakes_once() {
    let (completer, mut transfer) = channel();
    let wakes = Wakes::new();
    assert!(!poll_with(&mut transfer, &wakes));
    assert!(!poll_with(&mut transfer, &wakes));
    completer.complete(Ok(moved(1)));
    assert_eq!(wakes.count(), 1);
}

#[test]
fn it_may_be_polled_on_one_thread_after_another() {
    let (completer, mut transfer) = channel();
    for _ in 0..8 {
        transfer = std::thread::spawn(move || {
            assert!(poll(&mut transfer).is_pending());
            transfer
        })
        .join()
        .unwrap();
    }
    let waiting = std::thread::spawn(move || block_on(transfer).unwrap().n);
    completer.complete(Ok(moved(5)));
    assert_eq!(waiting.join().unwrap(), 5);
}

#[test]
fn no_wake_up_is_lost_between_threads() {
    for n in 0..2000 {
        let (completer, transfer) = channel();
        let waiting = std::thread::spawn(move || block_on(transfer).unwrap().n);
        completer.complete(Ok(moved(n % 7)));
        assert_eq!(waiting.join().unwrap(), n % 7);
    }
}

#[test]
fn the_waker_may_drop_the_transfer() {
    // A waker runs any code, so no lock may be held while it runs.
    let (completer, transfer) = channel();
    let slot = Arc::new(Mutex::new(Some(transfer)));
    struct DropIt(Arc<Mutex<Option<Transfer>>>);
    impl std::task::Wake for DropIt {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }
    let waker = Arc::new(DropIt(slot.clone())).into();
    if let Some(transfer) = slot.lock().unwrap().as_mut() {
        assert!(Pin::new(transfer).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    completer.complete(Ok(moved(1)));
    assert!(slot.lock().unwrap().is_none());
}

#[test]
#[should_panic(expected = "polled after it had resolved")]
fn polling_it_after_its_end_panics() {
    let (completer, mut transfer) = channel();
    completer.complete(Ok(moved(1)));
    assert!(matches!(poll(&mut transfer), Poll::Ready(Ok(_))));
    drop(poll(&mut transfer));
}

#[test]
fn the_working_side_sees_that_it_was_cancelled_or_dropped() {
    let (completer, transfer) = channel();
    assert!(!completer.is_cancelled());
    transfer.cancel();
    assert!(completer.is_cancelled());
    let (completer, transfer) = channel();
    drop(transfer);
    assert!(completer.is_cancelled());
    completer.complete(Ok(moved(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_may_be_awaited_in_a_task() {
    let (completer, transfer) = channel();
    let task = tokio::spawn(transfer);
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || {
        rx.recv().unwrap();
        completer.complete(Ok(moved(4)));
    });
    tx.send(()).unwrap();
    assert_eq!(task.await.unwrap().unwrap().n, 4);
}

#[test]
fn either_end_can_be_shown() {
    let (completer, transfer) = channel();
    completer.count(warpio_core::PathKind::Mmap, 12);
    assert!(format!("{completer:?}").contains("cancelled: false"));
    assert!(format!("{transfer:?}").contains("\"mmap\": 12"));
}
