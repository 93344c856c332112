//! Registered memory.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use futures::executor::block_on;
use warpio_core::{DeviceBytesMut, ErrorKind, Moved};
use warpio_cufile::{CuFileTarget, EngineOptions, Route, wait_for_releases};

use crate::support::{Bench, MIB, Rig, assert_bytes, finished, until};

fn options(registered: u64) -> EngineOptions {
    let mut options = EngineOptions::default();
    options.registered = registered;
    options.route = Route::Sync;
    options
}

fn one_thread(registered: u64) -> EngineOptions {
    let mut options = options(registered);
    options.threads = 1;
    options
}

fn read_into(bench: &Bench, target: &CuFileTarget, buffer: DeviceBytesMut) -> DeviceBytesMut {
    let Moved { buffer, .. } = finished(bench.starter().read(Arc::new(target.clone()), 0, buffer));
    buffer
}

#[test]
fn a_registered_buffer_is_used_by_its_base_and_let_go_before_its_memory() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(2 * MIB);
    let bench = rig.engine(options(0));
    let target = bench.target(&path, false);
    let buffer = block_on(bench.driver.register(rig.device.alloc(2 * MIB).unwrap())).unwrap();
    assert_eq!((rig.mock.counters().buffers, rig.mock.counters().pinned_bytes), (1, 2 * MIB as u64));
    let mut buffer = read_into(&bench, &target, buffer);
    let half = buffer.split_off(MIB);
    assert_bytes(half, MIB, MIB);
    assert_eq!(rig.mock.counters().buffers, 1, "as long as a piece lives");
    drop(buffer);
    until(|| rig.mock.counters().buffers == 0);
    // The memory goes behind the registration, or the mock would have said so.
    until(|| rig.gpu().counters().device_bytes == 0);
    assert_eq!(rig.mock.counters().violations, 0);
}

#[test]
fn a_buffer_that_cannot_be_registered_comes_back() {
    for (rule, kind) in [
        ("pin_limit 1000", ErrorKind::OutOfMemory),
        ("pin_limit 1000 code 5036", ErrorKind::OutOfMemory),
        ("on BufRegister status 5023", ErrorKind::InvalidInput),
        ("on BufRegister status 5011 201", ErrorKind::Device),
    ] {
        let Some(rig) = Rig::new("mode gds") else { return };
        rig.mock.ctl(rule);
        let driver = rig.driver();
        let failed = block_on(driver.register(rig.device.alloc(MIB).unwrap())).unwrap_err();
        assert_eq!(failed.error.kind(), kind, "{rule}: {}", failed.error);
        assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(MIB));
        assert_eq!(rig.mock.counters().buffers, 0);
    }
}

#[test]
fn memory_that_is_used_again_is_registered_once() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(2 * MIB);
    let bench = rig.engine(options(64 * MIB as u64));
    let target = bench.target(&path, false);
    let mut buffer = read_into(&bench, &target, rig.device.alloc(2 * MIB).unwrap());
    assert_eq!(rig.mock.calls("BufRegister"), 0, "used once, it may never be used again");
    for _ in 0..4 {
        buffer = read_into(&bench, &target, buffer);
    }
    assert_eq!(rig.mock.calls("BufRegister"), 1);
    assert_eq!(bench.engine.stats().registered, 2 * MIB as u64);
    assert_bytes(buffer, 0, 2 * MIB);
    until(|| rig.mock.counters().buffers == 0);
    assert_eq!(bench.engine.stats().registered, 0);
    assert_eq!(rig.mock.counters().violations, 0);
}

#[test]
fn the_least_recently_used_registration_makes_room() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(MIB);
    let bench = rig.engine(options(2 * MIB as u64));
    let target = bench.target(&path, false);
    let mut buffers: Vec<_> = (0..3).map(|_| rig.device.alloc(MIB).unwrap()).collect();
    let mut touch = |which: usize| {
        let buffer = buffers.remove(which);
        buffers.insert(which, read_into(&bench, &target, buffer));
    };
    for which in [0, 0, 1, 1, 0] {
        touch(which);
    }
    assert_eq!(rig.mock.calls("BufRegister"), 2);
    // The third needs the room of the second, which was used before the first.
    touch(2);
    touch(2);
    wait_for_releases();
    assert_eq!((rig.mock.calls("BufRegister"), rig.mock.calls("BufDeregister")), (3, 1));
    touch(0);
    assert_eq!(rig.mock.calls("BufRegister"), 3, "the first is still registered");
    assert_eq!(bench.engine.stats().registered, 2 * MIB as u64);
}

#[test]
fn memory_that_cannot_be_pinned_is_used_without() {
    for code in [5016, 5036] {
        let Some(rig) = Rig::new(&format!("mode gds; pin_limit {} code {code}", 3 * MIB)) else { return };
        let path = rig.file(2 * MIB);
        let bench = rig.engine(options(1 << 30));
        let target = bench.target(&path, false);
        let mut buffers: Vec<_> = (0..3).map(|_| rig.device.alloc(2 * MIB).unwrap()).collect();
        for _ in 0..3 {
            buffers = buffers.into_iter().map(|buffer| read_into(&bench, &target, buffer)).collect();
        }
        assert_eq!(rig.mock.counters().buffers, 1, "{code}");
        // The limit is learnt from the first refusal.
        assert_eq!(rig.mock.calls("BufRegister"), 2, "{code}");
        for buffer in buffers {
            assert_bytes(buffer, 0, 2 * MIB);
        }
        assert_eq!(bench.engine.stats().refused, 0);
    }
}

/// Two allocations that lie one behind the other, as those of a real GPU often do.
fn neighbours(rig: &Rig) -> [DeviceBytesMut; 2] {
    let whole = Arc::new(Mutex::new(rig.device.alloc(4 * MIB).unwrap()));
    let base = whole.lock().unwrap().as_mut_ptr();
    [0, 2 * MIB].map(|at| {
        let start = NonNull::new(base.wrapping_add(at)).unwrap();
        // SAFETY: the two halves hold the memory that they lie in, and nobody else uses it.
        unsafe { DeviceBytesMut::from_raw_parts(&rig.device, start, 2 * MIB, whole.clone()) }
    })
}

/// Reads into both at once, in requests that go on from one to the other as far as addresses tell.
fn read_both(rig: &Rig, bench: &Bench, target: &CuFileTarget, buffers: [DeviceBytesMut; 2]) -> [DeviceBytesMut; 2] {
    // The only thread is held up until both wait.
    rig.mock.ctl("on Read size 4096 times 1 block");
    let before = bench.read(target, 0, 4096);
    rig.mock.ctl("wait blocked 1");
    let mut offset = 0;
    let transfers = buffers.map(|buffer| {
        offset += 2 * MIB as u64;
        bench.starter().read(Arc::new(target.clone()), offset - 2 * MIB as u64, buffer)
    });
    rig.mock.ctl("release");
    finished(before);
    transfers.map(|transfer| finished(transfer).buffer)
}

#[test]
fn no_request_goes_over_the_end_of_an_allocation() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(4 * MIB);
    let bench = rig.engine(one_thread(64 * MIB as u64));
    let target = bench.target(&path, false);
    finished(bench.read(&target, 0, 4096));
    let [mut first, mut second] = neighbours(&rig);
    for _ in 0..3 {
        // The first is registered from its second use on, and the second never is before it.
        first = read_into(&bench, &target, first);
        [first, second] = read_both(&rig, &bench, &target, [first, second]);
    }
    assert_bytes(first, 0, 2 * MIB);
    assert_bytes(second, 2 * MIB, 2 * MIB);
    assert_eq!((bench.engine.stats().refused, bench.engine.stats().retries), (0, 0));
    assert_eq!(rig.mock.counters().violations, 0);
}

#[test]
fn what_is_refused_for_its_neighbours_is_asked_for_alone_and_the_file_is_served_on() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(4 * MIB);
    let bench = rig.engine(one_thread(0));
    let target = bench.target(&path, false);
    finished(bench.read(&target, 0, 4096));
    let mut first = rig.device.alloc(4 * MIB).unwrap();
    let second = first.split_off(2 * MIB);
    rig.mock.ctl(&format!("on Read size {} times 1 errno 5017", 4 * MIB));
    let [first, second] = read_both(&rig, &bench, &target, [first, second]);
    assert_bytes(first, 0, 2 * MIB);
    assert_bytes(second, 2 * MIB, 2 * MIB);
    assert_eq!((bench.engine.stats().refused, bench.engine.stats().retries), (0, 2), "cuFile did all of it");
    // Alone it is refused as well: for its memory, not for its file.
    rig.mock.ctl("on Read times 1 errno 5017");
    finished(bench.read(&target, 0, MIB));
    finished(bench.read(&target, 0, MIB));
    assert_eq!(bench.engine.stats().refused, 1);
}

#[test]
fn an_engine_that_goes_lets_its_registrations_go() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(MIB);
    let bench = rig.engine(options(64 * MIB as u64));
    let target = bench.target(&path, false);
    let buffer = read_into(&bench, &target, rig.device.alloc(MIB).unwrap());
    let buffer = read_into(&bench, &target, buffer);
    assert_eq!(rig.mock.counters().buffers, 1);
    drop((bench, target));
    until(|| rig.mock.counters().open == 0);
    assert_eq!((rig.mock.counters().buffers, rig.mock.counters().leaks), (0, 0));
    drop(buffer);
    until(|| rig.gpu().counters().device_bytes == 0);
}
