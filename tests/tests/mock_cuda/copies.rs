//! When copies run: what is taken at the call, what the host waits for, what is left to the stream.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use cudarc::driver::{
    result,
    sys::{self, CUmemcpyAttributes, CUmemcpySrcAccessOrder, CUstream},
};

use crate::support::{
    Gpu, LEGACY, PATIENCE, Pinned, alloc, code, copy, download, fill, pattern, query, read, stall,
    stream, synchronize, upload,
};

#[test]
fn pageable_bytes_are_taken_at_the_call() {
    let _gpu = Gpu::new();
    let stream = stream();
    let pointer = alloc(1000);
    let busy = stall(stream);
    let mut bytes = vec![1_u8; 1000];
    upload(pointer, &bytes, stream).unwrap();
    bytes.fill(2);
    drop(busy);
    synchronize(stream).unwrap();
    assert_eq!(read(pointer, 1000), [1; 1000]);
}

#[test]
fn pinned_bytes_are_read_when_the_stream_gets_there() {
    let _gpu = Gpu::new();
    let stream = stream();
    let pointer = alloc(1000);
    let mut bytes = Pinned::of(&[1; 1000]);
    let busy = stall(stream);
    busy.wait_for_start();
    upload(pointer, bytes.bytes(), stream).unwrap();
    bytes.bytes_mut().fill(2);
    drop(busy);
    synchronize(stream).unwrap();
    assert_eq!(read(pointer, 1000), [2; 1000]);
}

#[test]
fn the_host_does_not_wait_for_a_copy_to_pinned_memory() {
    let _gpu = Gpu::new();
    let stream = stream();
    let pointer = alloc(1000);
    fill(pointer, 9, 1000, stream).unwrap();
    let mut bytes = Pinned::new(1000);
    let busy = stall(stream);
    download(bytes.bytes_mut(), pointer, stream).unwrap();
    assert_eq!(code(query(stream)), 600);
    assert_eq!(bytes.bytes(), [0; 1000]);
    drop(busy);
    synchronize(stream).unwrap();
    assert_eq!(bytes.bytes(), [9; 1000]);
}

#[test]
fn the_host_waits_for_a_copy_to_pageable_memory() {
    let Some((gpu, control)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let pointer = alloc(1000);
    fill(pointer, 9, 1000, stream).unwrap();
    let busy = stall(stream);
    let released = AtomicBool::new(false);
    let handle = stream as usize;
    thread::scope(|scope| {
        scope.spawn(|| {
            gpu.bind();
            let mut bytes = vec![0_u8; 1000];
            download(&mut bytes, pointer, handle as CUstream).unwrap();
            assert!(released.load(Ordering::SeqCst));
            assert_eq!(bytes, [9; 1000]);
        });
        // The copy is behind the stall as soon as it is counted.
        while control.counters().copies_submitted == 0 {
            thread::yield_now();
        }
        released.store(true, Ordering::SeqCst);
        drop(busy);
    });
}

#[test]
fn registered_memory_is_copied_like_pinned_memory() {
    let _gpu = Gpu::new();
    let stream = stream();
    let pointer = alloc(4096);
    let mut bytes = vec![1_u8; 4096];
    // SAFETY: the memory stays until it is unregistered.
    unsafe { sys::cuMemHostRegister_v2(bytes.as_mut_ptr().cast(), 4096, 0) }
        .result()
        .unwrap();
    let busy = stall(stream);
    busy.wait_for_start();
    upload(pointer, &bytes, stream).unwrap();
    bytes.fill(2);
    drop(busy);
    synchronize(stream).unwrap();
    assert_eq!(read(pointer, 4096), [2; 4096]);
    // SAFETY: registered above, and the copy is done.
    unsafe { sys::cuMemHostUnregister(bytes.as_mut_ptr().cast()) }
        .result()
        .unwrap();
}

#[test]
fn a_stream_keeps_its_order() {
    let _gpu = Gpu::new();
    let stream = stream();
    let (one, two) = (alloc(256), alloc(256));
    for round in 0..200_u8 {
        fill(one, round, 256, stream).unwrap();
        copy(two, one, 256, stream).unwrap();
    }
    fill(one, 255, 256, stream).unwrap();
    synchronize(stream).unwrap();
    assert_eq!(read(two, 256), [199; 256]);
    assert_eq!(read(one, 256), [255; 256]);
}

#[test]
fn nothing_is_copied_for_a_length_of_zero() {
    let _gpu = Gpu::new();
    let pointer = alloc(16);
    assert_eq!(code(upload(pointer, &[], LEGACY)), 0);
    assert_eq!(code(copy(pointer, pointer, 0, LEGACY)), 0);
    assert_eq!(code(fill(pointer, 1, 0, LEGACY)), 0);
}

#[test]
fn overlapping_halves_move() {
    let Some((_gpu, _)) = Gpu::controlled() else {
        return;
    };
    let bytes = pattern(100, 5);
    let pointer = alloc(100);
    upload(pointer, &bytes, LEGACY).unwrap();
    copy(pointer + 10, pointer, 90, LEGACY).unwrap();
    assert_eq!(read(pointer, 100)[10..], bytes[..90]);
}

/// A batch of copies with one set of attributes that starts at `start`.
fn batch(targets: &[u64], sources: &[u64], lens: &[usize], start: usize, stream: CUstream) -> u32 {
    let (mut targets, mut sources, mut lens) = (targets.to_vec(), sources.to_vec(), lens.to_vec());
    // SAFETY: plain numbers, of which all may be zero.
    let mut attributes: CUmemcpyAttributes = unsafe { std::mem::zeroed() };
    attributes.srcAccessOrder = CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    let mut start = start;
    // SAFETY: the arrays hold as many items as is said.
    let outcome = unsafe {
        sys::cuMemcpyBatchAsync_v2(
            targets.as_mut_ptr(),
            sources.as_mut_ptr(),
            lens.as_mut_ptr(),
            targets.len(),
            &raw mut attributes,
            &raw mut start,
            1,
            stream,
        )
    };
    code(outcome.result())
}

#[test]
fn a_batch_copies_all_its_ranges() {
    let _gpu = Gpu::new();
    let stream = stream();
    let pointer = alloc(4096);
    fill(pointer, 0, 4096, stream).unwrap();
    let bytes = Pinned::of(&pattern(4096, 7));
    let starts: Vec<u64> = (0..8).map(|index| index * 500).collect();
    let targets: Vec<u64> = starts.iter().map(|start| pointer + start).collect();
    let sources: Vec<u64> = starts
        .iter()
        .map(|start| bytes.address() + 3500 - start)
        .collect();
    assert_eq!(batch(&targets, &sources, &[100; 8], 0, stream), 0);
    synchronize(stream).unwrap();
    let found = read(pointer, 4096);
    for start in (0..8).map(|index| index * 500) {
        assert_eq!(
            found[start..start + 100],
            bytes.bytes()[3500 - start..3600 - start]
        );
        assert_eq!(found[start + 100], 0);
    }
}

#[test]
fn a_bad_batch_copies_nothing() {
    let _gpu = Gpu::new();
    let stream = stream();
    let pointer = alloc(1 << 21);
    fill(pointer, 3, 200, stream).unwrap();
    let bytes = Pinned::of(&[4; 200]);
    let from = bytes.address();
    let beyond = pointer + (1 << 21) - 50;
    assert_eq!(
        batch(&[pointer, beyond], &[from, from], &[100, 100], 0, stream),
        1
    );
    assert_eq!(batch(&[pointer], &[from], &[100], 1, stream), 1);
    assert_eq!(batch(&[pointer], &[from], &[100], 0, LEGACY), 1);
    synchronize(stream).unwrap();
    assert_eq!(read(pointer, 200), [3; 200]);
}

#[test]
fn memory_of_another_device_is_refused() {
    let Some((gpu, _)) = Gpu::controlled() else {
        return;
    };
    let here = alloc(64);
    // SAFETY: device 1 exists, and is released below.
    let far_context = unsafe { result::primary_ctx::retain(1) }.unwrap();
    // SAFETY: just retained.
    unsafe { result::ctx::set_current(far_context) }.unwrap();
    let far_stream = stream();
    let there = alloc(64);
    assert_eq!(code(fill(here, 1, 64, far_stream)), 1);
    assert_eq!(code(upload(here, &[1; 64], far_stream)), 1);
    assert_eq!(code(copy(there, here, 64, far_stream)), 1);
    fill(there, 6, 64, far_stream).unwrap();
    // SAFETY: both contexts are retained, and a driver checks the pointers.
    let peer = |to, to_context, from, from_context| unsafe {
        code(result::memcpy_peer_async(
            to_context,
            to,
            from_context,
            from,
            64,
            far_stream,
        ))
    };
    assert_eq!(peer(here, far_context, there, far_context), 1);
    assert_eq!(peer(here, gpu.context, there, far_context), 0);
    synchronize(far_stream).unwrap();
    gpu.bind();
    assert_eq!(read(here, 64), [6; 64]);
    // SAFETY: retained above.
    unsafe { result::primary_ctx::release(1) }.unwrap();
}

#[test]
fn peers_reach_each_other_once_it_is_enabled() {
    let Some((gpu, _)) = Gpu::controlled() else {
        return;
    };
    // SAFETY: device 1 exists, and is released below.
    let far_context = unsafe { result::primary_ctx::retain(1) }.unwrap();
    // SAFETY: just retained.
    unsafe { result::ctx::set_current(far_context) }.unwrap();
    let there = alloc(64);
    gpu.bind();
    let here = alloc(64);
    assert_eq!(code(copy(here, there, 64, LEGACY)), 1);
    // SAFETY: a live context.
    let enable = || unsafe { code(sys::cuCtxEnablePeerAccess(far_context, 0).result()) };
    assert_eq!(enable(), 0);
    assert_eq!(enable(), 704);
    assert_eq!(code(copy(here, there, 64, LEGACY)), 0);
    // SAFETY: a live context.
    unsafe { sys::cuCtxDisablePeerAccess(far_context) }
        .result()
        .unwrap();
    assert_eq!(code(copy(here, there, 64, LEGACY)), 1);
    // SAFETY: retained above.
    unsafe { result::primary_ctx::release(1) }.unwrap();
}

#[test]
fn a_blocking_copy_has_landed_when_it_returns() {
    let Some((gpu, control)) = Gpu::controlled() else {
        return;
    };
    control.ctl("hold");
    let pointer = alloc(100);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let copying = scope.spawn(|| {
            gpu.bind();
            // SAFETY: a hundred bytes are there.
            unsafe { result::memcpy_htod_sync(pointer, &[8_u8; 100]) }.unwrap();
            done.store(true, Ordering::SeqCst);
        });
        control.ctl(&format!("wait held 1 timeout_ms {}", PATIENCE.as_millis()));
        assert!(!done.load(Ordering::SeqCst));
        control.ctl("release");
        copying.join().unwrap();
    });
    assert_eq!(read(pointer, 100), [8; 100]);
}
