use std::ptr::null_mut;

use warpio_cuda::CudaDeviceExt;

use crate::lab::{KIB, Lab, bytes};

const LEN: usize = 64 * KIB;

pub(super) fn whole() -> String {
    let lab = Lab::open();
    let (file, memory) = (lab.read_only(1024 * KIB), lab.memory(1024 * KIB));
    let read = lab.read(lab.register(&file), memory.base, 1024 * KIB, 0, 0);
    format!("{read}, {}", memory.has(0, 0, 1024 * KIB))
}

pub(super) fn ends() -> String {
    let lab = Lab::open();
    let (file, memory) = (lab.read_only(LEN), lab.memory(2 * LEN));
    let handle = lab.register(&file);
    let read = |len, offset: usize| lab.read(handle, memory.base, len, offset as i64, 0);
    [read(8192, LEN - 4096), read(4096, LEN), read(4096, LEN + 100_000), read(0, 0)].join(", ")
}

pub(super) fn unaligned() -> String {
    let lab = Lab::open();
    let (file, memory) = (lab.read_only(LEN), lab.memory(LEN));
    let read = lab.read(lab.register(&file), memory.base, 10_001, 777, 333);
    format!("{read}, {}", memory.has(333, 777, 10_001))
}

pub(super) fn wrong() -> String {
    let lab = Lab::open();
    let (file, memory) = (lab.read_only(LEN), lab.memory(LEN));
    let handle = lab.register(&file);
    let reads = [
        lab.read(handle, null_mut(), 4096, 0, 0),
        lab.read(null_mut(), memory.base, 4096, 0, 0),
        lab.read(handle, memory.base, 4096, -4096, 0),
    ];
    format!("{}, memory {}", reads.join(", "), memory.is_untouched())
}

pub(super) fn wrong_mode() -> String {
    let lab = Lab::open();
    let (read_only, write_only, memory) = (lab.read_only(LEN), lab.write_only(LEN, 0), lab.memory(LEN));
    format!(
        "{}, {}",
        lab.read(lab.register(&write_only), memory.base, 4096, 0, 0),
        lab.write(lab.register(&read_only), memory.base, 4096, 0, 0)
    )
}

pub(super) fn written() -> String {
    let lab = Lab::open();
    let (file, memory) = (lab.read_write(LEN), lab.memory(LEN));
    let handle = lab.register(&file);
    memory.fill(7);
    let whole = lab.write(handle, memory.base, LEN, 0, 0);
    memory.fill(9);
    let part = lab.write(handle, memory.base, 100, 5, 3);
    let mut want = vec![7; LEN];
    want[5..105].fill(9);
    let right = std::fs::read(lab.path(LEN)).unwrap() == want;
    format!("{whole}, {part}, {}", if right { "right bytes" } else { "wrong bytes" })
}

pub(super) fn threads() -> String {
    let lab = Lab::open();
    let file = lab.read_only(1024 * KIB);
    let handle = lab.register(&file) as usize;
    let want = bytes(1024 * KIB);
    let lab = Shared(&lab);
    let right: usize = std::thread::scope(|scope| {
        let (lab, want) = (&lab, &want);
        let threads: Vec<_> = (0..16)
            .map(|thread| {
                scope.spawn(move || {
                    lab.0.device.adopt_thread().unwrap();
                    let memory = lab.0.memory(16 * KIB);
                    let one = |i: usize| {
                        let offset = (thread * 50 + i) * 1237 % (1008 * KIB);
                        let read = lab.0.read(handle as *mut _, memory.base, 16 * KIB, offset as i64, 0);
                        read == "16384" && memory.bytes() == want[offset..offset + 16 * KIB]
                    };
                    (0..50).filter(|&i| one(i)).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    format!("{right} right")
}

pub(super) fn no_context() -> String {
    let lab = Lab::open();
    let (file, memory) = (lab.read_only(LEN), lab.memory(LEN));
    let (handle, lab) = (lab.register(&file) as usize, Shared(&lab));
    let base = memory.base as usize;
    let read = std::thread::scope(|scope| {
        let lab = &lab;
        let thread = scope.spawn(move || lab.0.read(handle as *mut _, base as *mut _, LEN, 0, 0));
        thread.join().unwrap()
    });
    format!("{read}, {}", memory.has(0, 0, LEN))
}

/// The library may be called from any thread.
struct Shared<'a>(&'a Lab);

// SAFETY: what threads use of it are the library's functions and memory of their own.
unsafe impl Sync for Shared<'_> {}
