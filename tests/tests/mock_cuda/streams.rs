//! Streams: their order among each other, the default ones, host functions, ends.

use std::{
    sync::{Arc, Mutex, mpsc::channel},
    thread,
};

use cudarc::driver::{
    result,
    sys::{self, CUresult, CUstream},
};

use crate::support::{
    Gpu, LEGACY, PATIENCE, Pinned, alloc, blocking_stream, call, code, copy, destroy, fill,
    let_others_run, query, query_event, read, record, recorded, stall, stream, synchronize, upload,
    wait,
};

#[test]
fn a_stream_waits_for_the_event_of_another() {
    let _gpu = Gpu::new();
    let (one, two) = (stream(), stream());
    let (from, to) = (alloc(100), alloc(100));
    fill(from, 1, 100, one).unwrap();
    let busy = stall(one);
    fill(from, 2, 100, one).unwrap();
    wait(two, recorded(one)).unwrap();
    copy(to, from, 100, two).unwrap();
    let_others_run();
    assert_eq!(code(query(two)), 600);
    drop(busy);
    synchronize(two).unwrap();
    assert_eq!(read(to, 100), [2; 100]);
}

#[test]
fn a_wait_is_for_the_record_of_its_time() {
    let _gpu = Gpu::new();
    let (one, two) = (stream(), stream());
    let event = recorded(one);
    synchronize(one).unwrap();
    wait(two, event).unwrap();
    let busy = stall(one);
    record(event, one).unwrap();
    // The later record is not reached, and nobody minds.
    synchronize(two).unwrap();
    assert_eq!(code(query(one)), 600);
    drop(busy);
    synchronize(one).unwrap();
}

#[test]
fn waits_form_chains_and_diamonds() {
    let _gpu = Gpu::new();
    let streams: Vec<CUstream> = (0..4).map(|_| stream()).collect();
    let pointer = alloc(4);
    let busy = stall(streams[0]);
    fill(pointer, 1, 1, streams[0]).unwrap();
    let first = recorded(streams[0]);
    for side in [1, 2] {
        wait(streams[side], first).unwrap();
        copy(pointer + side as u64, pointer, 1, streams[side]).unwrap();
        wait(streams[3], recorded(streams[side])).unwrap();
    }
    copy(pointer + 3, pointer + 2, 1, streams[3]).unwrap();
    drop(busy);
    synchronize(streams[3]).unwrap();
    assert_eq!(read(pointer, 4), [1; 4]);
}

#[test]
fn independent_streams_do_not_wait_for_each_other() {
    let _gpu = Gpu::new();
    let (one, two) = (stream(), stream());
    let busy = stall(one);
    let pointer = alloc(10);
    fill(pointer, 1, 10, two).unwrap();
    synchronize(two).unwrap();
    assert_eq!(code(query(one)), 600);
    drop(busy);
    synchronize(one).unwrap();
}

#[test]
fn the_legacy_stream_waits_for_blocking_streams() {
    let _gpu = Gpu::new();
    let blocking = blocking_stream();
    let busy = stall(blocking);
    let event = recorded(LEGACY);
    // Streams made not to block go on meanwhile.
    let_others_run();
    assert_eq!(code(query_event(event)), 600);
    assert_eq!(code(query(LEGACY)), 600);
    drop(busy);
    synchronize(LEGACY).unwrap();
    assert_eq!(code(query(blocking)), 0);
}

#[test]
fn blocking_streams_wait_for_the_legacy_stream() {
    let _gpu = Gpu::new();
    let (one, two) = (blocking_stream(), blocking_stream());
    let busy = stall(LEGACY);
    let events = [one, one, two].map(recorded);
    let_others_run();
    assert_eq!(events.map(|event| code(query_event(event))), [600; 3]);
    drop(busy);
    synchronize(one).unwrap();
    synchronize(two).unwrap();
}

#[test]
fn synchronising_the_legacy_stream_waits_for_blocking_streams() {
    let _gpu = Gpu::new();
    let (blocking, other) = (blocking_stream(), stream());
    let (busy, later) = (stall(other), stall(blocking));
    assert_eq!(code(query(LEGACY)), 600);
    drop(later);
    synchronize(LEGACY).unwrap();
    assert_eq!(code(query(blocking)), 0);
    assert_eq!(code(query(other)), 600);
    drop(busy);
    synchronize(other).unwrap();
}

#[test]
fn each_thread_has_a_default_stream() {
    let gpu = Gpu::new();
    let own = 2 as CUstream;
    let busy = stall(own);
    assert_eq!(code(query(own)), 600);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            gpu.bind();
            code(query(2 as CUstream))
        });
        assert_eq!(other.join().unwrap(), 0);
    });
    drop(busy);
    synchronize(own).unwrap();
}

#[test]
fn host_functions_run_in_order_with_the_rest() {
    let _gpu = Gpu::new();
    let stream = stream();
    let seen = Arc::new(Mutex::new(Vec::new()));
    for number in 0..50 {
        let seen = Arc::clone(&seen);
        call(stream, move || seen.lock().unwrap().push(number));
    }
    synchronize(stream).unwrap();
    assert_eq!(*seen.lock().unwrap(), (0..50).collect::<Vec<_>>());
}

#[test]
fn host_functions_may_not_call_the_driver() {
    let _gpu = Gpu::new();
    let stream = stream();
    let (tell, told) = channel();
    call(stream, move || {
        // SAFETY: a driver refuses every call made here.
        let outcome = unsafe { result::malloc_sync(16) };
        tell.send(code(outcome)).unwrap();
    });
    assert_eq!(told.recv_timeout(PATIENCE), Ok(800));
    synchronize(stream).unwrap();
}

#[test]
fn host_functions_may_wait_for_other_threads() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let (one, two) = (stream(), stream());
    let busy = stall(one);
    busy.wait_for_start();
    // The rest of the driver works meanwhile, which it would not if a lock were held.
    fill(alloc(10), 1, 10, two).unwrap();
    synchronize(two).unwrap();
    assert_eq!(control.counters().host_functions_run, 1);
    drop(busy);
    synchronize(one).unwrap();
}

#[test]
fn a_destroyed_stream_finishes_and_is_gone() {
    let _gpu = Gpu::new();
    let stream = stream();
    let busy = stall(stream);
    let (tell, told) = channel();
    call(stream, move || tell.send(()).unwrap());
    destroy(stream).unwrap();
    drop(busy);
    told.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn a_gone_stream_is_refused() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let gone = stream();
    let pointer = alloc(10);
    destroy(gone).unwrap();
    assert_eq!(code(destroy(gone)), 400);
    assert_eq!(code(synchronize(gone)), 400);
    assert_eq!(code(query(gone)), 400);
    assert_eq!(code(fill(pointer, 1, 10, gone)), 400);
    assert_eq!(code(upload(pointer, &[1], gone)), 400);
    assert_eq!(control.counters().streams, 0);
}

#[test]
fn priorities_stay_within_their_range() {
    let _gpu = Gpu::new();
    let (least, greatest) = result::stream::get_priority_range().unwrap();
    assert!(greatest < least);
    let kind = result::stream::StreamKind::NonBlocking;
    let eager = result::stream::create_with_priority(kind, greatest - 100).unwrap();
    let mut priority = 0;
    // SAFETY: a place for the priority.
    let outcome = unsafe { sys::cuStreamGetPriority(eager, &raw mut priority) };
    assert_eq!((outcome, priority), (CUresult::CUDA_SUCCESS, greatest));
}

#[test]
fn many_threads_use_streams_of_their_own() {
    let gpu = Gpu::new();
    thread::scope(|scope| {
        for number in 0..8_u8 {
            let gpu = &gpu;
            scope.spawn(move || {
                gpu.bind();
                let stream = stream();
                let mut bytes = Pinned::new(5000);
                let pointer = alloc(5000);
                for round in 0..20_u8 {
                    fill(pointer, number ^ round, 5000, stream).unwrap();
                    crate::support::download(bytes.bytes_mut(), pointer, stream).unwrap();
                    synchronize(stream).unwrap();
                    assert_eq!(bytes.bytes(), [number ^ round; 5000]);
                }
                destroy(stream).unwrap();
            });
        }
    });
}
