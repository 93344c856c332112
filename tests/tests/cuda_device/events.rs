use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::*;

#[test]
fn an_event_happens_when_the_work_before_it_has() {
    let gpu = Gpu::new();
    let stream = gpu.device.new_stream().unwrap();
    let first = stream.record().unwrap();
    first.synchronize().unwrap();
    assert!(first.is_done().unwrap());
    let Some(mock) = gpu.mock() else { return };
    let buffer = gpu.device.alloc(4096).unwrap();
    mock.ctl("hold");
    copy_in(&gpu.device, &stream, buffer.device_ptr(), &[1; 4096]);
    let event = stream.record().unwrap();
    mock.ctl("wait held 1");
    assert!(!event.is_done().unwrap());
    mock.ctl("release");
    event.synchronize().unwrap();
    assert!(event.is_done().unwrap());
}

#[test]
fn a_thread_can_wait_for_an_event() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let stream = gpu.device.new_stream().unwrap();
    let buffer = gpu.device.alloc(4096).unwrap();
    mock.ctl("hold");
    copy_in(&gpu.device, &stream, buffer.device_ptr(), &[1; 4096]);
    let event = stream.record().unwrap();
    let released = Arc::new(AtomicBool::new(false));
    let seen = released.clone();
    let waiter = std::thread::spawn(move || {
        event.synchronize().unwrap();
        seen.load(Ordering::SeqCst)
    });
    mock.ctl("wait held 1");
    released.store(true, Ordering::SeqCst);
    mock.ctl("release");
    assert!(waiter.join().unwrap(), "it did not wait");
}

#[test]
fn events_are_used_again() {
    let gpu = Gpu::new();
    let stream = gpu.device.new_stream().unwrap();
    for _ in 0..500 {
        stream.record().unwrap().synchronize().unwrap();
    }
    if let Some(mock) = gpu.control() {
        assert_eq!((mock.calls("cuEventRecord"), mock.calls("cuEventCreate")), (500, 1));
    }
}

#[test]
fn an_event_that_is_used_again_does_not_touch_older_waits() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let (first, second) = (gpu.device.new_stream().unwrap(), gpu.device.new_stream().unwrap());
    let (one, other) = (gpu.device.alloc(4096).unwrap(), gpu.device.alloc(4096).unwrap());
    mock.ctl("hold");
    copy_in(&gpu.device, &first, one.device_ptr(), &[1; 4096]);
    let event = first.record().unwrap();
    second.wait(&event).unwrap();
    drop(event);
    // Most likely the same handle, recorded on an idle stream: were it to replace the record, `second` could go on.
    let idle = gpu.device.new_stream().unwrap().record().unwrap();
    idle.synchronize().unwrap();
    copy_in(&gpu.device, &second, other.device_ptr(), &[2; 4096]);
    let last = second.record().unwrap();
    mock.ctl("wait held 1");
    assert_eq!(mock.counters().copies_held, 1, "the second copy waits for the first, not at the gate");
    assert!(!last.is_done().unwrap());
    mock.ctl("release");
    last.synchronize().unwrap();
    assert_eq!(read_back(&other.freeze()), [2; 4096]);
}

#[test]
fn what_has_happened_stays_so() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let stream = gpu.device.new_stream().unwrap();
    let event = stream.record().unwrap();
    event.synchronize().unwrap();
    mock.ctl("sticky 0 700");
    assert!(event.is_done().unwrap(), "it needs no driver any more");
    assert!(stream.record().is_err());
}

#[test]
fn a_driver_that_makes_no_event_is_an_error_that_passes() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let stream = gpu.device.new_stream().unwrap();
    for call in ["cuEventCreate", "cuEventRecord"] {
        mock.ctl(&format!("fail {call} 1"));
        let error = stream.record().unwrap_err();
        assert!(error.to_string().contains(call), "{error}");
        stream.record().unwrap().synchronize().unwrap();
    }
}
