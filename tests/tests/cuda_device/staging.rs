use warpio_core::ErrorKind;
use warpio_cuda::{CudaDeviceExt, wait_for_releases};

use crate::support::*;

#[test]
fn staging_memory_is_pinned_initialised_and_aligned() {
    let gpu = Gpu::new();
    let mut slot = gpu.device.staging().acquire_blocking(MIB).unwrap();
    assert_eq!(slot.as_ptr().as_ptr() as usize % 4096, 0);
    assert!(slot.as_slice().iter().all(|&byte| byte == 0));
    slot.as_mut_slice().fill(9);
    if let Some(mock) = gpu.control() {
        let counters = mock.counters();
        assert_eq!((counters.registered_bytes, counters.pinned_bytes), (MIB as u64, 0));
    }
}

#[test]
fn large_slabs_lie_on_huge_pages() {
    let mut options = options();
    options.pool.budget = 64 * MIB;
    options.pool.slab_len = 8 * MIB;
    let gpu = Gpu::with(options);
    let slot = gpu.device.staging().acquire_blocking(MIB).unwrap();
    let region = slot.region();
    assert_eq!((region.slab.0 % (2 * MIB), region.slab.1), (0, 8 * MIB));
}

#[test]
fn the_pool_grows_to_its_budget_and_gives_memory_back() {
    let gpu = Gpu::new();
    let staging = gpu.device.staging();
    let slots: Vec<_> = (0..staging.max_slots()).map(|_| staging.acquire_blocking(MIB).unwrap()).collect();
    assert!(staging.try_acquire(MIB).is_none());
    let stats = staging.stats();
    assert!(stats.allocated <= stats.budget && slots.len() == 3, "{stats:?}");
    let Some(mock) = gpu.control() else { return };
    assert_eq!(mock.counters().registered_bytes, 3 * MIB as u64);
    drop(slots);
    assert_eq!(staging.trim(), 3 * MIB);
    wait_for_releases();
    assert_eq!(mock.counters().registered_bytes, 0);
    assert_eq!(mock.calls("cuMemHostUnregister"), 3);
}

#[test]
fn where_pages_cannot_be_registered_the_driver_allocates_them() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    mock.ctl("fail cuMemHostRegister 801 forever");
    let data = pattern(3 * MIB + 17, 1);
    let buffer = upload(&gpu.device, &data).freeze();
    assert_eq!(read_back(&buffer), data);
    let counters = mock.counters();
    assert!(counters.registered_bytes == 0 && counters.pinned_bytes >= MIB as u64, "{counters:?}");
    gpu.device.staging().trim();
    wait_for_releases();
    assert_eq!(mock.counters().pinned_bytes, 0);
}

#[test]
fn memory_that_cannot_be_pinned_is_out_of_memory() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    mock.ctl("pinned_limit 65536");
    let error = gpu.device.staging().acquire_blocking(MIB).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert!(error.to_string().contains("cannot pin 1048576 bytes"), "{error}");
    mock.ctl("pinned_limit off");
    gpu.device.staging().acquire_blocking(MIB).expect("there is room again");
}

#[test]
fn a_pool_that_cannot_grow_shares_what_it_has() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    gpu.device.staging().warm(2 * MIB);
    mock.ctl(&format!("pinned_limit {}", 2 * MIB));
    let data = pattern(6 * MIB, 2);
    assert_eq!(read_back(&upload(&gpu.device, &data).freeze()), data);
}

#[test]
fn memory_that_cannot_be_unpinned_is_kept() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let slot = gpu.device.staging().acquire_blocking(MIB).unwrap();
    let address = slot.as_ptr().as_ptr() as usize;
    drop(slot);
    mock.ctl("fail cuMemHostUnregister 1");
    gpu.device.staging().trim();
    wait_for_releases();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().any(|line| {
        let (range, _) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(start)..number(end)).contains(&address)
    });
    assert!(mapped, "pinned addresses would be handed out again");
}

#[test]
fn nothing_is_left_of_a_device() {
    let gpu = Gpu::new();
    let buffer = upload(&gpu.device, &pattern(2 * MIB, 5)).freeze();
    assert_eq!(buffer.device(), &gpu.device);
    let (free, total) = gpu.device.memory().unwrap();
    assert!(free < total);
    let Some(mock) = gpu.control() else { return };
    let Gpu { device, .. } = &gpu;
    let counters = mock.counters();
    assert!(counters.contexts == 1 && counters.streams >= 1 && counters.events >= 1, "{counters:?}");
    let clone = device.clone();
    drop(buffer);
    let _session = gpu.into_session();
    assert_eq!(mock.counters().contexts, 1, "the clone keeps it");
    drop(clone);
    until(|| {
        wait_for_releases();
        mock.counters().contexts == 0
    });
    let left = mock.counters();
    assert_eq!((left.device_bytes, left.registered_bytes, left.streams, left.events), (0, 0, 0, 0));
    assert_eq!(left.violations, 0);
}
