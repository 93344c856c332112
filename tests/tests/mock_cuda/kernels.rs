//! Kernels, by name.

use std::{
    ffi::{CString, c_void},
    ptr,
};

use cudarc::driver::{
    DriverError, result,
    sys::{CUfunction, CUmodule, CUstream},
};

use crate::support::{
    Gpu, Pinned, alloc, code, copy, download, fill, pattern, query, read, stall, stream,
    synchronize, try_alloc, upload,
};

/// A module's text. The mock only reads its entries' names.
const PTX: &str = ".version 8.0\n.target sm_90\n.address_size 64\n\
    .visible .entry warpio_fill_u8(.param .u64 a, .param .u8 b, .param .u64 c) { ret; }\n\
    .visible .entry warpio_add_u32(.param .u64 a, .param .u64 b, .param .u32 c) { ret; }\n\
    .visible .entry warpio_scatter(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) { ret; }\n\
    .visible .entry warpio_sum_u8(.param .u64 a, .param .u64 b, .param .u64 c) { ret; }\n\
    .visible .entry nobody_knows() { ret; }\n";

fn load(text: &str) -> Result<CUmodule, DriverError> {
    let text = CString::new(text).unwrap();
    // SAFETY: a NUL-terminated text that lives until the call returns.
    unsafe { result::module::load_data(text.as_ptr().cast()) }
}

fn find(module: CUmodule, name: &str) -> Result<CUfunction, DriverError> {
    // SAFETY: a module, live or not: a driver refuses one that is gone.
    unsafe { result::module::get_function(module, CString::new(name).unwrap()) }
}

fn function(name: &str) -> CUfunction {
    find(load(PTX).unwrap(), name).unwrap()
}

fn launch_as(
    function: CUfunction,
    block: u32,
    stream: CUstream,
    arguments: &mut [*mut c_void],
) -> Result<(), DriverError> {
    // SAFETY: the tests give each kernel the arguments that it takes.
    unsafe { result::launch_kernel(function, (1, 1, 1), (block, 1, 1), 0, stream, arguments) }
}

fn argument<T>(value: &mut T) -> *mut c_void {
    ptr::from_mut(value).cast()
}

fn fill_kernel(
    stream: CUstream,
    mut pointer: u64,
    mut value: u8,
    mut len: u64,
) -> Result<(), DriverError> {
    let function = function("warpio_fill_u8");
    let arguments = &mut [
        argument(&mut pointer),
        argument(&mut value),
        argument(&mut len),
    ];
    launch_as(function, 256, stream, arguments)
}

#[test]
fn kernels_run_in_stream_order() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let (one, two) = (alloc(100), alloc(100));
    let busy = stall(stream);
    fill(one, 1, 100, stream).unwrap();
    fill_kernel(stream, one + 50, 2, 25).unwrap();
    copy(two, one, 100, stream).unwrap();
    fill_kernel(stream, one, 3, 100).unwrap();
    assert_eq!(code(query(stream)), 600);
    drop(busy);
    synchronize(stream).unwrap();
    let found = read(two, 100);
    assert_eq!((found[49], found[50], found[74], found[75]), (1, 2, 2, 1));
    assert_eq!(read(one, 100), [3; 100]);
    assert_eq!(control.counters().kernels_run, 2);
}

#[test]
fn numbers_are_added() {
    let Some((_gpu, _)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let mut pointer = alloc(12);
    let bytes: Vec<u8> = [1_u32, 2, u32::MAX]
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    upload(pointer, &bytes, stream).unwrap();
    let (mut count, mut addend) = (3_u64, 10_u32);
    let arguments = &mut [
        argument(&mut pointer),
        argument(&mut count),
        argument(&mut addend),
    ];
    launch_as(function("warpio_add_u32"), 32, stream, arguments).unwrap();
    synchronize(stream).unwrap();
    let expected: Vec<u8> = [11_u32, 12, 9]
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    assert_eq!(read(pointer, 12), expected);
}

#[test]
fn bytes_are_scattered_from_pinned_memory() {
    let Some((_gpu, _)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let bytes = pattern(1000, 9);
    let (source, mut target) = (Pinned::of(&bytes), alloc(1000));
    fill(target, 0, 1000, stream).unwrap();
    let rows = [[0_u64, 900, 100], [500, 0, 1], [600, 10, 300]];
    let table: Vec<u8> = rows
        .as_flattened()
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let table = Pinned::of(&table);
    let (mut table_at, mut source_at, mut count) = (table.address(), source.address(), 3_u64);
    let arguments = &mut [
        argument(&mut target),
        argument(&mut table_at),
        argument(&mut source_at),
        argument(&mut count),
    ];
    launch_as(function("warpio_scatter"), 128, stream, arguments).unwrap();
    synchronize(stream).unwrap();
    let mut expected = vec![0; 1000];
    expected[900..].copy_from_slice(&bytes[..100]);
    expected[0] = bytes[500];
    expected[10..310].copy_from_slice(&bytes[600..900]);
    assert!(read(target, 1000) == expected);
}

#[test]
fn bytes_are_summed() {
    let Some((_gpu, _)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let bytes = pattern(5000, 2);
    let (mut pointer, mut sum) = (alloc(5000), alloc(8));
    upload(pointer, &bytes, stream).unwrap();
    let mut len = 5000_u64;
    let arguments = &mut [
        argument(&mut pointer),
        argument(&mut len),
        argument(&mut sum),
    ];
    launch_as(function("warpio_sum_u8"), 128, stream, arguments).unwrap();
    let mut out = [0; 8];
    download(&mut out, sum, stream).unwrap();
    let expected: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
    assert_eq!(u64::from_le_bytes(out), expected);
}

#[test]
fn arguments_are_taken_at_the_launch() {
    let Some((_gpu, _)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let (mut pointer, mut value, mut len) = (alloc(10), 1_u8, 10_u64);
    let target = pointer;
    let busy = stall(stream);
    let arguments = &mut [
        argument(&mut pointer),
        argument(&mut value),
        argument(&mut len),
    ];
    launch_as(function("warpio_fill_u8"), 32, stream, arguments).unwrap();
    (pointer, value, len) = (0, 9, 1 << 40);
    drop(busy);
    synchronize(stream).unwrap();
    assert_eq!(read(target, 10), [1; 10]);
    assert_eq!((pointer, value, len), (0, 9, 1 << 40));
}

#[test]
fn a_kernel_out_of_bounds_breaks_the_context() {
    let Some((_gpu, _)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let pointer = alloc(100);
    fill_kernel(stream, pointer, 1, 101).unwrap();
    assert_eq!(code(synchronize(stream)), 700);
    assert_eq!(code(try_alloc(16)), 700);
}

#[test]
fn unknown_functions_are_not_found() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    let module = load(PTX).unwrap();
    // In the text without a body here, with a body here but not in the text, in neither.
    assert_eq!(code(find(module, "nobody_knows")), 500);
    let small = load(".version 8.0\n.target sm_90\n.entry other() { ret; }").unwrap();
    assert_eq!(code(find(small, "warpio_fill_u8")), 500);
    assert_eq!(code(find(module, "missing")), 500);
    // SAFETY: live modules, of which nothing is used any more.
    unsafe { result::module::unload(module) }.unwrap();
    assert_eq!(code(find(module, "warpio_fill_u8")), 400);
    assert_eq!(control.counters().modules, 1);
}

#[test]
fn what_is_no_module_does_not_load() {
    let _gpu = Gpu::new();
    assert_ne!(code(load("hello, world")), 0);
}

#[test]
fn impossible_shapes_are_refused() {
    let Some((_gpu, _)) = Gpu::controlled() else {
        return;
    };
    let stream = stream();
    let (mut pointer, mut value, mut len) = (alloc(10), 1_u8, 10_u64);
    let arguments = &mut [
        argument(&mut pointer),
        argument(&mut value),
        argument(&mut len),
    ];
    let function = function("warpio_fill_u8");
    assert_eq!(code(launch_as(function, 0, stream, arguments)), 1);
    assert_eq!(code(launch_as(function, 1025, stream, arguments)), 1);
    assert_eq!(code(launch_as(function, 1024, stream, arguments)), 0);
    synchronize(stream).unwrap();
}
