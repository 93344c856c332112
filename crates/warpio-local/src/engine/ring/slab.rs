//! Where what the kernel may touch is kept, by the number that the ring carries.

/// Things by number. The numbers of removed ones are used again.
#[derive(Debug)]
pub(super) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { entries: Vec::with_capacity(capacity), free: Vec::with_capacity(capacity) }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn insert(&mut self, entry: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.entries[number as usize] = Some(entry);
            return number;
        }
        self.entries.push(Some(entry));
        (self.entries.len() - 1) as u32
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.entries.get_mut(number as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let entry = self.entries.get_mut(number as usize)?.take();
        if entry.is_some() {
            self.free.push(number);
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_but_never_twice_at_a_time() {
        let mut slab = Slab::with_capacity(1);
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!((slab.len(), slab.remove(a), slab.remove(a)), (2, Some('a'), None));
        let c = slab.insert('c');
        assert_eq!((c, slab.get_mut(b).copied(), slab.get_mut(c).copied()), (a, Some('b'), Some('c')));
        assert_eq!((slab.remove(b), slab.remove(c), slab.is_empty()), (Some('b'), Some('c'), true));
        assert!(slab.get_mut(7).is_none());
    }
}
