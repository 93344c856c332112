use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use warpio_cuda::cuda_device;

use crate::support::*;

/// The processor time of the threads with this name, in clock ticks, and how many there are.
fn threads(name: &str) -> (u64, usize) {
    let mut found = (0, 0);
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(task.path().join("stat")) else { continue };
        let (head, tail) = stat.rsplit_once(')').unwrap();
        if head.split_once('(').unwrap().1 == name {
            let times: Vec<u64> = tail.split_whitespace().skip(11).take(2).map(|time| time.parse().unwrap()).collect();
            found = (found.0 + times.iter().sum::<u64>(), found.1 + 1);
        }
    }
    found
}

#[test]
fn what_has_happened_is_told_at_once() {
    let gpu = Gpu::new();
    let stream = gpu.device.new_stream().unwrap();
    let event = stream.record().unwrap();
    event.synchronize().unwrap();
    let here = std::thread::current().id();
    let told = Arc::new(Mutex::new(None));
    let note = told.clone();
    let done = move |result: warpio_core::Result<()>| {
        *note.lock().unwrap() = Some((result.is_ok(), std::thread::current().id()))
    };
    gpu.device.backend().watch(event, Box::new(done));
    assert_eq!(*told.lock().unwrap(), Some((true, here)));
}

#[test]
fn what_happens_later_is_told_by_the_devices_thread() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let stream = gpu.device.new_stream().unwrap();
    let buffer = gpu.device.alloc(4096).unwrap();
    mock.ctl("hold");
    copy_in(&gpu.device, &stream, buffer.device_ptr(), &[1; 4096]);
    let (told, thread) = channel();
    let done = move |_| told.send(std::thread::current().name().map(str::to_owned)).unwrap();
    gpu.device.backend().watch(stream.record().unwrap(), Box::new(done));
    mock.ctl("wait held 1");
    assert!(thread.try_recv().is_err());
    mock.ctl("release");
    assert_eq!(outcome(&thread).as_deref(), Some("warpio-cuda:0"));
}

#[test]
fn every_watcher_is_told_once_and_a_streams_in_order() {
    const STREAMS: usize = 8;
    const EVENTS: usize = 200;
    let gpu = Gpu::new();
    if let Some(mock) = gpu.control() {
        mock.ctl("delay_us 50 seed 1");
    }
    let (told, order) = channel();
    std::thread::scope(|scope| {
        for lane in 0..STREAMS {
            let (device, told) = (gpu.device.clone(), told.clone());
            scope.spawn(move || {
                let stream = device.new_stream().unwrap();
                for n in 0..EVENTS {
                    let told = told.clone();
                    let done = move |result: warpio_core::Result<()>| told.send((lane, n, result.is_ok())).unwrap();
                    device.backend().watch(stream.record().unwrap(), Box::new(done));
                }
            });
        }
    });
    drop(told);
    let mut seen = [0; STREAMS];
    while let Ok((lane, _, ok)) = order.recv_timeout(Duration::from_secs(20)) {
        assert!(ok);
        seen[lane] += 1;
    }
    assert_eq!(seen, [EVENTS; STREAMS]);
}

#[test]
fn events_of_a_stream_are_told_in_their_order_though_watched_backwards() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let stream = gpu.device.new_stream().unwrap();
    let buffer = gpu.device.alloc(4096).unwrap();
    mock.ctl("hold");
    let events: Vec<_> = (0..4)
        .map(|n| {
            copy_in(&gpu.device, &stream, buffer.device_ptr(), &[n; 16]);
            stream.record().unwrap()
        })
        .collect();
    let (told, order) = channel();
    for (n, event) in events.into_iter().enumerate().rev() {
        let told = told.clone();
        gpu.device.backend().watch(event, Box::new(move |_| told.send(n).unwrap()));
    }
    // One after another: no later event keeps an earlier one from being told.
    for n in 0..4 {
        mock.ctl("wait held 1; release 1");
        assert_eq!(outcome(&order), n);
    }
}

#[test]
fn a_call_may_watch_and_drop_what_it_likes() {
    let gpu = Gpu::new();
    let session;
    let (told, done) = channel();
    {
        let device = gpu.device.clone();
        let stream = device.new_stream().unwrap();
        let buffer = device.alloc(4096).unwrap();
        copy_in(&device, &stream, buffer.device_ptr(), &[1; 4096]);
        let inner = device.clone();
        session = gpu.into_session();
        device.backend().clone().watch(
            stream.record().unwrap(),
            Box::new(move |_| {
                let event = stream.record().unwrap();
                let last = (inner.clone(), stream, buffer);
                inner.backend().watch(
                    event,
                    Box::new(move |_| {
                        drop(last);
                        told.send(()).unwrap();
                    }),
                );
                drop(inner);
            }),
        );
    }
    outcome(&done);
    // The device ended on its own thread.
    if let Some(mock) = session.control() {
        until(|| {
            warpio_cuda::wait_for_releases();
            mock.counters().contexts == 0
        });
    }
}

#[test]
fn a_panic_in_a_call_does_not_end_the_reactor() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let stream = gpu.device.new_stream().unwrap();
    let buffer = gpu.device.alloc(4096).unwrap();
    mock.ctl("hold");
    copy_in(&gpu.device, &stream, buffer.device_ptr(), &[1; 4096]);
    gpu.device.backend().watch(stream.record().unwrap(), Box::new(|_| panic!("on purpose")));
    let after = watch(&gpu.device, stream.record().unwrap());
    mock.ctl("release");
    outcome(&after).unwrap();
}

#[test]
fn events_of_another_device_can_be_watched() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let other = cuda_device(1, options()).unwrap();
    let stream = other.new_stream().unwrap();
    let buffer = other.alloc(4096).unwrap();
    mock.ctl("hold");
    copy_in(&other, &stream, buffer.device_ptr(), &[1; 4096]);
    let seen = watch(&gpu.device, stream.record().unwrap());
    mock.ctl("wait held 1");
    assert!(seen.try_recv().is_err());
    mock.ctl("release");
    outcome(&seen).unwrap();
}

#[test]
fn an_idle_reactor_sleeps() {
    let gpu = Gpu::new();
    upload(&gpu.device, &[1; 4096]);
    until(|| threads("warpio-cuda:0").1 == 1);
    let before = threads("warpio-cuda:0");
    // Not to wait for anything: this is the time that is measured.
    std::thread::sleep(Duration::from_millis(300));
    let after = threads("warpio-cuda:0");
    // A tick is 10 ms: a thread that polled would have used thirty.
    assert!(after.1 == 1 && after.0 - before.0 <= 1, "{before:?} {after:?}");
}

#[test]
fn a_long_wait_costs_little() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let stream = gpu.device.new_stream().unwrap();
    let buffer = gpu.device.alloc(4096).unwrap();
    mock.ctl("hold");
    copy_in(&gpu.device, &stream, buffer.device_ptr(), &[1; 4096]);
    let seen = watch(&gpu.device, stream.record().unwrap());
    until(|| threads("warpio-cuda:0").1 == 1);
    let before = threads("warpio-cuda:0");
    std::thread::sleep(Duration::from_millis(500));
    let after = threads("warpio-cuda:0");
    assert!(after.0 - before.0 <= 25, "half of the time: {before:?} {after:?}");
    mock.ctl("release");
    outcome(&seen).unwrap();
}

#[test]
fn the_thread_ends_with_the_device() {
    let gpu = Gpu::new();
    upload(&gpu.device, &[1; 16]);
    until(|| threads("warpio-cuda:0").1 == 1);
    let _session = gpu.into_session();
    until(|| threads("warpio-cuda:0").1 == 0);
}

#[test]
fn when_an_event_cannot_be_asked_the_whole_device_is_waited_for() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let stream = gpu.device.new_stream().unwrap();
    let buffer = gpu.device.alloc(4096).unwrap();
    mock.ctl("hold");
    copy_in(&gpu.device, &stream, buffer.device_ptr(), &[1; 4096]);
    let event = stream.record().unwrap();
    mock.ctl("wait held 1; fail cuEventQuery 400 forever");
    let seen = watch(&gpu.device, event);
    until(|| mock.calls("cuCtxSynchronize") > 0);
    assert!(seen.try_recv().is_err(), "the copy still runs");
    mock.ctl("release");
    let error = outcome(&seen).unwrap_err();
    assert!(error.to_string().contains("INVALID_HANDLE"), "{error}");
    mock.ctl("reset");
}
