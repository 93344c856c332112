//! Tests that count on pages to stay cached. The kernel may evict any at any time, and some do ahead of need; it tells.

use std::ops::Range;
use std::os::fd::AsFd;

use warpio_local::page_cache::{PageCacheError, Residency, residency};

/// The kernel took pages of the file out of the cache meanwhile.
pub(crate) struct Evicted;

/// What is cached, unless the kernel has evicted pages of the range.
pub(crate) fn kept(found: Result<Residency, PageCacheError>) -> Result<Residency, Evicted> {
    let found = found.unwrap();
    if found.evicted.is_some_and(|pages| pages > 0) { Err(Evicted) } else { Ok(found) }
}

/// As [`kept`], of a range as it is now. To be asked after what counts on the pages, and before anything is concluded.
pub(crate) fn still_kept(file: impl AsFd, range: Range<u64>) -> Result<(), Evicted> {
    kept(residency(file, range)).map(drop)
}

/// Runs `check` until the kernel did not interfere.
pub(crate) fn undisturbed(check: impl Fn() -> Result<(), Evicted>) {
    assert!((0..10).any(|_| check().is_ok()), "the kernel evicted pages ten times");
}

/// As [`undisturbed`].
pub(crate) async fn undisturbed_async(check: impl AsyncFn() -> Result<(), Evicted>) {
    for _ in 0..10 {
        if check().await.is_ok() {
            return;
        }
    }
    panic!("the kernel evicted pages ten times");
}
