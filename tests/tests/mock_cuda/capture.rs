//! Stream capture, and what it forbids.

use std::thread;

use cudarc::driver::{
    DriverError, result,
    sys::{self, CUgraph, CUstream, CUstreamCaptureMode as Mode, CUstreamCaptureStatus as Status},
};

use crate::support::{
    Gpu, LEGACY, alloc, blocking_stream, code, copy, destroy, fill, query_event, read, recorded,
    stream, synchronize, synchronize_event, try_alloc, wait,
};

const GLOBAL: Mode = Mode::CU_STREAM_CAPTURE_MODE_GLOBAL;
const THREAD_LOCAL: Mode = Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
const RELAXED: Mode = Mode::CU_STREAM_CAPTURE_MODE_RELAXED;

fn begin(stream: CUstream, mode: Mode) -> Result<(), DriverError> {
    // SAFETY: tests pass live streams.
    unsafe { result::stream::begin_capture(stream, mode) }
}

fn end(stream: CUstream) -> Result<CUgraph, DriverError> {
    // SAFETY: tests pass live streams.
    unsafe { result::stream::end_capture(stream) }
}

fn status(stream: CUstream) -> Result<Status, DriverError> {
    // SAFETY: tests pass live streams.
    unsafe { result::stream::is_capturing(stream) }
}

fn set_mode(mut mode: Mode) -> Mode {
    // SAFETY: a mode to read and to replace.
    unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) }
        .result()
        .unwrap();
    mode
}

#[test]
fn a_stream_tells_that_it_captures() {
    let _gpu = Gpu::new();
    let stream = stream();
    assert_eq!(status(stream), Ok(Status::CU_STREAM_CAPTURE_STATUS_NONE));
    begin(stream, RELAXED).unwrap();
    assert_eq!(status(stream), Ok(Status::CU_STREAM_CAPTURE_STATUS_ACTIVE));
    assert_eq!(code(begin(stream, RELAXED)), 401);
    end(stream).unwrap();
    assert_eq!(status(stream), Ok(Status::CU_STREAM_CAPTURE_STATUS_NONE));
    assert_eq!(code(end(stream)), 401);
}

#[test]
fn captured_work_runs_when_it_is_launched() {
    let _gpu = Gpu::new();
    let stream = stream();
    let (one, two) = (alloc(64), alloc(64));
    fill(one, 1, 64, stream).unwrap();
    fill(two, 2, 64, stream).unwrap();
    synchronize(stream).unwrap();
    begin(stream, RELAXED).unwrap();
    copy(two, one, 64, stream).unwrap();
    fill(one, 3, 64, stream).unwrap();
    let graph = end(stream).unwrap();
    synchronize(stream).unwrap();
    assert_eq!((read(one, 1), read(two, 1)), (vec![1], vec![2]));
    // SAFETY: a live graph; both are destroyed after their last use.
    unsafe {
        let executable =
            result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)).unwrap();
        result::graph::destroy(graph).unwrap();
        result::graph::launch(executable, stream).unwrap();
        synchronize(stream).unwrap();
        assert_eq!((read(one, 64), read(two, 64)), (vec![3; 64], vec![1; 64]));
        result::graph::launch(executable, stream).unwrap();
        synchronize(stream).unwrap();
        assert_eq!(read(two, 64), [3; 64]);
        result::graph::exec_destroy(executable).unwrap();
    }
}

#[test]
fn waiting_for_a_stream_that_captures_spoils_the_capture() {
    let _gpu = Gpu::new();
    let stream = stream();
    begin(stream, RELAXED).unwrap();
    assert_eq!(code(synchronize(stream)), 900);
    assert_eq!(
        status(stream),
        Ok(Status::CU_STREAM_CAPTURE_STATUS_INVALIDATED)
    );
    assert_eq!(code(end(stream)), 901);
    assert_eq!(code(synchronize(stream)), 0);
}

#[test]
fn a_captured_event_cannot_be_asked() {
    let _gpu = Gpu::new();
    let stream = stream();
    begin(stream, RELAXED).unwrap();
    let event = recorded(stream);
    assert_eq!(code(query_event(event)), 907);
    assert_eq!(code(end(stream)), 901);
}

#[test]
fn a_global_capture_forbids_unsafe_calls_to_all_threads() {
    let gpu = Gpu::new();
    let stream = stream();
    let other = recorded(LEGACY) as usize;
    begin(stream, GLOBAL).unwrap();
    thread::scope(|scope| {
        let spoiling = scope.spawn(|| {
            gpu.bind();
            [
                code(try_alloc(16)),
                code(query_event(other as sys::CUevent)),
            ]
        });
        assert_eq!(spoiling.join().unwrap(), [900; 2]);
    });
    assert_eq!(code(end(stream)), 901);
}

#[test]
fn a_relaxed_thread_goes_on_beside_a_global_capture() {
    let gpu = Gpu::new();
    let (capturing, working) = (stream(), stream() as usize);
    begin(capturing, GLOBAL).unwrap();
    thread::scope(|scope| {
        let going_on = scope.spawn(|| {
            gpu.bind();
            assert_eq!(set_mode(RELAXED), GLOBAL);
            let working = working as CUstream;
            let pointer = alloc(64);
            fill(pointer, 1, 64, working).unwrap();
            synchronize_event(recorded(working)).unwrap();
            synchronize(working).unwrap();
            assert_eq!(set_mode(GLOBAL), RELAXED);
        });
        going_on.join().unwrap();
    });
    end(capturing).unwrap();
}

#[test]
fn a_thread_local_capture_forbids_unsafe_calls_to_its_thread_only() {
    let gpu = &Gpu::new();
    let stream = stream();
    begin(stream, THREAD_LOCAL).unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            gpu.bind();
            code(try_alloc(16))
        });
        assert_eq!(other.join().unwrap(), 0);
        let ending = stream as usize;
        let other = scope.spawn(move || {
            gpu.bind();
            code(end(ending as CUstream))
        });
        assert_eq!(other.join().unwrap(), 908);
    });
    assert_eq!(code(try_alloc(16)), 900);
    assert_eq!(code(end(stream)), 901);
}

#[test]
fn the_legacy_stream_stays_clear_of_a_blocking_stream_that_captures() {
    let _gpu = Gpu::new();
    let stream = blocking_stream();
    let pointer = alloc(64);
    begin(stream, RELAXED).unwrap();
    assert_eq!(code(status(LEGACY)), 906);
    assert_eq!(code(fill(pointer, 1, 64, LEGACY)), 906);
    assert_eq!(code(end(stream)), 901);
    assert_eq!(code(fill(pointer, 1, 64, LEGACY)), 0);
}

#[test]
fn the_legacy_stream_cannot_capture() {
    let _gpu = Gpu::new();
    assert_ne!(code(begin(LEGACY, RELAXED)), 0);
}

#[test]
fn a_capture_takes_in_streams_that_wait_for_it() {
    let _gpu = Gpu::new();
    let (origin, side) = (stream(), stream());
    let (one, two) = (alloc(64), alloc(64));
    fill(one, 1, 64, origin).unwrap();
    synchronize(origin).unwrap();
    begin(origin, RELAXED).unwrap();
    fill(one, 5, 64, origin).unwrap();
    wait(side, recorded(origin)).unwrap();
    assert_eq!(status(side), Ok(Status::CU_STREAM_CAPTURE_STATUS_ACTIVE));
    copy(two, one, 64, side).unwrap();
    wait(origin, recorded(side)).unwrap();
    fill(one, 6, 64, origin).unwrap();
    let graph = end(origin).unwrap();
    assert_eq!(status(side), Ok(Status::CU_STREAM_CAPTURE_STATUS_NONE));
    // SAFETY: a live graph.
    unsafe {
        let executable =
            result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)).unwrap();
        result::graph::launch(executable, origin).unwrap();
        synchronize(origin).unwrap();
        result::graph::exec_destroy(executable).unwrap();
        result::graph::destroy(graph).unwrap();
    }
    assert_eq!((read(one, 64), read(two, 64)), (vec![6; 64], vec![5; 64]));
}

#[test]
fn a_capture_must_wait_for_what_it_took_in() {
    let _gpu = Gpu::new();
    let (origin, side) = (stream(), stream());
    let pointer = alloc(64);
    begin(origin, RELAXED).unwrap();
    wait(side, recorded(origin)).unwrap();
    fill(pointer, 1, 64, side).unwrap();
    assert_eq!(code(end(origin)), 904);
    synchronize(side).unwrap();
}

#[test]
fn work_outside_of_a_capture_cannot_be_waited_for_in_it() {
    let _gpu = Gpu::new();
    let (capturing, other) = (stream(), stream());
    let event = recorded(other);
    begin(capturing, RELAXED).unwrap();
    assert_eq!(code(wait(capturing, event)), 905);
    assert_eq!(code(end(capturing)), 901);
}

#[test]
fn a_destroyed_stream_gives_up_its_capture() {
    let Some((_gpu, _)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    begin(stream, GLOBAL).unwrap();
    destroy(stream).unwrap();
    assert_eq!(code(try_alloc(16)), 0);
}
