use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::driver::lock;

/// The ranges that are registered with one driver, by their first address.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<BTreeMap<usize, usize>>);

impl Registry {
    pub(super) fn insert(&self, base: usize, len: usize) {
        lock(&self.0).insert(base, len);
    }

    pub(super) fn remove(&self, base: usize) {
        lock(&self.0).remove(&base);
    }

    /// The base of the registered range that holds all of `address..address + len`.
    pub(crate) fn base_of(&self, address: usize, len: usize) -> Option<usize> {
        let ranges = lock(&self.0);
        // Ranges may nest, so the nearest one need not be the one that is long enough.
        let mut before = ranges.range(..=address).rev();
        before
            .find(|&(&base, &length)| address - base <= length && len <= length - (address - base))
            .map(|(&base, _)| base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_that_holds_all_of_it_is_found() {
        let registry = Registry::default();
        registry.insert(1000, 500);
        registry.insert(1100, 10);
        registry.insert(5000, 100);
        assert_eq!(registry.base_of(1000, 500), Some(1000));
        assert_eq!(registry.base_of(1105, 5), Some(1100));
        assert_eq!(registry.base_of(1105, 6), Some(1000), "the inner range is too short");
        assert_eq!(registry.base_of(1499, 2), None);
        assert_eq!(registry.base_of(999, 1), None);
        assert_eq!(registry.base_of(4000, usize::MAX), None);
        registry.remove(1000);
        assert_eq!(registry.base_of(1105, 6), None);
    }
}
