//! cudarc's safe layer on the software GPU.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, DevicePtrMut, result, sys};
use warpio_tests::mock_gpu;

use crate::support::{code, in_child, pattern};

#[test]
fn the_library_is_found() {
    let _session = mock_gpu::session();
    // SAFETY: loads and unloads libraries, of which ours stays.
    assert!(unsafe { sys::is_culib_present() });
    assert!(CudaContext::device_count().unwrap() >= 1);
}

#[test]
fn a_child_gets_the_mock_by_preloading() {
    if mock_gpu::is_real() && std::env::var_os("LD_PRELOAD").is_none() {
        return;
    }
    let path = mock_gpu::path().unwrap();
    // The child does not load the mock itself: what answers it is what the loader has under the driver's name.
    let variables = [
        ("LD_PRELOAD", path.to_str().unwrap()),
        ("WARPIO_TEST_CUDA", "real"),
    ];
    in_child(
        "cudarc_api::a_child_gets_the_mock_by_preloading",
        &variables,
        || {
            assert!(mock_gpu::load().is_none());
            let context = CudaContext::new(0).unwrap();
            assert_eq!(context.name().unwrap(), "Mock GPU 0");
        },
    );
}

#[test]
fn a_round_trip_through_the_safe_layer() {
    let _session = mock_gpu::session();
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let bytes = pattern(70_000, 3);
    let one = stream.clone_htod(&bytes).unwrap();
    let mut two: CudaSlice<u8> = stream.alloc_zeros(bytes.len()).unwrap();
    assert!(
        stream
            .clone_dtoh(&two)
            .unwrap()
            .iter()
            .all(|byte| *byte == 0)
    );
    stream.memcpy_dtod(&one, &mut two).unwrap();
    assert!(stream.clone_dtoh(&two).unwrap() == bytes);
    let view = one.slice(100..200);
    assert!(stream.clone_dtoh(&view).unwrap() == bytes[100..200]);
}

#[test]
fn streams_fork_and_join() {
    let _session = mock_gpu::session();
    let context = CudaContext::new(0).unwrap();
    let first = context.new_stream().unwrap();
    let mut slice = first.clone_htod(&[1_u32; 1000]).unwrap();
    let second = first.fork().unwrap();
    second.memset_zeros(&mut slice).unwrap();
    first.join(&second).unwrap();
    assert_eq!(first.clone_dtoh(&slice).unwrap(), [0; 1000]);
}

#[test]
fn pinned_memory_through_the_safe_layer() {
    let _session = mock_gpu::session();
    let context = CudaContext::new(0).unwrap();
    // Not the default stream: cudarc tracks a pinned slice only once the context has a stream beside it.
    let stream = context.new_stream().unwrap();
    // SAFETY: written before it is read.
    let mut pinned = unsafe { context.alloc_pinned_with_flags::<u8>(5000, 0) }.unwrap();
    pinned
        .as_mut_slice()
        .unwrap()
        .copy_from_slice(&pattern(5000, 8));
    let slice = stream.clone_htod(&pinned).unwrap();
    pinned.as_mut_slice().unwrap().fill(0);
    stream.memcpy_dtoh(&slice, &mut pinned).unwrap();
    assert!(pinned.as_slice().unwrap() == pattern(5000, 8));
}

#[test]
fn events_measure_time() {
    let _session = mock_gpu::session();
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
    let start = stream.record_event(timed).unwrap();
    let _slice: CudaSlice<u8> = stream.alloc_zeros(1 << 20).unwrap();
    let end = stream.record_event(timed).unwrap();
    assert!(start.elapsed_ms(&end).unwrap() >= 0.0);
    assert!(end.is_complete());
}

#[test]
fn slices_move_between_devices() {
    let session = mock_gpu::session();
    if session.control().is_none() {
        return;
    }
    let near = CudaContext::new(0).unwrap().new_stream().unwrap();
    let far = CudaContext::new(1).unwrap().new_stream().unwrap();
    let here = near.clone_htod(&[1.5_f64; 100]).unwrap();
    let there = far.clone_dtod(&here).unwrap();
    assert_eq!(far.clone_dtoh(&there).unwrap(), [1.5; 100]);
}

#[test]
fn a_kernel_runs_on_a_slice() {
    let session = mock_gpu::session();
    if session.control().is_none() {
        return;
    }
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let mut slice = stream.clone_htod(&[10_u32; 64]).unwrap();
    let (mut count, mut addend) = (64_u64, 5_u32);
    // SAFETY: an image of machine code as far as the mock looks, and the arguments that the kernel takes.
    unsafe {
        let module = result::module::load_data(c"\x7fELF".as_ptr().cast()).unwrap();
        let function = result::module::get_function(module, c"warpio_add_u32".to_owned()).unwrap();
        let (mut pointer, _recorded) = slice.device_ptr_mut(&stream);
        let arguments = &mut [
            (&raw mut pointer).cast(),
            (&raw mut count).cast(),
            (&raw mut addend).cast(),
        ];
        let (grid, block) = ((1, 1, 1), (64, 1, 1));
        result::launch_kernel(function, grid, block, 0, stream.cu_stream(), arguments).unwrap();
        result::module::unload(module).unwrap();
    }
    assert_eq!(stream.clone_dtoh(&slice).unwrap(), [15; 64]);
}

#[test]
fn nothing_is_left_behind() {
    let session = mock_gpu::session();
    let Some(control) = session.control() else {
        return;
    };
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let other = stream.fork().unwrap();
    let slice = stream.clone_htod(&[1_u8; 100]).unwrap();
    let copied = other.clone_dtod(&slice).unwrap();
    drop((slice, copied, other));
    stream.synchronize().unwrap();
    context.synchronize().unwrap();
    assert_eq!(control.counters().device_allocations, 0);
    assert_eq!(control.counters().events, 0);
    drop(stream);
    assert_eq!(Arc::strong_count(&context), 1);
    drop(context);
    let counters = control.counters();
    assert_eq!((counters.contexts, counters.streams), (0, 0));
    assert_eq!(counters.violations, 0);
}

#[test]
fn errors_come_through_the_safe_layer() {
    let session = mock_gpu::session();
    let Some(control) = session.control() else {
        return;
    };
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    control.ctl("fail cuMemAllocAsync 2");
    assert_eq!(code(stream.alloc_zeros::<u8>(100)), 2);
    assert_eq!(code(stream.alloc_zeros::<u8>(100)), 0);
    control.ctl("sticky 0 700");
    assert_eq!(code(stream.synchronize()), 700);
    control.ctl("reset");
    assert_eq!(code(stream.synchronize()), 0);
    assert_eq!(code(CudaContext::new(1000)), 101);
}

#[test]
fn a_context_that_is_not_primary() {
    let _session = mock_gpu::session();
    let context = CudaContext::new_non_primary(0, 0).unwrap();
    let stream = context.new_stream().unwrap();
    let slice = stream.clone_htod(&[1_u8, 2, 3]).unwrap();
    assert_eq!(stream.clone_dtoh(&slice).unwrap(), [1, 2, 3]);
    drop(slice);
    drop(stream);
    drop(context);
    // SAFETY: nothing is current any more, which is what is to be seen.
    assert_eq!(result::ctx::get_current(), Ok(None));
}
