//! Events: when they count as reached, what they measure, what is refused.

use std::{sync::mpsc::channel, thread};

use cudarc::driver::{result, sys};

use crate::support::{
    Gpu, alloc, call, code, event, fill, query, query_event, record, recorded, stall, stream,
    synchronize, synchronize_event, wait,
};

#[test]
fn an_event_never_recorded_is_reached() {
    let _gpu = Gpu::new();
    let stream = stream();
    let event = event();
    assert_eq!(code(query_event(event)), 0);
    assert_eq!(code(synchronize_event(event)), 0);
    wait(stream, event).unwrap();
    synchronize(stream).unwrap();
}

#[test]
fn an_event_is_reached_with_the_work_before_it() {
    let _gpu = Gpu::new();
    let stream = stream();
    let busy = stall(stream);
    let first = recorded(stream);
    let later = stall(stream);
    let second = recorded(stream);
    assert_eq!(code(query_event(first)), 600);
    drop(busy);
    synchronize_event(first).unwrap();
    assert_eq!(code(query_event(first)), 0);
    assert_eq!(code(query_event(second)), 600);
    drop(later);
    synchronize_event(second).unwrap();
    assert_eq!(code(query(stream)), 0);
}

#[test]
fn an_event_recorded_again_is_pending_again() {
    let _gpu = Gpu::new();
    let stream = stream();
    let event = recorded(stream);
    synchronize_event(event).unwrap();
    let busy = stall(stream);
    record(event, stream).unwrap();
    assert_eq!(code(query_event(event)), 600);
    drop(busy);
    synchronize_event(event).unwrap();
}

#[test]
fn the_host_waits_for_an_event() {
    let gpu = Gpu::new();
    let stream = stream();
    let (tell, told) = channel();
    let busy = stall(stream);
    call(stream, move || tell.send(()).unwrap());
    let event = recorded(stream) as usize;
    let gpu = &gpu;
    thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            gpu.bind();
            synchronize_event(event as sys::CUevent).unwrap();
            // What came before the event has happened.
            told.try_recv().unwrap();
        });
        busy.wait_for_start();
        drop(busy);
        waiting.join().unwrap();
    });
}

#[test]
fn events_work_without_a_current_context() {
    let _gpu = Gpu::new();
    let stream = stream();
    let event = recorded(stream) as usize;
    thread::spawn(move || {
        let event = event as sys::CUevent;
        synchronize_event(event).unwrap();
        assert_eq!(code(query_event(event)), 0);
    })
    .join()
    .unwrap();
}

#[test]
fn time_passes_between_events() {
    let _gpu = Gpu::new();
    let stream = stream();
    let timed = || result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).unwrap();
    let (start, end) = (timed(), timed());
    // SAFETY: live events.
    let elapsed = |start, end| unsafe { result::event::elapsed(start, end) };
    assert_eq!(code(elapsed(start, end)), 400);
    record(start, stream).unwrap();
    let busy = stall(stream);
    record(end, stream).unwrap();
    assert_eq!(code(elapsed(start, end)), 600);
    drop(busy);
    synchronize(stream).unwrap();
    assert!(elapsed(start, end).unwrap() > 0.0);
    let untimed = recorded(stream);
    synchronize(stream).unwrap();
    assert_eq!(code(elapsed(start, untimed)), 400);
}

#[test]
fn a_destroyed_event_is_refused_and_still_waited_for() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let (one, two) = (stream(), stream());
    let busy = stall(one);
    let event = recorded(one);
    wait(two, event).unwrap();
    // SAFETY: a live event, not used again but to be refused.
    unsafe { result::event::destroy(event) }.unwrap();
    assert_eq!(code(query_event(event)), 400);
    assert_eq!(code(record(event, one)), 400);
    assert_eq!(code(wait(two, event)), 400);
    // SAFETY: as above.
    assert_eq!(code(unsafe { result::event::destroy(event) }), 400);
    assert_eq!(control.counters().events, 0);
    assert_eq!(code(query(two)), 600);
    drop(busy);
    synchronize(two).unwrap();
}

#[test]
fn an_event_can_be_awaited_by_the_stream_that_recorded_it() {
    let _gpu = Gpu::new();
    let stream = stream();
    let event = recorded(stream);
    wait(stream, event).unwrap();
    let pointer = alloc(4);
    fill(pointer, 1, 4, stream).unwrap();
    synchronize(stream).unwrap();
}
