//! Handles and address ranges: how the driver's objects are kept and found.

use std::collections::BTreeMap;

use crate::codes::{Code, Result};

/// What the driver API hands out for a context, stream, event, module and so on.
///
/// A handle is never handed out twice, so that one used after its object is gone is always noticed, and none is a
/// usable address: the CPU faults on it.
pub(crate) type Handle = u64;

/// The live objects of one kind.
#[derive(Debug)]
pub(crate) struct Table<T> {
    objects: BTreeMap<Handle, T>,
    last: Handle,
}

impl<T> Table<T> {
    /// An empty table whose handles carry `kind` in their upper bits, so that kinds cannot be mistaken.
    pub(crate) const fn new(kind: u16) -> Self {
        Self { objects: BTreeMap::new(), last: (kind as Handle) << 48 }
    }

    pub(crate) fn insert(&mut self, object: T) -> Handle {
        self.last += 16;
        self.objects.insert(self.last, object);
        self.last
    }

    pub(crate) fn get(&self, handle: Handle) -> Result<&T> {
        self.objects.get(&handle).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn get_mut(&mut self, handle: Handle) -> Result<&mut T> {
        self.objects.get_mut(&handle).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn remove(&mut self, handle: Handle) -> Result<T> {
        self.objects.remove(&handle).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.objects.iter().map(|(handle, object)| (*handle, object))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.objects.values_mut()
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&Handle, &mut T) -> bool) {
        self.objects.retain(keep);
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }
}

/// Something that covers `len` bytes from the address under which it is kept.
pub(crate) trait Span {
    fn len(&self) -> u64;
}

/// Address ranges that never overlap.
#[derive(Debug)]
pub(crate) struct Ranges<T>(BTreeMap<u64, T>);

impl<T: Span> Ranges<T> {
    pub(crate) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(crate) fn insert(&mut self, base: u64, range: T) {
        self.0.insert(base, range);
    }

    pub(crate) fn get(&self, base: u64) -> Option<&T> {
        self.0.get(&base)
    }

    pub(crate) fn get_mut(&mut self, base: u64) -> Option<&mut T> {
        self.0.get_mut(&base)
    }

    pub(crate) fn remove(&mut self, base: u64) -> Option<T> {
        self.0.remove(&base)
    }

    /// The range that holds `address`, with its base.
    pub(crate) fn holding(&self, address: u64) -> Option<(u64, &T)> {
        let (base, range) = self.0.range(..=address).next_back()?;
        (address - base < range.len()).then_some((*base, range))
    }

    /// The range that holds all of `[address, address + len)`, with its base.
    pub(crate) fn covering(&self, address: u64, len: u64) -> Option<(u64, &T)> {
        self.holding(address).filter(|(base, range)| len <= range.len() - (address - base))
    }

    /// Whether any range shares a byte with `[address, address + len)`.
    pub(crate) fn touches(&self, address: u64, len: u64) -> bool {
        let end = address.saturating_add(len);
        self.0.range(..end).next_back().is_some_and(|(base, range)| base + range.len() > address)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.0.iter().map(|(base, range)| (*base, range))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.0.iter_mut().map(|(base, range)| (*base, range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(u64);

    impl Span for Bytes {
        fn len(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn handles_are_not_reused() {
        let mut table = Table::new(0x51);
        let first = table.insert("a");
        table.remove(first).unwrap();
        let second = table.insert("b");
        assert_ne!(first, second);
        assert_eq!(table.get(first), Err(Code::INVALID_HANDLE));
        assert_eq!(table.get(second), Ok(&"b"));
    }

    #[test]
    fn ranges_find_what_covers() {
        let mut ranges = Ranges::new();
        ranges.insert(100, Bytes(50));
        ranges.insert(200, Bytes(10));
        assert!(ranges.covering(100, 50).is_some());
        assert!(ranges.covering(149, 1).is_some());
        assert!(ranges.covering(149, 2).is_none());
        assert!(ranges.covering(150, 0).is_none());
        assert!(ranges.covering(99, 1).is_none());
        assert!(ranges.covering(120, u64::MAX).is_none());
        assert_eq!(ranges.holding(205).map(|(base, _)| base), Some(200));
    }

    #[test]
    fn ranges_notice_overlap() {
        let mut ranges = Ranges::new();
        ranges.insert(100, Bytes(50));
        assert!(ranges.touches(149, 1));
        assert!(ranges.touches(90, 11));
        assert!(ranges.touches(0, u64::MAX));
        assert!(!ranges.touches(150, 10));
        assert!(!ranges.touches(90, 10));
    }
}
