//! Contexts: primary ones, made ones, and which one is current.

use std::{ptr, thread, time::Instant};

use cudarc::driver::{
    result,
    sys::{self, CUcontext},
};

use crate::support::{
    Gpu, PATIENCE, Pinned, alloc, ask, code, download, event, forked, query_event, record, stream, synchronize,
};

fn make_context() -> CUcontext {
    // SAFETY: no parameters, and device 0 exists.
    unsafe { result::ctx::create_v4(ptr::null_mut(), 0, 0) }.unwrap()
}

fn destroy_context(context: CUcontext) -> u32 {
    // SAFETY: tests pass contexts, live or not: a driver refuses those that are gone.
    code(unsafe { sys::cuCtxDestroy_v2(context) }.result())
}

/// Whether device 0's primary context is active.
fn is_active() -> bool {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: places for both results.
    unsafe { sys::cuDevicePrimaryCtxGetState(0, &raw mut flags, &raw mut active) }.result().unwrap();
    active == 1
}

#[test]
fn a_primary_context_is_shared_until_its_last_release() {
    let gpu = Gpu::new();
    // SAFETY: device 0 exists, and the reference is released below.
    let again = unsafe { result::primary_ctx::retain(0) }.unwrap();
    assert_eq!(again, gpu.context);
    // SAFETY: retained above.
    unsafe { result::primary_ctx::release(0) }.unwrap();
    assert!(is_active());
    let _session = gpu.release();
    assert!(!is_active());
}

#[test]
fn a_primary_context_that_is_retained_while_its_last_release_waits_for_work_stays() {
    let Some((gpu, control)) = Gpu::controlled() else {
        return;
    };
    // SAFETY: device 1 exists; each reference is released once.
    let (retain, release) =
        (|| unsafe { result::primary_ctx::retain(1) }, || unsafe { result::primary_ctx::release(1) });
    let far = retain().unwrap();
    // SAFETY: just retained.
    unsafe { result::ctx::set_current(far) }.unwrap();
    let (far_stream, there) = (stream(), alloc(64));
    let mut pinned = Pinned::of(&[7; 64]);
    control.ctl("hold");
    download(pinned.bytes_mut(), there, far_stream).unwrap();
    let calls = control.calls("cuDevicePrimaryCtxRelease");
    thread::scope(|scope| {
        let releasing = scope.spawn(|| release().unwrap());
        let end = Instant::now() + PATIENCE;
        while control.calls("cuDevicePrimaryCtxRelease") == calls {
            assert!(Instant::now() < end, "never released");
            thread::yield_now();
        }
        assert_eq!(retain(), Ok(far));
        control.ctl("release");
        releasing.join().unwrap();
    });
    synchronize(far_stream).unwrap();
    gpu.bind();
    release().unwrap();
}

#[test]
fn contexts_stack_up() {
    let gpu = Gpu::new();
    let other = make_context();
    assert_eq!(result::ctx::get_current(), Ok(Some(other)));
    // SAFETY: a live context.
    unsafe { sys::cuCtxPushCurrent_v2(gpu.context) }.result().unwrap();
    assert_eq!(result::ctx::get_current(), Ok(Some(gpu.context)));
    for expected in [gpu.context, other] {
        // SAFETY: a place for the context.
        let popped = ask(|out| unsafe { sys::cuCtxPopCurrent_v2(out) });
        assert_eq!(popped, Ok(expected));
    }
    assert_eq!(result::ctx::get_current(), Ok(Some(gpu.context)));
    assert_eq!(destroy_context(other), 0);
}

#[test]
fn a_thread_begins_without_a_context() {
    let _gpu = Gpu::new();
    thread::spawn(|| {
        assert_eq!(result::ctx::get_current(), Ok(None));
        // SAFETY: nothing is asked of the caller.
        assert_eq!(code(unsafe { result::malloc_sync(16) }), 201);
    })
    .join()
    .unwrap();
}

#[test]
fn a_made_context_takes_its_streams_with_it() {
    let gpu = Gpu::new();
    let context = make_context();
    let inside = stream();
    assert_eq!(code(synchronize(inside)), 0);
    assert_eq!(destroy_context(context), 0);
    gpu.bind();
    if let Some(control) = gpu.control() {
        assert_eq!(code(synchronize(inside)), 400);
        assert_eq!(control.counters().streams, 0);
        assert_eq!(destroy_context(context), 201);
    }
}

#[test]
fn events_stay_in_their_context() {
    let gpu = Gpu::new();
    let here = event();
    let context = make_context();
    let there = stream();
    assert_eq!(code(record(here, there)), 400);
    assert_eq!(destroy_context(context), 0);
    gpu.bind();
    assert_eq!(code(query_event(here)), 0);
}

#[test]
fn captures_go_with_their_context() {
    let Some((gpu, _)) = Gpu::controlled() else {
        return;
    };
    let context = make_context();
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    // SAFETY: a live stream.
    unsafe { result::stream::begin_capture(stream(), mode) }.unwrap();
    assert_eq!(destroy_context(context), 0);
    gpu.bind();
    // A capture still under way would forbid this.
    alloc(16);
}

#[test]
fn memory_goes_with_the_last_release() {
    let Some((gpu, control)) = Gpu::controlled() else {
        return;
    };
    alloc(1 << 20);
    assert_eq!(control.counters().device_allocations, 1);
    let _session = gpu.release();
    assert_eq!(control.counters().device_allocations, 0);
}

#[test]
fn a_forked_child_cannot_use_the_driver() {
    let _gpu = Gpu::new();
    // The call resolves its symbol before the fork: the child takes no lock of the loader.
    let count = || code(result::device::get_count());
    assert_eq!(count(), 0);
    let status = forked(|| count() as i32);
    assert!(libc::WIFEXITED(status));
    assert_eq!(libc::WEXITSTATUS(status), 3);
}
