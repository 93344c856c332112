//! Faults on demand: out of memory, failing calls, broken contexts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use cudarc::driver::{result, sys};
use warpio_tests::mock_gpu;

use crate::support::{
    Gpu, LEGACY, Pinned, alloc, call, code, copy, download, event, fill, free, in_child, query, query_event, read,
    recorded, stall, stream, synchronize, synchronize_event, try_alloc, upload,
};

#[test]
fn a_device_has_only_its_memory() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    control.ctl("memory 0 268435456");
    assert_eq!(result::mem_get_info(), Ok((268_435_456, 268_435_456)));
    let whole = try_alloc(268_435_456).unwrap();
    assert_eq!(code(try_alloc(1)), 2);
    free(whole).unwrap();
    assert_eq!(code(try_alloc(1)), 0);
}

#[test]
fn memory_runs_out_after_so_many_bytes() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    control.ctl("oom_after 1000000");
    let pointer = alloc(600_000);
    assert_eq!(code(try_alloc(600_000)), 2);
    free(pointer).unwrap();
    assert_eq!(code(try_alloc(600_000)), 2);
    assert_eq!(code(try_alloc(400_000)), 0);
    control.ctl("oom_after off");
    assert_eq!(code(try_alloc(600_000)), 0);
}

#[test]
fn the_next_calls_of_an_entry_point_fail() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    control.ctl("fail cuMemAlloc 2 2 after 1; fail cuEventCreate 999");
    let outcomes: Vec<u32> = (0..4).map(|_| code(try_alloc(16))).collect();
    assert_eq!(outcomes, [0, 2, 2, 0]);
    let flags = sys::CUevent_flags::CU_EVENT_DEFAULT;
    assert_eq!(code(result::event::create(flags)), 999);
    assert_eq!(code(result::event::create(flags)), 0);
    assert_eq!(control.calls("cuMemAlloc"), 4);
}

#[test]
fn a_broken_context_fails_every_call() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let pointer = alloc(64);
    let event = recorded(stream);
    synchronize(stream).unwrap();
    control.ctl("sticky 0 700");
    assert_eq!(code(try_alloc(16)), 700);
    assert_eq!(code(free(pointer)), 700);
    assert_eq!(code(fill(pointer, 1, 64, stream)), 700);
    assert_eq!(code(upload(pointer, &[1], LEGACY)), 700);
    assert_eq!(code(query(stream)), 700);
    assert_eq!(code(synchronize(stream)), 700);
    assert_eq!(code(query_event(event)), 700);
    assert_eq!(code(synchronize_event(event)), 700);
    assert_eq!(code(result::ctx::synchronize()), 700);
    assert_eq!(code(result::mem_get_info()), 700);
    control.ctl("reset");
    assert_eq!(code(fill(pointer, 1, 64, stream)), 0);
    assert_eq!(code(synchronize(stream)), 0);
}

#[test]
fn the_first_error_stays() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    control.ctl("sticky 0 719; sticky 0 700");
    assert_eq!(code(try_alloc(16)), 719);
}

#[test]
fn a_broken_context_never_calls_host_functions() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let (one, two) = (stream(), stream());
    let pointer = alloc(64);
    let pinned = Pinned::of(&[1; 64]);
    let called = Arc::new(AtomicBool::new(false));
    let busy = stall(one);
    upload(pointer, pinned.bytes(), one).unwrap();
    let mark = Arc::clone(&called);
    call(one, move || mark.store(true, Ordering::SeqCst));
    control.ctl("sticky 0 719");
    drop(busy);
    control.ctl("wait idle");
    assert!(!called.load(Ordering::SeqCst));
    assert_eq!(Arc::strong_count(&called), 2);
    let counters = control.counters();
    assert_eq!((counters.copies_discarded, counters.copies_completed), (1, 0));
    assert_eq!(code(query(two)), 719);
}

#[test]
fn those_who_wait_learn_of_a_broken_context() {
    let Some((gpu, control)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let busy = stall(stream);
    let event = recorded(stream) as usize;
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            gpu.bind();
            code(synchronize_event(event as sys::CUevent))
        });
        while control.calls("cuEventSynchronize") == 0 {
            thread::yield_now();
        }
        control.ctl("sticky 0 714");
        // The stream is still stalled.
        assert_eq!(waiting.join().unwrap(), 714);
    });
    drop(busy);
}

#[test]
fn a_context_breaks_in_the_midst_of_its_work() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let pointer = alloc(64);
    let pinned = Pinned::of(&[1; 64]);
    control.ctl("sticky 0 700 after 3");
    let outcomes: Vec<u32> = (0..6).map(|_| code(upload(pointer, pinned.bytes(), stream))).collect();
    assert_eq!(outcomes[0], 0);
    assert_eq!(code(synchronize(stream)), 700);
    control.ctl("wait idle");
    let counters = control.counters();
    assert_eq!(counters.copies_completed, 3);
    assert_eq!(counters.copies_in_flight, 0);
}

#[test]
fn what_a_broken_context_had_queued_never_runs_even_if_it_is_healed() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let pointer = alloc(64);
    let mut pinned = Pinned::of(&[7; 64]);
    control.ctl("hold");
    download(pinned.bytes_mut(), pointer, stream).unwrap();
    // In one go, so that the stream's thread sees nothing of it.
    control.ctl("wait held 1; sticky 0 700; reset");
    synchronize(stream).unwrap();
    assert_eq!(pinned.bytes(), [7; 64]);
}

/// The function ends after the work behind it was dropped, and must not count as the last that the stream did.
#[test]
fn a_stream_in_a_host_function_is_idle_after_a_reset_once_that_has_ended() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let (stream, pointer) = (stream(), alloc(64));
    fill(pointer, 7, 64, stream).unwrap();
    let busy = stall(stream);
    busy.wait_for_start();
    fill(pointer, 1, 64, stream).unwrap();
    control.ctl("sticky 0 700; reset");
    assert_eq!(code(query(stream)), 600, "the function has not ended");
    drop(busy);
    control.ctl("wait idle");
    synchronize(stream).unwrap();
    assert_eq!(read(pointer, 64), [7; 64], "work of a broken context has run");
    fill(pointer, 2, 64, stream).unwrap();
    synchronize(stream).unwrap();
    assert_eq!(read(pointer, 64), [2; 64]);
}

#[test]
fn nothing_touches_memory_any_more_once_a_context_is_seen_to_be_broken() {
    const LEN: usize = 256 << 20;
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let (stream, pointer) = (stream(), alloc(LEN));
    let mut pinned = Pinned::of(&vec![7; LEN]);
    fill(pointer, 1, LEN, stream).unwrap();
    synchronize(stream).unwrap();
    download(pinned.bytes_mut(), pointer, stream).unwrap();
    let at = |index: usize| {
        // SAFETY: within the allocation; the copy may write it at any time.
        unsafe { (pinned.address() as *const u8).add(index).read_volatile() }
    };
    while at(0) == 7 && at(LEN - 1) == 7 {
        std::hint::spin_loop();
    }
    control.ctl("sticky 0 700");
    assert_eq!(code(query(stream)), 700);
    assert!((0..LEN).step_by(4096).all(|index| at(index) == 1), "the copy that ran went on to its end");
}

#[test]
fn a_broken_context_can_be_left() {
    let Some((gpu, control)) = Gpu::controlled() else {
        return;
    };
    // SAFETY: no parameters, and device 0 exists.
    let made = unsafe { result::ctx::create_v4(std::ptr::null_mut(), 0, 0) }.unwrap();
    alloc(64);
    control.ctl("sticky 0 700");
    assert_eq!(code(try_alloc(16)), 700);
    // SAFETY: a live context, not used again.
    assert_eq!(code(unsafe { sys::cuCtxDestroy_v2(made) }.result()), 0);
    gpu.bind();
    assert_eq!(code(try_alloc(16)), 700);
    // SAFETY: device 0 exists. Its context is the same after the reset, but all that was in it is gone.
    let outcome = unsafe { sys::cuDevicePrimaryCtxReset_v2(0) };
    assert_eq!(code(outcome.result()), 0);
    assert_eq!(code(try_alloc(16)), 0);
}

#[test]
fn the_next_context_is_broken_if_there_is_none_yet() {
    let Some((gpu, control)) = Gpu::controlled() else {
        return;
    };
    let session = gpu.release();
    control.ctl("sticky 0 700");
    // SAFETY: device 0 exists; the context is released below.
    let context = unsafe { result::primary_ctx::retain(0) }.unwrap();
    // SAFETY: just retained.
    unsafe { result::ctx::set_current(context) }.unwrap();
    assert_eq!(code(try_alloc(16)), 700);
    // SAFETY: retained above.
    unsafe { result::primary_ctx::release(0) }.unwrap();
    drop(session);
}

#[test]
fn another_device_does_not_mind() {
    let Some((gpu, control)) = Gpu::controlled() else {
        return;
    };
    // SAFETY: device 1 exists, and is released below.
    let far_context = unsafe { result::primary_ctx::retain(1) }.unwrap();
    control.ctl("sticky 0 700");
    assert_eq!(code(try_alloc(16)), 700);
    // SAFETY: just retained.
    unsafe { result::ctx::set_current(far_context) }.unwrap();
    assert_eq!(code(try_alloc(16)), 0);
    gpu.bind();
    // SAFETY: retained above.
    unsafe { result::primary_ctx::release(1) }.unwrap();
}

#[test]
fn a_stream_of_another_context_is_not_held_up_by_a_broken_one() {
    let Some((gpu, control)) = Gpu::controlled() else {
        return;
    };
    let here = stream();
    // SAFETY: device 1 exists, and is released below.
    let far_context = unsafe { result::primary_ctx::retain(1) }.unwrap();
    // SAFETY: just retained.
    unsafe { result::ctx::set_current(far_context) }.unwrap();
    let there = stream();
    let pointer = alloc(8);
    let busy = stall(here);
    let event = {
        gpu.bind();
        recorded(here)
    };
    // SAFETY: still retained.
    unsafe { result::ctx::set_current(far_context) }.unwrap();
    crate::support::wait(there, event).unwrap();
    fill(pointer, 1, 8, there).unwrap();
    assert_eq!(code(query(there)), 600);
    control.ctl("sticky 0 700");
    drop(busy);
    synchronize(there).unwrap();
    // SAFETY: retained above.
    unsafe { result::primary_ctx::release(1) }.unwrap();
    gpu.bind();
}

#[test]
fn commands_that_make_no_sense_are_refused() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    assert_eq!(control.try_ctl("oom_after 5; fly"), Err(-1));
    assert_eq!(code(try_alloc(16)), 0);
    assert_eq!(control.try_ctl("memory 9 5"), Err(-2));
    assert_eq!(control.try_ctl("sticky 9 700"), Err(-2));
    assert_eq!(control.try_ctl("wait held 1 timeout_ms 1"), Err(-3));
}

#[test]
fn a_plan_can_be_given_from_the_start() {
    let plan = "memory 0 1048576; fail cuStreamCreate 2; driver_version 11040";
    in_child("faults::a_plan_can_be_given_from_the_start", &[("MOCK_CUDA_PLAN", plan)], || {
        // Not a session, which would begin with a reset.
        let Some(_) = mock_gpu::load() else {
            return;
        };
        result::init().unwrap();
        // SAFETY: device 0 exists; the process ends with the context.
        let context = unsafe { result::primary_ctx::retain(0) }.unwrap();
        // SAFETY: just retained.
        unsafe { result::ctx::set_current(context) }.unwrap();
        assert_eq!(result::mem_get_info(), Ok((1_048_576, 1_048_576)));
        let kind = || result::stream::StreamKind::NonBlocking;
        assert_eq!(code(result::stream::create(kind())), 2);
        assert_eq!(code(result::stream::create(kind())), 0);
        // SAFETY: a place for the version.
        let version = crate::support::ask::<i32>(|out| unsafe { sys::cuDriverGetVersion(out) });
        assert_eq!(version, Ok(11_040));
    });
}

#[test]
fn what_is_not_modelled_says_so() {
    let Some((_gpu, _)) = Gpu::controlled() else {
        return;
    };
    // SAFETY: the mock looks at no argument.
    let outcome = unsafe { sys::cuArrayDestroy(std::ptr::null_mut()) };
    assert_eq!(code(outcome.result()), 801);
}

#[test]
fn a_reset_leaves_what_is_alive() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let (one, two) = (alloc(64), alloc(64));
    let event = event();
    fill(one, 3, 64, stream).unwrap();
    synchronize(stream).unwrap();
    control.ctl("reset");
    copy(two, one, 64, stream).unwrap();
    crate::support::record(event, stream).unwrap();
    synchronize_event(event).unwrap();
    assert_eq!(crate::support::read(two, 64), [3; 64]);
    let counters = control.counters();
    assert_eq!((counters.device_allocations, counters.streams, counters.events), (2, 1, 1));
}
