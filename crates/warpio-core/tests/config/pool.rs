//! Staging pools that cannot be.

use warpio_core::{ErrorKind, PoolConfig};

fn config(budget: usize, slot_len: usize, small_slot_len: usize) -> PoolConfig {
    PoolConfig { budget, slot_len, small_slot_len, ..PoolConfig::default() }
}

#[test]
fn the_default_pool_is_valid() {
    PoolConfig::default().validate().unwrap();
}

#[test]
fn the_smallest_pool_has_one_slot_of_each_size() {
    config(128 << 10, 64 << 10, 64 << 10).validate().unwrap();
    assert!(config((128 << 10) - 1, 64 << 10, 64 << 10).validate().is_err());
}

#[test]
fn slots_that_cannot_be_are_refused() {
    for (bad, why) in [
        (config(1 << 20, 0, 4096), "the slot size must be a multiple of 4 KiB, not 0 bytes"),
        (config(1 << 20, 65537, 4096), "the slot size must be a multiple"),
        (config(1 << 20, 65536, 0), "the small slot size must be a multiple"),
        (config(1 << 20, 65536, 100), "the small slot size must be a multiple"),
        (config(1 << 20, 4096, 8192), "must not exceed the slot size"),
        (config(usize::MAX - 1, usize::MAX - 4095, 4096), "too small"),
    ] {
        let error = bad.validate().expect_err(why);
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains(why), "{error}");
    }
}
